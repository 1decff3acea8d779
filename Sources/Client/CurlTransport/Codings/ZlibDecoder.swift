import CZlib

/// Decodes `gzip` with all its members (RFC 1952 §2.2), and `deflate`: zlib (RFC 1950) as the standard says, or raw
/// DEFLATE (RFC 1951), which some servers send.
final class ZlibDecoder: BufferDecoder {
    enum Coding: String { case gzip, deflate }

    private enum Position {
        /// Before the first byte.
        case start
        /// After the first byte of `deflate`, which tells zlib from raw DEFLATE only with the second.
        case second(UInt8)
        case inside
        /// After the end of a stream.
        case after
    }

    private enum Format { case gzip, zlib, raw }

    private let coding: Coding
    private let stream: UnsafeMutablePointer<z_stream>
    private var format = Format.gzip
    private var position = Position.start
    /// How many bytes may follow raw DEFLATE: some servers add a checksum to it. libcurl allows as many.
    private var trailerSize = 4

    /// Makes a decoder; `nil` when memory is short.
    init?(_ coding: Coding) {
        self.coding = coding
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard lat_inflate_begin(stream, Self.bits(.gzip)) == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    var isComplete: Bool {
        switch position {
        case .start, .after: true
        case .second, .inside: false
        }
    }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        var count = 0
        while count < output.count {
            switch position {
            case .start:
                guard let first = input.first else { return count }
                if coding == .deflate {
                    input = UnsafeRawBufferPointer(rebasing: input.dropFirst())
                    position = .second(first)
                } else {
                    // As in libcurl, what is called gzip may be zlib.
                    try begin(first == Self.gzipMagic ? .gzip : .zlib)
                }
            case .second(let first):
                guard let second = input.first else { return count }
                try begin(Self.isZlibHead(first, second) ? .zlib : .raw)
                try withUnsafeBytes(of: first) { head throws(CodingFault) in
                    var head = head
                    // One byte holds no data.
                    _ = try inflate(&head, into: output, from: count)
                }
            case .inside:
                count += try inflate(&input, into: output, from: count)
                if case .inside = position, input.isEmpty { return count }
            case .after:
                try skipPadding(&input)
                guard input.first != nil else { return count }
                try begin(.gzip)
            }
        }
        return count
    }

    private func begin(_ format: Format) throws(CodingFault) {
        guard inflateReset2(stream, Self.bits(format)) == Z_OK else { throw .noMemory }
        self.format = format
        position = .inside
    }

    /// Decodes until the input is used up, the output is full, or the stream ends.
    private func inflate(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer, from start: Int
    ) throws(CodingFault) -> Int {
        // zlib counts bytes in 32 bits.
        let piece = min(input.count, 1 << 30)
        let room = min(output.count - start, 1 << 30)
        // zlib only reads the input, but its declaration lacks const.
        stream.pointee.next_in = UnsafeMutableRawPointer(mutating: input.baseAddress)?
            .assumingMemoryBound(to: Bytef.self)
        stream.pointee.avail_in = uInt(piece)
        stream.pointee.next_out = (output.baseAddress.map { $0 + start })?.assumingMemoryBound(to: Bytef.self)
        stream.pointee.avail_out = uInt(room)
        let code = CZlib.inflate(stream, Z_NO_FLUSH)
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(piece - Int(stream.pointee.avail_in)))
        let written = room - Int(stream.pointee.avail_out)
        switch code {
        case Z_STREAM_END: position = .after
        case Z_OK: break
        // Without input there is nothing to do.
        case Z_BUF_ERROR where piece == 0: break
        case Z_MEM_ERROR: throw .noMemory
        case Z_NEED_DICT: throw .invalid(coding.rawValue, "it needs a dictionary")
        default:
            throw .invalid(coding.rawValue, stream.pointee.msg.map { String(cString: $0) } ?? "zlib's code \(code)")
        }
        return written
    }

    /// Skips what may follow the end of a stream: zeros, as files on tapes have, and the checksum after raw DEFLATE.
    private func skipPadding(_ input: inout UnsafeRawBufferPointer) throws(CodingFault) {
        var rest = input[...]
        while let next = rest.first {
            if next != 0 {
                if format == .gzip, next == Self.gzipMagic { break }
                guard format == .raw, trailerSize > 0 else {
                    throw .invalid(coding.rawValue, "other bytes follow its end")
                }
            }
            if format == .raw { trailerSize -= 1 }
            rest = rest.dropFirst()
        }
        input = UnsafeRawBufferPointer(rebasing: rest)
    }

    private static let gzipMagic: UInt8 = 0x1F

    /// Whether two bytes begin a zlib stream (RFC 1950 §2.2). A raw stream that begins with them would have padding of ones.
    private static func isZlibHead(_ first: UInt8, _ second: UInt8) -> Bool {
        first & 0x0F == 8 && first >> 4 <= 7 && (UInt(first) << 8 | UInt(second)) % 31 == 0
    }

    /// zlib's notation of formats: 16 more than the number of window bits for gzip, a negative number for raw DEFLATE.
    private static func bits(_ format: Format) -> CInt {
        switch format {
        case .gzip: MAX_WBITS + 16
        case .zlib: MAX_WBITS
        case .raw: -MAX_WBITS
        }
    }
}
