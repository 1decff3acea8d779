import FoundationEssentials

/// Assembles a server's frames into messages (RFC 6455 §5.4), and reads its control frames.
struct MessageReader {
    enum Event: Equatable {
        case message(WebSocket.Message)
        case ping([UInt8])
        case pong([UInt8])
        /// The code is `nil` when the frame has none.
        case close(code: UInt16?, reason: String)
    }

    private let limit: Int
    private let compression: WebSocketHandshake.Compression?
    private var frames: FrameReader
    /// Decompresses messages; made for the first compressed one.
    private var inflater: Inflater?

    /// The message whose frames are arriving.
    private var message: Message?
    /// Whether the server has sent a close frame. What follows is not read (RFC 6455 §1.4).
    private var isClosed = false

    private struct Message {
        let isText: Bool
        let isCompressed: Bool
        var isLastFrame: Bool
        /// How many bytes its frames have had so far.
        var wireCount = 0
        var bytes: [UInt8] = []
        var check = UTF8Check()
    }

    /// - Parameters:
    ///   - limit: the largest size of a message, in bytes after decompression.
    ///   - compression: what was negotiated; `nil` for no compression.
    init(limit: Int, compression: WebSocketHandshake.Compression? = nil) {
        self.limit = limit
        self.compression = compression
        frames = FrameReader(allowsCompression: compression != nil)
    }

    mutating func append(_ bytes: some Collection<UInt8>) { if !isClosed { frames.append(bytes) } }

    /// Returns the next event; `nil` when more bytes are needed, and after a close.
    mutating func next() throws(WebSocketViolation) -> Event? {
        while !isClosed, let event = try frames.next() {
            switch event {
            case .control(.ping, let payload): return .ping(payload)
            case .control(.pong, let payload): return .pong(payload)
            case .control(_, let payload):
                isClosed = true
                return try close(payload)
            case .data(let head):
                try begin(head)
            case .bytes(let range, let isEnd):
                if let event = try add(range, isEnd) { return event }
            }
        }
        frames.releaseMemory()
        return nil
    }

    private mutating func begin(_ head: FrameReader.Head) throws(WebSocketViolation) {
        if head.opcode == .continuation {
            guard message != nil else {
                throw .protocolError("the server continued a message that it had not begun")
            }
            message?.isLastFrame = head.isFinal
        } else {
            guard message == nil else {
                throw .protocolError("the server began a message inside another one")
            }
            message = Message(
                isText: head.opcode == .text, isCompressed: head.isCompressed, isLastFrame: head.isFinal)
        }
        guard var message else { return }
        // Rejects a frame before its bytes arrive. Compression makes some messages a little larger.
        let (count, isOverflow) = message.wireCount.addingReportingOverflow(head.length)
        let slack = message.isCompressed ? min(limit / 8 + 1024, .max - limit) : 0
        guard !isOverflow, count <= limit + slack else { throw tooLarge }
        message.wireCount = count
        self.message = message
    }

    private var tooLarge: WebSocketViolation {
        var violation = WebSocketViolation.tooLarge("the server sent a message of more than \(limit) bytes")
        violation.advice = "; raise messageLimit if the server is right to send it"
        return violation
    }

    private mutating func add(_ range: Range<Int>, _ isEnd: Bool) throws(WebSocketViolation) -> Event? {
        guard var message else { return nil }
        // Removed while it changes, so that its bytes are not copied.
        self.message = nil
        let isOver = isEnd && message.isLastFrame
        if isOver, message.bytes.isEmpty, !message.isCompressed { return try whole(range, isText: message.isText) }
        let old = message.bytes.count
        if message.isCompressed {
            try inflate(range, isOver, into: &message.bytes)
        } else {
            message.bytes.append(contentsOf: frames.buffer[range])
        }
        if message.isText {
            let isValid = message.bytes.withUnsafeBufferPointer {
                message.check.accepts(UnsafeBufferPointer(rebasing: $0[old...]))
            }
            guard isValid, !isOver || message.check.isWhole else { throw Self.badText }
        }
        guard isOver else {
            self.message = message
            return nil
        }
        return .message(
            message.isText ? .text(String(decoding: message.bytes, as: UTF8.self)) : .data(Data(message.bytes)))
    }

    /// A message that is in the buffer as a whole.
    private func whole(_ range: Range<Int>, isText: Bool) throws(WebSocketViolation) -> Event {
        guard isText else { return .message(.data(Data(frames.buffer[range]))) }
        guard let text = String(validating: frames.buffer[range], as: UTF8.self) else { throw Self.badText }
        return .message(.text(text))
    }

    private static let badText = WebSocketViolation.badText("the server sent a text that is not UTF-8")

    private mutating func inflate(
        _ range: Range<Int>, _ isOver: Bool, into bytes: inout [UInt8]
    ) throws(WebSocketViolation) {
        if inflater == nil { inflater = Inflater(resetsEachMessage: compression?.serverResets ?? false) }
        guard let inflater else { throw .tooLarge("there is no memory to open a compressed message") }
        let outcome = frames.buffer.withUnsafeBufferPointer {
            inflater.inflate(UnsafeBufferPointer(rebasing: $0[range]), isEnd: isOver, into: &bytes, upTo: limit)
        }
        switch outcome {
        case .done: break
        case .tooLarge: throw tooLarge
        case .broken: throw .badText("the server sent compressed data that cannot be opened")
        }
    }

    private func close(_ payload: [UInt8]) throws(WebSocketViolation) -> Event {
        guard !payload.isEmpty else { return .close(code: nil, reason: "") }
        guard payload.count > 1 else { throw .protocolError("the server sent a close frame of one byte") }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        guard WebSocket.CloseCode(rawValue: code).mayBeSent else {
            throw .protocolError("the server closed with the code \(code), which must not be sent")
        }
        guard let reason = String(validating: payload[2...], as: UTF8.self) else {
            throw .badText("the server closed with a reason that is not UTF-8")
        }
        return .close(code: code, reason: reason)
    }
}
