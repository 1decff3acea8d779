import Testing

@testable import LATFleet

struct ChecksumTests {
    private func sum(_ text: String, seed: UInt64 = 0) -> UInt64 {
        Array(text.utf8).withUnsafeBytes { Checksum.of($0, seed: seed) }
    }

    /// The values are those of xxHash.
    @Test(
        arguments: [
            ("", 0xEF46_DB37_51D8_E999), ("a", 0xD24E_C4F1_A98C_6E5B), ("abc", 0x44BC_2CF5_AD77_0999),
            ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
        ] as [(String, UInt64)])
    func checksumIsXXH64(_ text: String, _ expected: UInt64) {
        #expect(sum(text) == expected)
        #expect(sum(text, seed: 1) != expected)
    }

    @Test func everyChangedOrMissingByteIsNoticed() {
        for count in [0, 1, 7, 8, 31, 32, 33, 100] {
            let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) }
            let whole = content + content.withUnsafeBytes { Checksum.bytes(of: $0, seed: 5) }
            #expect(whole.withUnsafeBytes { Checksum.count(of: $0, seed: 5) } == count)
            #expect(whole.withUnsafeBytes { Checksum.count(of: $0, seed: 6) } == nil)
            #expect(whole.dropLast().withUnsafeBytes { Checksum.count(of: $0, seed: 5) } == nil)
            for place in whole.indices {
                var changed = whole
                changed[place] ^= 1
                #expect(changed.withUnsafeBytes { Checksum.count(of: $0, seed: 5) } == nil)
            }
        }
    }
}
