import CZlib

/// Compresses a client's messages (RFC 7692 §7.2.1).
final class Deflater {
    private let stream: UnsafeMutablePointer<z_stream>
    /// Whether each message begins with an empty window.
    private let resetsEachMessage: Bool
    /// How many bytes zlib is given at once; it counts them with 32 bits.
    private let largestPiece: Int

    /// A window of 4 KiB with a small table takes 32 KiB, and compresses messages nearly as well as the largest one, which
    /// takes 256 KiB.
    private static let usualWindow = 12
    private static let memoryLevel: CInt = 5

    /// Makes a compressor; `nil` when memory is short.
    ///
    /// - Parameter window: the largest window that the server allows, as a power of two; at least 9, because zlib uses
    ///   9 in place of 8.
    init?(window: Int, resetsEachMessage: Bool, largestPiece: Int = Int(uInt.max)) {
        self.resetsEachMessage = resetsEachMessage
        self.largestPiece = largestPiece
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard lat_deflate_begin(stream, -CInt(min(window, Self.usualWindow)), Self.memoryLevel) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Compresses a message that is not empty. Returns `nil` when zlib fails, which it does only without memory.
    func deflate(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
        let bytes = message.assumingMemoryBound(to: Bytef.self)
        // zlib only reads this, but its declaration lacks const.
        stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
        defer { stream.pointee.next_in = nil }
        var left = bytes.count
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count / 2 + 64)
        let isDone = withUnsafeTemporaryAllocation(of: Bytef.self, capacity: 16 << 10) { buffer -> Bool in
            repeat {
                let count = min(left, largestPiece)
                left -= count
                stream.pointee.avail_in = uInt(count)
                repeat {
                    stream.pointee.next_out = buffer.baseAddress
                    stream.pointee.avail_out = uInt(buffer.count)
                    let code = CZlib.deflate(stream, left == 0 ? Z_SYNC_FLUSH : Z_NO_FLUSH)
                    guard code == Z_OK || code == Z_BUF_ERROR else { return false }
                    output.append(contentsOf: buffer[..<(buffer.count - Int(stream.pointee.avail_out))])
                } while stream.pointee.avail_out == 0
            } while left > 0
            return true
        }
        if resetsEachMessage { deflateReset(stream) }
        // Every message ends with 00 00 FF FF, which is left out.
        guard isDone, output.count >= 4 else { return nil }
        output.removeLast(4)
        return output
    }
}
