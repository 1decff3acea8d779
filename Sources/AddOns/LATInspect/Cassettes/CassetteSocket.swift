internal import FoundationEssentials
internal import HTTPCore
internal import Platform
internal import Synchronization

/// Records the messages of a WebSocket for its entry.
final class SocketRecording: MessageObserver {
    private struct State {
        var messages: [CassetteEntry.Message] = []
        var byteCount = 0
        var isClosed = false
    }

    private let redaction: CassetteRedaction
    private let limit: Int
    private let state = Mutex(State())

    init(_ redaction: CassetteRedaction, limit: Int) {
        self.redaction = redaction
        self.limit = limit
    }

    func send(_ message: SocketMessage) { note(message, isSent: true) }
    func receive(_ message: SocketMessage) { note(message, isSent: false) }
    func sendClose(_ code: UInt16?, _ reason: String) { note(.close(code: code, reason: reason), isSent: true) }
    func sendPing(_ payload: [UInt8]) {}

    private func note(_ message: SocketMessage, isSent: Bool) {
        state.withLock { state in
            let message = redaction.message(message, isSent: isSent)
            if case .close = message {
                // The client's answer to a close frame is not recorded, since it only confirms the end.
                if isSent, state.isClosed { return }
                state.isClosed = true
            }
            state.byteCount += message.byteCount
            guard state.byteCount <= limit else { return state.messages = [] }
            state.messages.append(CassetteEntry.Message(isSent: isSent, content: message))
        }
    }

    /// Adds to the entry what was sent and received.
    ///
    /// - Parameter isEnded: whether the server ended the connection.
    func complete(_ entry: inout CassetteEntry, isEnded: Bool) {
        state.withLock { state in
            entry.messages = state.messages
            entry.response?.body = state.byteCount <= limit ? .none : .omitted(byteCount: state.byteCount)
            if isEnded, entry.failure == nil, !state.isClosed {
                entry.failure = .init(
                    kind: .connectionLost, message: "the server ended the connection without a close frame")
            }
        }
    }
}

/// Replaces the server of a recorded WebSocket. It sends the recorded messages in their order, each after the client has sent
/// again what precedes it in the recording.
///
/// A client that closes earlier than in the recording gets what is left, and the close frame.
final class SocketReplay: MessageObserver, ResponseBody.Source {
    private struct State {
        /// The index of the next recorded message.
        var position = 0
        /// How many of its recorded messages the client has sent again.
        var sentCount = 0
        /// How many of them are before `position`.
        var skippedCount = 0
        var pongs: [[UInt8]] = []
        /// Whether the client has sent its close frame, and with which code.
        var hasClosed = false
        var closeCode: UInt16?
        var isOver = false
        var failure: NetworkError?
        var waiter: Waiter<Void>?
        /// The secrets in the client's messages, which the server may repeat.
        var secrets: [String: String] = [:]
    }

    private enum Step {
        case deliver(Data)
        case wait(Waiter<Void>)
        case end
    }

    private let entry: CassetteEntry
    private let redaction: CassetteRedaction
    private let sent: [CassetteEntry.Message]
    private let state = Mutex(State())

    init(_ entry: CassetteEntry, _ redaction: CassetteRedaction) {
        self.entry = entry
        self.redaction = redaction
        sent = entry.messages.filter(\.isSent)
    }

    /// Discards the frames of the client: ``MessageObserver`` gets the messages.
    func output() -> ConnectionOutput {
        let output = ConnectionOutput()
        output.observer = self
        output.start { [weak output] in Task { output?.discard() } }
        output.discard()
        output.open()
        return output
    }

    // MARK: The client

    func send(_ message: SocketMessage) throws(NetworkError) {
        let failure = change { state in
            let shown = redaction.message(message, isSent: true)
            if let problem = problem(shown, at: state.sentCount) {
                state.failure = NetworkError(.simulation, message: problem)
            } else {
                state.secrets = redaction.secrets(of: shown, recorded: sent[state.sentCount].content)
                state.sentCount += 1
            }
            return state.failure
        }
        if let failure { throw failure }
    }

    /// What is wrong with a message of the client; `nil` when it is as recorded.
    private func problem(_ message: SocketMessage, at index: Int) -> String? {
        let title = "message \(index + 1) to \(entry.request.url)"
        let how = "record it with the mode all"
        guard index < sent.count, sent[index].content.isMessage else {
            let count = index == 1 ? "1 was" : "\(index) were"
            return "\(title) is not recorded, only \(count) (line \(entry.line)); \(how)"
        }
        let differences = message.differences(from: sent[index].content)
        guard !differences.isEmpty else { return nil }
        return
            "\(title) is not as recorded in line \(sent[index].line) (\(differences.joined(separator: "; "))); \(how)"
    }

