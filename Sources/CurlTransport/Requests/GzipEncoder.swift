import CZlib
import FoundationEssentials

/// Compresses a sequence of pieces into one gzip stream (RFC 1952). Used by one task.
final class GzipEncoder {
    /// When the compressed bytes of a piece must be output.
    enum Flush: CInt {
        /// Whenever the encoder has enough input (`Z_NO_FLUSH`).
        case none = 0
        /// With this piece (`Z_SYNC_FLUSH`).
        case piece = 2
        /// With this piece, the last one (`Z_FINISH`).
        case end = 4
    }

    private let stream: UnsafeMutablePointer<z_stream>
    private static let bufferSize = 32 << 10

    /// Makes an encoder; `nil` when memory is short.
    init?() {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard lat_gzip_begin(stream) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Returns the next compressed bytes; empty when the encoder keeps the piece for later.
    func encode(_ piece: Data, _ flush: Flush) -> Data {
        var output = Data()
        piece.withUnsafeBytes { bytes in
            var rest = bytes[...]
            repeat {
                // zlib counts bytes in 32 bits.
                let part = UnsafeRawBufferPointer(rebasing: rest.prefix(1 << 30))
                rest = rest.dropFirst(part.count)
                encode(part, rest.isEmpty ? flush.rawValue : Z_NO_FLUSH, into: &output)
            } while !rest.isEmpty
        }
        return output
    }

    private func encode(_ part: UnsafeRawBufferPointer, _ flush: CInt, into output: inout Data) {
        // zlib only reads this, but its declaration lacks const.
        stream.pointee.next_in = UnsafeMutablePointer(
            mutating: part.baseAddress?.assumingMemoryBound(to: Bytef.self))
        stream.pointee.avail_in = uInt(part.count)
        withUnsafeTemporaryAllocation(of: Bytef.self, capacity: Self.bufferSize) { buffer in
            repeat {
                stream.pointee.next_out = buffer.baseAddress
                stream.pointee.avail_out = uInt(buffer.count)
                deflate(stream, flush)
                output.append(contentsOf: buffer.prefix(buffer.count - Int(stream.pointee.avail_out)))
                // A full buffer means that there may be more output.
            } while stream.pointee.avail_out == 0
        }
        stream.pointee.next_in = nil
    }
}
