import FoundationEssentials
import Platform

/// Performs a ``SocketScript`` without I/O: it gets the client's bytes, and returns what to do next.
struct SocketPlayer {
    enum Action: Equatable {
        /// Send from the start of these bytes, then tell ``SocketPlayer/didSend(_:)`` how many the socket took.
        case send(ArraySlice<UInt8>)
        /// Call again at this time, or when bytes arrive.
        case wait(until: MonotonicTime)
        /// Call again when bytes arrive.
        case receive
        /// Send and read nothing more.
        case stall
        case close
        case reset
    }

    private let script: SocketScript
    private var steps: [MockReply.SocketStep]
    private var index = 0
    /// How often the present step has run.
    private var runs = 0
    private var waitEnd: MonotonicTime?

    private var output: [UInt8] = []
    private var sent = 0
    private var latePongs: [(due: MonotonicTime, payload: [UInt8])] = []
    private var frames = ClientFrames()
    /// Messages that no step has taken yet.
    private var inbox: ArraySlice<RecordedMessage> = []
    private var hasSentClose = false
    private var hasReceivedClose = false
    private var receivedCode: Int?
    /// Whether the client has broken the protocol, so that nothing more is read.
    private var isBroken = false

    init(_ script: SocketScript) {
        self.script = script
        steps = script.steps
    }

    /// While this many bytes wait to be sent, the client's bytes are not read.
    private static let outputLimit = 1 << 20

    /// Whether the client's bytes are to be read now.
    var reads: Bool { output.count - sent < Self.outputLimit }

    /// Takes the client's bytes. Returns the messages and control frames that are complete now.
    mutating func receive(
        _ bytes: ArraySlice<UInt8>, connection: Int, at now: MonotonicTime
    ) -> [RecordedMessage] {
        guard !isBroken, !hasReceivedClose else { return [] }
        frames.append(bytes)
        var received: [RecordedMessage] = []
        while !hasReceivedClose {
            switch frames.next(connection: connection) {
            case nil: return received
            case .message(let message):
                received.append(message)
                take(message, at: now)
            case .broken:
                isBroken = true
                if !hasSentClose { sendClose(1002, "") }
                return received
            }
        }
        return received
    }

    private mutating func take(_ message: RecordedMessage, at now: MonotonicTime) {
        switch message.kind {
        case .pong: break
        case .ping:
            switch script.pongs {
            case .atOnce: if !hasSentClose { append(0xA, Array(message.data)) }
            case .after(let delay): latePongs.append((now + delay, Array(message.data)))
            case .never: break
            }
        case .close(let code):
            hasReceivedClose = true
            receivedCode = code
        case .text, .data:
            guard let answer = script.answer, !wantsMessage else { return inbox.append(message) }
            // Removes the performed steps, so that their number stays small in a long conversation.
            if index == steps.count {
                steps.removeAll(keepingCapacity: true)
                index = 0
            }
            steps += answer(message)
        }
    }

    /// Whether the remaining steps wait for more messages than the inbox has.
    private var wantsMessage: Bool {
        var spare = inbox.count
        return steps.indices[index...].contains { number in
            switch steps[number] {
            case .receive(let count): spare -= count
            case .echo(let count): spare -= number == index ? count - runs : count
            default: break
            }
            return spare < 0
        }
    }

    mutating func didSend(_ count: Int) {
        sent += count
        guard sent == output.count else { return }
        output.removeAll(keepingCapacity: output.capacity < 1 << 20)
        sent = 0
    }

    mutating func next(at now: MonotonicTime) -> Action {
        while true {
            if sent < output.count { return .send(output[sent...].prefix(262_144)) }
            // The answers to the messages before the client's close frame are sent first.
            if hasReceivedClose, !hasSentClose, script.answer == nil || index == steps.count {
                sendClose(receivedCode, "")
                continue
            }
            if isBroken || hasReceivedClose && hasSentClose { return .close }
            while let pong = latePongs.first, pong.due <= now, !hasSentClose {
                latePongs.removeFirst()
                append(0xA, pong.payload)
            }
            if sent < output.count { continue }
            guard !hasSentClose || hasRawSteps else { return .receive }
            guard index < steps.count else {
                if script.answer == nil, !hasSentClose {
                    sendClose(1000, "")
                    continue
                }
                return pause
            }
            if let action = perform(steps[index], at: now) { return action }
        }
    }

    /// Whether the next step is performed even after a close frame, which lets a script break the protocol.
    private var hasRawSteps: Bool {
        guard index < steps.count else { return false }
        switch steps[index] {
        case .bytes, .frame, .stall, .cut, .reset, .wait: return true
        default: return false
        }
    }

    private var pause: Action { latePongs.first.map { .wait(until: $0.due) } ?? .receive }

    /// Waits for a message. If the client has closed, none will arrive, and the remaining steps are dropped.
    private mutating func waitForMessage() -> Action? {
        guard hasReceivedClose else { return pause }
        steps.removeSubrange(index...)
        return nil
    }

