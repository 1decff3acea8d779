/// XXH64, a checksum of 64 bits. It detects bytes in Redis that are damaged, truncated or stored in another place.
///
/// It takes a tenth of the time of SHA-256, or less on a processor without SHA instructions. It does not protect against
/// somebody who can write to the Redis; ``FleetCacheOptions/encryptionKey`` does.
enum Checksum {
    static let byteCount = 8

    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

    /// The checksum of bytes. Another seed gives another checksum.
    static func of(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        func word(_ place: Int) -> UInt64 {
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        }
        var place = 0
        var sum = seed &+ prime5
        if bytes.count >= 32 {
            var lanes = (seed &+ prime1 &+ prime2, seed &+ prime2, seed, seed &- prime1)
            while place + 32 <= bytes.count {
                lanes.0 = mixed(lanes.0, word(place))
                lanes.1 = mixed(lanes.1, word(place + 8))
                lanes.2 = mixed(lanes.2, word(place + 16))
                lanes.3 = mixed(lanes.3, word(place + 24))
                place += 32
            }
            sum = rotated(lanes.0, 1) &+ rotated(lanes.1, 7) &+ rotated(lanes.2, 12) &+ rotated(lanes.3, 18)
            sum = merged(merged(merged(merged(sum, lanes.0), lanes.1), lanes.2), lanes.3)
        }
        sum &+= UInt64(bytes.count)
        while place + 8 <= bytes.count {
            sum = rotated(sum ^ mixed(0, word(place)), 27) &* prime1 &+ prime4
            place += 8
        }
        if place + 4 <= bytes.count {
            let half = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self))
            sum = rotated(sum ^ UInt64(half) &* prime1, 23) &* prime2 &+ prime3
            place += 4
        }
        while place < bytes.count {
            sum = rotated(sum ^ UInt64(bytes[place]) &* prime5, 11) &* prime1
            place += 1
        }
        sum = (sum ^ sum >> 33) &* prime2
        sum = (sum ^ sum >> 29) &* prime3
        return sum ^ sum >> 32
    }

    /// The bytes of the checksum, which follow the bytes themselves.
    static func bytes(of bytes: UnsafeRawBufferPointer, seed: UInt64) -> [UInt8] {
        withUnsafeBytes(of: of(bytes, seed: seed).littleEndian) { Array($0) }
    }

    /// The number of bytes before the checksum; `nil` when the checksum is wrong.
    static func count(of bytes: UnsafeRawBufferPointer, seed: UInt64) -> Int? {
        let count = bytes.count - byteCount
        guard count >= 0 else { return nil }
        let sum = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: count, as: UInt64.self))
        return of(UnsafeRawBufferPointer(rebasing: bytes[..<count]), seed: seed) == sum ? count : nil
    }

    private static func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }

    private static func mixed(_ lane: UInt64, _ word: UInt64) -> UInt64 {
        rotated(lane &+ word &* prime2, 31) &* prime1
    }

    private static func merged(_ sum: UInt64, _ lane: UInt64) -> UInt64 { (sum ^ mixed(0, lane)) &* prime1 &+ prime4 }
}
