import Cryptography
import Foundation
import Testing

/// Published test vectors of the algorithms for sealing and signing.
struct PublishedVectorTests {
    private static func bytes(_ hexadecimal: String) -> [UInt8] {
        let digits = Array(hexadecimal.filter { !$0.isWhitespace })
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0...($0 + 1)]), radix: 16) ?? 0 }
    }

    struct Sealed: Sendable {
        var cipher: AuthenticatedCipher
        var key: String
        var nonce: String
        var associated: String
        var plaintext: String
        var sealed: String
    }

    private static let vectors = [
        // Test case 16 of the specification of Galois/Counter Mode, to which SP 800-38D refers.
        Sealed(
            cipher: .aes256GCM, key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            nonce: "cafebabefacedbaddecaf888", associated: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            plaintext: """
                d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39
                """,
            sealed: """
                522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
                8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
                76fc6ece0f4e1768cddf8853bb2d551b
                """),
        // RFC 8439 §2.8.2.
        Sealed(
            cipher: .chaCha20Poly1305, key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            nonce: "070000004041424344454647", associated: "50515253c0c1c2c3c4c5c6c7",
            plaintext: """
                4c616469657320616e642047656e746c656d656e206f662074686520636c6173
                73206f66202739393a204966204920636f756c64206f6666657220796f75206f
                6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73
                637265656e20776f756c642062652069742e
                """,
            sealed: """
                d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
                3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
                92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
                3ff4def08e4b7a9de576d26586cec64b6116
                1ae10b594f09e26a7e902ecbd0600691
                """),
    ]

    @Test(arguments: vectors)
    func sealedBytesMatchPublishedVectors(vector: Sealed) throws {
        let (key, nonce, associated) = (Self.bytes(vector.key), Self.bytes(vector.nonce), Self.bytes(vector.associated))
        let sealed = try vector.cipher.seal(
            Self.bytes(vector.plaintext), key: key, nonce: nonce, associated: associated)
        #expect(sealed == Self.bytes(vector.sealed))
        let opened = try vector.cipher.open(sealed, key: key, nonce: nonce, associated: associated)
        #expect(opened == Self.bytes(vector.plaintext))
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 1
            #expect(throws: CryptographyError.authentication) {
                try vector.cipher.open(changed, key: key, nonce: nonce, associated: associated)
            }
        }
    }

    /// RFC 4231 §4.2, §4.4, §4.5, §4.7 and §4.8. `VectorTests` has §4.3.
    @Test(
        arguments: [
            (
                [UInt8](repeating: 0x0B, count: 20), Array("Hi There".utf8),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                [UInt8](repeating: 0xAA, count: 20), [UInt8](repeating: 0xDD, count: 50),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
            ),
            (
                [UInt8](1...25), [UInt8](repeating: 0xCD, count: 50),
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array(
                    ("This is a test using a larger than block-size key and a larger than block-size data. The key "
                        + "needs to be hashed before being used by the HMAC algorithm.").utf8),
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
            ),
        ] as [([UInt8], [UInt8], String)])
    func hmacMatchesRFC4231(key: [UInt8], data: [UInt8], code: String) throws {
        #expect(MessageDigest.hexadecimal(try MessageDigest.hmac(data, key: key)) == code)
    }
}
