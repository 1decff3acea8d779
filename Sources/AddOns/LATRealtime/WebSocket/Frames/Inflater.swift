import CZlib

/// Decompresses the messages of a server (RFC 7692 §7.2.2). It always has the largest window, which can read the data of any
/// smaller one.
final class Inflater {
    enum Outcome {
        case done
        case tooLarge
        case broken
    }

    private let stream: UnsafeMutablePointer<z_stream>
    /// Whether the server begins each message with an empty window.
    private let resetsEachMessage: Bool
    /// Whether the last byte ended a final block.
    private var hasEnded = false
    /// The bytes that end every compressed message and are not sent.
    private static let tail: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]

    /// Makes a decompressor; `nil` when memory is short.
    init?(resetsEachMessage: Bool) {
        self.resetsEachMessage = resetsEachMessage
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard lat_inflate_begin(stream, -MAX_WBITS) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Decompresses a piece of a message.
    ///
    /// - Parameters:
    ///   - isEnd: whether it is the last piece.
    ///   - output: gets the bytes, at most `limit` in all.
    func inflate(
        _ piece: UnsafeBufferPointer<UInt8>, isEnd: Bool, into output: inout [UInt8], upTo limit: Int
    ) -> Outcome {
        var outcome = open(piece, into: &output, upTo: limit)
        guard isEnd, outcome == .done else { return outcome }
        // Some servers leave out the byte that belongs between a final block and the tail (RFC 7692 §7.2.3.4).
        if !hasEnded {
            outcome = Self.tail.withUnsafeBufferPointer { open($0, into: &output, upTo: limit) }
            // A truncated message stops in the middle of a block.
            if outcome == .done, !isBetweenBlocks { return .broken }
        }
        if resetsEachMessage, inflateReset(stream) != Z_OK { return .broken }
        return outcome
    }

    /// What zlib says of the position: 128 means that the next byte begins a block.
    private var isBetweenBlocks: Bool { stream.pointee.data_type & 128 != 0 }

    private func open(_ piece: UnsafeBufferPointer<UInt8>, into output: inout [UInt8], upTo limit: Int) -> Outcome {
        // zlib only reads this, but its declaration lacks const.
        stream.pointee.next_in = UnsafeMutablePointer(mutating: piece.baseAddress)
        stream.pointee.avail_in = uInt(piece.count)
        if !piece.isEmpty { hasEnded = false }
        defer { stream.pointee.next_in = nil }
        return withUnsafeTemporaryAllocation(of: Bytef.self, capacity: 16 << 10) { buffer in
            while true {
                stream.pointee.next_out = buffer.baseAddress
                stream.pointee.avail_out = uInt(buffer.count)
                let code = CZlib.inflate(stream, Z_SYNC_FLUSH)
                let count = buffer.count - Int(stream.pointee.avail_out)
                guard output.count + count <= limit else { return .tooLarge }
                output.append(contentsOf: buffer[..<count])
                switch code {
                case Z_STREAM_END:
                    // A final block inside a message is legal; what follows is a new stream (RFC 7692 §7.2.3.5), which may
                    // refer to what was before it.
                    guard inflateResetKeep(stream) == Z_OK else { return .broken }
                    hasEnded = stream.pointee.avail_in == 0
                    if hasEnded { return .done }
                case Z_OK, Z_BUF_ERROR:
                    // A full buffer means that there may be more.
                    if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0 { return .done }
                    if code == Z_BUF_ERROR, stream.pointee.avail_out > 0 { return .done }
                default: return .broken
                }
            }
        }
    }
}
