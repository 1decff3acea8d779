import CZlib
import FoundationEssentials
internal import HTTPCore

/// Writes `gzip` (RFC 1952), or `deflate`, which is zlib (RFC 1950).
final class ZlibEncoder: ContentCoding.Encoder {
    private let stream: UnsafeMutablePointer<z_stream>
    private static let bufferSize = 32 << 10

    /// Makes an encoder; `nil` when memory is short.
    init?(_ coding: ZlibDecoder.Coding) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard lat_deflate_begin(stream, coding == .gzip ? MAX_WBITS + 16 : MAX_WBITS, 8) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    func encode(_ piece: Data, flushes: Bool) -> Data { encode(piece, flushes ? Z_SYNC_FLUSH : Z_NO_FLUSH) }

    func finish() -> Data { encode(Data(), Z_FINISH) }

    /// The whole of a body in gzip; empty when memory is short.
    static func gzip(_ body: Data) -> Data {
        guard let encoder = ZlibEncoder(.gzip) else { return Data() }
        return encoder.encode(body, flushes: false) + encoder.finish()
    }

    private func encode(_ piece: Data, _ flush: CInt) -> Data {
        var output = Data()
        piece.withUnsafeBytes { bytes in
            var rest = bytes[...]
            repeat {
                // zlib counts bytes in 32 bits.
                let part = UnsafeRawBufferPointer(rebasing: rest.prefix(1 << 30))
                rest = rest.dropFirst(part.count)
                encode(part, rest.isEmpty ? flush : Z_NO_FLUSH, into: &output)
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