    /// Performs a step, or one round of a repeated one. Returns what to do now; `nil` to continue.
    private mutating func perform(_ step: MockReply.SocketStep, at now: MonotonicTime) -> Action? {
        switch step {
        case .receive(let count):
            guard inbox.count >= count else { return waitForMessage() }
            inbox.removeFirst(count)
        case .echo(let count):
            guard runs < count else { break }
            guard !inbox.isEmpty else { return waitForMessage() }
            let message = inbox.removeFirst()
            append(message.kind == .text ? 0x1 : 0x2, Array(message.data))
            runs += 1
            return nil
        case .repeated(let inner, let count):
            guard runs < count else { break }
            for step in inner { write(step) }
            runs += 1
            return nil
        case .wait(let duration):
            let end = waitEnd ?? now + duration
            waitEnd = end
            guard now >= end else { return .wait(until: min(end, latePongs.first?.due ?? end)) }
        case .stall: return .stall
        case .cut: return .close
        case .reset: return .reset
        default: write(step)
        }
        index += 1
        runs = 0
        waitEnd = nil
        return nil
    }

    private mutating func write(_ step: MockReply.SocketStep) {
        switch step {
        case .text(let text): append(0x1, Array(text.utf8))
        case .data(let data): append(0x2, Array(data))
        case .fragments(let parts):
            for (number, part) in parts.enumerated() {
                append(number == 0 ? 0x1 : 0x0, Array(part.utf8), isFinal: number == parts.count - 1)
            }
        case .ping(let payload): append(0x9, Array(payload.utf8))
        case .pong(let payload): append(0xA, Array(payload.utf8))
        case .close(let code, let reason): sendClose(code, reason)
        case .frame(let opcode, let payload, let isFinal, let reserved, let isMasked):
            append(opcode, Array(payload), isFinal: isFinal, reserved: reserved, isMasked: isMasked)
        case .bytes(let bytes): output += bytes
        case .receive, .echo, .repeated, .wait, .stall, .cut, .reset: break
        }
    }

    private mutating func sendClose(_ code: Int?, _ reason: String) {
        let head = code.map { [UInt8(truncatingIfNeeded: $0 >> 8), UInt8(truncatingIfNeeded: $0)] } ?? []
        append(0x8, head + Array(reason.utf8))
        hasSentClose = true
    }

    private mutating func append(
        _ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0, isMasked: Bool = false
    ) {
        output.append((isFinal ? 0x80 : 0) | (reserved & 7) << 4 | opcode & 0xF)
        let mask: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case ..<126: output.append(mask | UInt8(payload.count))
        case ..<0x1_0000: output += [mask | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default:
            output.append(mask | 127)
            withUnsafeBytes(of: UInt64(payload.count).bigEndian) { output += $0 }
        }
        guard isMasked else { return output += payload }
        let key: [UInt8] = [1, 2, 3, 4]
        output += key
        output += payload.enumerated().map { $1 ^ key[$0 & 3] }
    }
}

/// Splits a client's bytes into messages and control frames (RFC 6455 §5.2).
struct ClientFrames {
    enum Event {
        case message(RecordedMessage)
        /// A frame without a mask, with a reserved bit or opcode, or out of order.
        case broken
    }

    private var buffer: [UInt8] = []
    private var start = 0
    private var message: (isText: Bool, data: Data, frameCount: Int)?

    mutating func append(_ bytes: ArraySlice<UInt8>) {
        buffer.removeFirst(start)
        start = 0
        buffer += bytes
    }

    mutating func next(connection: Int) -> Event? {
        while let frame = frame() {
            guard let frame else { return .broken }
            let (first, payload) = frame
            let isFinal = first & 0x80 != 0
            func record(_ kind: RecordedMessage.Kind, _ data: Data, _ frameCount: Int = 1) -> Event {
                .message(RecordedMessage(kind: kind, data: data, connection: connection, frameCount: frameCount))
            }
            switch first & 0xF {
            case 0x8 where isFinal:
                let code = payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil
                return record(.close(code: code), Data(payload.dropFirst(2)))
            case 0x9 where isFinal: return record(.ping, Data(payload))
            case 0xA where isFinal: return record(.pong, Data(payload))
            case 0x1 where message == nil, 0x2 where message == nil:
                message = (first & 0xF == 1, Data(payload), 1)
            case 0x0 where message != nil:
                message?.data.append(contentsOf: payload)
                message?.frameCount += 1
            default: return .broken
            }
            if isFinal, let (isText, data, frameCount) = message {
                message = nil
                return record(isText ? .text : .data, data, frameCount)
            }
        }
        return nil
    }

    /// The next frame: its first byte and its payload. `.some(nil)` when it breaks a rule, `nil` when it is not whole.
    private mutating func frame() -> (first: UInt8, payload: [UInt8])?? {
        let count = buffer.count - start
        guard count >= 2 else { return nil }
        let (first, second) = (buffer[start], buffer[start + 1])
        guard first & 0x70 == 0, second & 0x80 != 0 else { return .some(nil) }
        var size = 2
        var length = Int(second & 0x7F)
        if length > 125 {
            let digits = length == 126 ? 2 : 8
            guard count >= 2 + digits else { return nil }
            length = buffer[(start + 2)..<(start + 2 + digits)].reduce(0) { $0 << 8 | Int($1) }
            guard length >= 0 else { return .some(nil) }
            size += digits
        }
        guard count - size - 4 >= length else { return nil }
        let mask = Array(buffer[(start + size)..<(start + size + 4)])
        var payload = Array(buffer[(start + size + 4)..<(start + size + 4 + length)])
        for index in payload.indices { payload[index] ^= mask[index & 3] }
        start += size + 4 + length
        return (first, payload)
    }
}
