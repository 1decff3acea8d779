/// Splits a server's bytes into frames (RFC 6455 §5.2), and rejects what the RFC forbids a server to send.
///
/// Data frames are returned in pieces as they arrive, so that a frame of any length takes no memory here. Control frames
/// are returned whole: they have at most 125 bytes.
struct FrameReader {
    enum Opcode: UInt8 {
        case continuation = 0x0
        case text = 0x1
        case data = 0x2
        case close = 0x8
        case ping = 0x9
        case pong = 0xA

        var isControl: Bool { rawValue & 0x8 != 0 }
    }

    struct Head: Equatable {
        var opcode: Opcode
        var isFinal: Bool
        /// RSV1, which says that the message is compressed (RFC 7692 §6).
        var isCompressed: Bool
        var length: Int
    }

    enum Event: Equatable {
        /// A data frame begins.
        case data(Head)
        /// Bytes of the data frame, as a range of the reader's buffer; `isEnd` with the last ones.
        case bytes(Range<Int>, isEnd: Bool)
        /// A whole control frame.
        case control(Opcode, [UInt8])
    }

    /// Whether compression was negotiated, so that RSV1 may be set.
    let allowsCompression: Bool
    private(set) var buffer: [UInt8] = []
    private var start = 0
    /// The frame whose bytes are arriving, and how many are missing.
    private var frame: (head: Head, missing: Int)?

    init(allowsCompression: Bool) { self.allowsCompression = allowsCompression }

    mutating func append(_ bytes: some Collection<UInt8>) {
        if start == buffer.count { buffer.removeAll(keepingCapacity: true) } else { buffer.removeFirst(start) }
        start = 0
        buffer.append(contentsOf: bytes)
    }

    /// Frees the buffer when all of its bytes were read.
    mutating func releaseMemory() { if start == buffer.count { (buffer, start) = ([], 0) } }

    /// Returns the next event; `nil` when more bytes are needed.
    mutating func next() throws(WebSocketViolation) -> Event? {
        if let frame { return pieces(of: frame.head, frame.missing) }
        guard let (head, size) = try head() else { return nil }
        if head.opcode.isControl {
            guard buffer.count - start >= size + head.length else { return nil }
            let payload = Array(buffer[(start + size)..<(start + size + head.length)])
            start += size + head.length
            return .control(head.opcode, payload)
        }
        start += size
        frame = (head, head.length)
        return .data(head)
    }

    private mutating func pieces(of head: Head, _ missing: Int) -> Event? {
        let count = min(missing, buffer.count - start)
        guard count > 0 || missing == 0 else { return nil }
        let range = start..<(start + count)
        start += count
        frame = count == missing ? nil : (head, missing - count)
        return .bytes(range, isEnd: count == missing)
    }

    /// The head of the next frame and its size; `nil` when it has not arrived whole.
    private func head() throws(WebSocketViolation) -> (Head, size: Int)? {
        guard start < buffer.count else { return nil }
        let first = buffer[start]
        guard let opcode = Opcode(rawValue: first & 0x0F) else {
            throw .protocolError("the server sent a frame with the reserved opcode \(first & 0x0F)")
        }
        let isFinal = first & 0x80 != 0
        let isCompressed = first & 0x40 != 0
        guard first & 0x30 == 0 else { throw .protocolError("the server set a reserved bit (RSV2 or RSV3)") }
        guard !isCompressed || allowsCompression && (opcode == .text || opcode == .data) else {
            throw .protocolError("the server set the compression bit (RSV1) where it has no meaning")
        }
        guard isFinal || !opcode.isControl else { throw .protocolError("the server fragmented a control frame") }
        guard start + 1 < buffer.count else { return nil }
        let second = buffer[start + 1]
        guard second & 0x80 == 0 else { throw .protocolError("the server masked a frame, which only clients do") }
        let short = Int(second & 0x7F)
        guard short <= 125 || !opcode.isControl else {
            throw .protocolError("the server sent a control frame of more than 125 bytes")
        }
        guard let (length, size) = try length(short) else { return nil }
        return (Head(opcode: opcode, isFinal: isFinal, isCompressed: isCompressed, length: length), size)
    }

    /// The length of the payload and the size of the head.
    private func length(_ short: Int) throws(WebSocketViolation) -> (Int, size: Int)? {
        guard short > 125 else { return (short, 2) }
        let count = short == 126 ? 2 : 8
        guard buffer.count - start >= 2 + count else { return nil }
        let length = buffer[(start + 2)..<(start + 2 + count)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard length <= UInt64(Int64.max) else {
            throw .protocolError("the server set the top bit of a frame's length")
        }
        guard length > (count == 2 ? 125 : 0xFFFF) else {
            throw .protocolError("the server wrote the length \(length) in \(count) bytes, not in its shortest form")
        }
        return (Int(length), 2 + count)
    }
}

/// A violation of the protocol by the server, with its close code (RFC 6455 §7.4.1).
struct WebSocketViolation: Error, Equatable {
    let code: UInt16
    let message: String
    /// What the app can do, for the end of the message. The server is not told.
    var advice = ""

    static func protocolError(_ message: String) -> WebSocketViolation {
        WebSocketViolation(code: 1002, message: message)
    }

    static func badText(_ message: String) -> WebSocketViolation { WebSocketViolation(code: 1007, message: message) }

    static func tooLarge(_ message: String) -> WebSocketViolation { WebSocketViolation(code: 1009, message: message) }
}