    func sendClose(_ code: UInt16?, _ reason: String) { change { ($0.hasClosed, $0.closeCode) = (true, code) } }
    func sendPing(_ payload: [UInt8]) { change { $0.pongs.append(payload) } }
    func receive(_ message: SocketMessage) {}

    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, waiter) = state.withLock { (body(&$0), $0.waiter.take()) }
        waiter?.end(.success(()))
        return result
    }

    // MARK: The server

    func next() async throws -> Data? {
        while true {
            switch try state.withLock({ try step(&$0) }) {
            case .deliver(let frame): return frame
            case .wait(let waiter): try await waiter.value()
            case .end: return nil
            }
        }
    }

    private func step(_ state: inout State) throws -> Step {
        if let failure = state.failure { throw failure }
        if state.isOver { return .end }
        if !state.pongs.isEmpty { return .deliver(ServerFrame.pong(state.pongs.removeFirst())) }
        // Skips the client's messages that it has sent again, and all of them once it has closed.
        while state.position < entry.messages.count, entry.messages[state.position].isSent,
            state.hasClosed || state.skippedCount < state.sentCount
        {
            state.position += 1
            state.skippedCount += 1
        }
        guard state.position < entry.messages.count else {
            if state.hasClosed {
                state.isOver = true
                return .deliver(ServerFrame.of(.close(code: state.closeCode, reason: "")))
            }
            if let failure = entry.failure { throw NetworkError(failure.kind, message: failure.message) }
            return wait(&state)
        }
        guard !entry.messages[state.position].isSent else { return wait(&state) }
        let message = entry.messages[state.position]
        state.position += 1
        state.isOver = !message.content.isMessage
        return .deliver(ServerFrame.of(SecretsOfReplay(secrets: state.secrets).restored(message.content)))
    }

    private func wait(_ state: inout State) -> Step {
        let waiter = Waiter<Void>()
        state.waiter = waiter
        return .wait(waiter)
    }
}

extension ConnectionOutput {
    /// Discards all queued bytes.
    fileprivate func discard() {
        withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 1) { buffer in
            while case .bytes = read(into: buffer) {}
        }
    }
}

extension SocketMessage {
    fileprivate var isMessage: Bool { if case .close = self { false } else { true } }

    fileprivate var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .data(let data): data.count
        case .close(_, let reason): reason.utf8.count
        }
    }

    private var body: RecordedBody {
        switch self {
        case .text(let text): RecordedBody(Data(text.utf8))
        case .data(let data): RecordedBody(data)
        case .close: .none
        }
    }

    private var kind: String {
        switch self {
        case .text: "a text"
        case .data: "bytes"
        case .close: "a close frame"
        }
    }

    /// What differs from a recorded message, a line each.
    fileprivate func differences(from recorded: SocketMessage) -> [String] {
        guard kind == recorded.kind else { return ["asked \(kind), recorded \(recorded.kind)"] }
        func comparable(_ message: SocketMessage) -> ComparableRequest {
            ComparableRequest(.init(method: "", url: "", body: message.body), Cassette.Matching())
        }
        return comparable(self).differences(from: comparable(recorded))
    }
}

/// Frames as a server sends them: whole, and not masked (RFC 6455 §5.2).
private enum ServerFrame {
    static func of(_ message: SocketMessage) -> Data {
        switch message {
        case .text(let text): frame(0x1, Data(text.utf8))
        case .data(let data): frame(0x2, data)
        case .close(let code?, let reason): frame(0x8, bytes(code) + Data(reason.utf8))
        case .close(nil, _): frame(0x8, Data())
        }
    }

    static func pong(_ payload: [UInt8]) -> Data { frame(0xA, Data(payload)) }

    private static func frame(_ opcode: UInt8, _ payload: Data) -> Data {
        var frame = Data([0x80 | opcode])
        switch payload.count {
        case ..<126: frame.append(UInt8(payload.count))
        case ..<65_536: frame += [126] + bytes(UInt16(payload.count))
        default: frame += [127] + bytes(UInt64(payload.count))
        }
        return frame + payload
    }

    private static func bytes(_ number: some FixedWidthInteger) -> Data {
        withUnsafeBytes(of: number.bigEndian) { Data($0) }
    }
}
