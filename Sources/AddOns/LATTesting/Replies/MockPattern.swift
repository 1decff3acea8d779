import FoundationEssentials
import Glibc

/// The endless, repeating bytes of ``MockReply/pattern(byteCount:contentType:)``. The offset alone determines each
/// byte, so a body of any size is sent and checked without being held in memory.
///
/// ```swift
/// server.enqueue(.pattern(byteCount: 1 << 30))
/// var offset: Int64 = 0
/// for try await chunk in response.body {
///     #expect(MockPattern.firstMismatch(in: chunk, at: offset) == nil)
///     offset += Int64(chunk.count)
/// }
/// ```
///
/// The period is a prime. A piece that is sent twice, left out or misplaced is found, unless the error is an exact
/// multiple of the period.
public enum MockPattern {
    /// The number of bytes after which the content repeats: 262,139.
    public static let period: Int64 = 262_139

    /// Returns the byte at an offset from the start of the body. Negative offsets are read as zero.
    public static func byte(at offset: Int64) -> UInt8 { table[Int(max(0, offset) % period)] }

    /// Returns the bytes of a range of offsets, for short pieces.
    public static func bytes(in range: Range<Int64>) -> Data {
        var data = Data(capacity: range.count)
        var offset = range.lowerBound
        while offset < range.upperBound {
            offset += withBytes(at: offset, limit: range.upperBound - offset) { piece in
                data.append(contentsOf: piece)
                return Int64(piece.count)
            }
        }
        return data
    }

    /// Compares received bytes with the pattern.
    ///
    /// - Parameters:
    ///   - data: The received bytes.
    ///   - offset: Where the received bytes begin in the body.
    /// - Returns: The offset of the first wrong byte, counted from the start of the body; `nil` when all are right.
    public static func firstMismatch(in data: some Collection<UInt8>, at offset: Int64) -> Int64? {
        let found = data.withContiguousStorageIfAvailable { firstMismatch(in: UnsafeRawBufferPointer($0), at: offset) }
        if let found { return found }
        return Array(data).withUnsafeBytes { firstMismatch(in: $0, at: offset) }
    }

    private static func firstMismatch(in received: UnsafeRawBufferPointer, at start: Int64) -> Int64? {
        var checked = 0
        while checked < received.count {
            let offset = start + Int64(checked)
            let rest = UnsafeRawBufferPointer(rebasing: received[checked...])
            let (count, mismatch) = withBytes(at: offset, limit: Int64(rest.count)) { expected -> (Int, Int?) in
                guard let left = rest.baseAddress, let right = expected.baseAddress,
                    memcmp(left, right, expected.count) != 0
                else { return (expected.count, nil) }
                return (expected.count, expected.indices.first { rest[$0] != expected[$0] })
            }
            if let mismatch { return offset + Int64(mismatch) }
            checked += count
        }
        return nil
    }

    /// Calls `body` with the longest contiguous piece from an offset: at least 256 KiB unless `limit` is less.
    static func withBytes<Result>(
        at offset: Int64, limit: Int64, _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result {
        let start = Int(max(0, offset) % period)
        return try table.withUnsafeBytes { bytes in
            let count = Int(min(limit, Int64(bytes.count - start)))
            return try body(UnsafeRawBufferPointer(rebasing: bytes[start..<(start + max(0, count))]))
        }
    }

    /// One period and 256 KiB of the next, so that a long piece can start anywhere.
    private static let table: [UInt8] = {
        let length = Int(period)
        return [UInt8](unsafeUninitializedCapacity: length + 262_144) { bytes, count in
            var state: UInt64 = 0x9E37_79B9_7F4A_7C15
            for index in 0..<length {
                state ^= state << 13
                state ^= state >> 7
                state ^= state << 17
                bytes[index] = UInt8(truncatingIfNeeded: state >> 24)
            }
            for index in 0..<262_144 { bytes[length + index] = bytes[index % length] }
            count = length + 262_144
        }
    }()
}
