internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// The newest messages of a call, not redacted. A pure value.
struct LiveMessages: Sendable {
    struct Kept: Sendable {
        let kind: CallRecord.Message.Kind
        let isSent: Bool
        let time: Duration
        let size: Int
        /// The beginning.
        let bytes: Data
    }

    static let countLimit = 500
    static let byteLimit = 256 << 10
    static let messageLimit = 8 << 10

    private(set) var kept: [Kept] = []
    private(set) var count = 0
    private(set) var byteCount = 0
    /// Divides what is read into messages; `nil` for a response that is no stream of messages.
    private var splitter: MessageSplitter?

    /// Begins a response, whose media type says what its messages are.
    mutating func begin(_ response: HTTPResponse) {
        splitter =
            response.body.isStream ? MessageSplitter(MediaType.plainEssence(of: response.headers["Content-Type"])) : nil
    }

    mutating func read(_ chunk: Data, at time: Duration) {
        guard var splitter else { return }
        for message in splitter.messages(in: chunk) {
            add(splitter.kind, message.bytes, size: message.size, isSent: false, at: time)
        }
        self.splitter = splitter
    }

    /// The body is complete.
    mutating func end(at time: Duration) {
        guard let kind = splitter?.kind, let last = splitter?.end() else { return }
        add(kind, last.bytes, size: last.size, isSent: false, at: time)
    }

    mutating func add(_ kind: CallRecord.Message.Kind, _ bytes: Data, size: Int? = nil, isSent: Bool, at time: Duration)
    {
        let beginning = Data(bytes.prefix(Self.messageLimit))
        kept.append(Kept(kind: kind, isSent: isSent, time: time, size: size ?? bytes.count, bytes: beginning))
        count += 1
        byteCount += beginning.count
        var surplus = 0
        while kept.count - surplus > Self.countLimit || byteCount > Self.byteLimit && kept.count - surplus > 1 {
            byteCount -= kept[surplus].bytes.count
            surplus += 1
        }
        kept.removeFirst(surplus)
    }

    func redacted(_ redactor: inout Redactor) -> [CallRecord.Message] {
        redactor.isAnswer = true
        // A later message may repeat a secret of an earlier one, so all are read before any value is searched for.
        let binary = kept.map { $0.kind == .binary ? redactor.data($0.bytes) : Data() }
        return zip(kept, binary).map { message, bytes in
            var text = ""
            if message.kind == .binary {
                text = redactor.scrubbed(bytes).base64EncodedString()
            } else if case .text(let shown) = redactor.body(
                message.bytes, type: "application/json", isTruncated: message.size > message.bytes.count)
            {
                text = shown
            }
            return CallRecord.Message(
                kind: message.kind, isSent: message.isSent, time: message.time, size: message.size, text: text)
        }
    }
}

/// Divides a stream into its messages: events end with an empty line (WHATWG HTML §9.2.6), lines with a line feed.
struct MessageSplitter: Sendable {
    let kind: CallRecord.Message.Kind
    private var message = Data()
    private var size = 0
    private var lineIsEmpty = true
    private var followsCR = false

    /// `nil` for a media type of another kind.
    init?(_ mediaType: String) {
        switch mediaType {
        case "text/event-stream": kind = .event
        case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
            "application/json-seq",
            "application/stream+json":
            kind = .line
        default: return nil
        }
    }

    /// The messages that this chunk completes.
    mutating func messages(in chunk: Data) -> [(bytes: Data, size: Int)] {
        var messages: [(bytes: Data, size: Int)] = []
        for byte in chunk {
            let isLineEnd = byte == 0x0A || byte == 0x0D && kind == .event
            if followsCR, byte == 0x0A {
                followsCR = false
                continue
            }
            followsCR = isLineEnd && byte == 0x0D
            guard isLineEnd else {
                // The record separator of RFC 7464.
                if kind == .line, byte == 0x1E || byte == 0x0D { continue }
                append(byte)
                lineIsEmpty = false
                continue
            }
            if kind == .line || lineIsEmpty {
                if size > 0 { messages.append((message.last == 0x0A ? message.dropLast() : message, size)) }
                (message, size) = (Data(), 0)
            } else {
                append(0x0A)
            }
            lineIsEmpty = true
        }
        return messages
    }

    /// The last line needs no line feed. An event needs its empty line.
    mutating func end() -> (bytes: Data, size: Int)? {
        guard kind == .line, size > 0 else { return nil }
        defer { (message, size) = (Data(), 0) }
        return (message, size)
    }

    private mutating func append(_ byte: UInt8) {
        size += 1
        if message.count <= LiveMessages.messageLimit { message.append(byte) }
    }
}

/// Notes the messages of a WebSocket on their way to and from another observer.
final class SocketTap: MessageObserver {
    /// Called with each message: its kind, its bytes, and whether this side sends it.
    typealias Note = @Sendable (CallRecord.Message.Kind, Data, _ isSent: Bool) -> Void

    private let inner: (any MessageObserver)?
    private let note: Note

    /// Attaches a tap to the connection that a response has opened; does nothing for other responses.
    static func attach(to response: HTTPResponse, _ note: @escaping Note) {
        guard let output = response.output else { return }
        output.observer = SocketTap(output.observer, note)
    }

    private init(_ inner: (any MessageObserver)?, _ note: @escaping Note) {
        self.inner = inner
        self.note = note
    }

    func send(_ message: SocketMessage) throws(NetworkError) {
        try inner?.send(message)
        pass(message, isSent: true)
    }

    func sendClose(_ code: UInt16?, _ reason: String) {
        inner?.sendClose(code, reason)
        pass(.close(code: code, reason: reason), isSent: true)
    }

    func sendPing(_ payload: [UInt8]) {
        inner?.sendPing(payload)
        note(.ping, Data(payload), true)
    }

    func receive(_ message: SocketMessage) {
        inner?.receive(message)
        pass(message, isSent: false)
    }

    private func pass(_ message: SocketMessage, isSent: Bool) {
        switch message {
        case .text(let text): note(.text, Data(text.utf8), isSent)
        case .data(let data): note(.binary, data, isSent)
        case .close(let code, let reason):
            let words = [code.map { "\($0)" }, reason.isEmpty ? nil : reason].compactMap { $0 }
            note(.close, Data(words.joined(separator: " ").utf8), isSent)
        }
    }
}
