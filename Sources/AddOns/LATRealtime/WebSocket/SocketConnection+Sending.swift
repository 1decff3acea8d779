import FoundationEssentials
import LATNetworking
import Platform

// Sending: messages of many tasks never mix, because each is compressed and written under one lock. A cancelled message is
// sent completely or not at all.
extension SocketConnection {
    /// Messages below this size are not compressed: compression would make some of them larger.
    private static let compressedFrom = 1_024

    /// Waiting senders continue once at most this many bytes are unsent.
    var lowMark: Int { min(options.sendBuffer / 2, 64 << 10) }

    /// Sends a message, after a wait for room.
    ///
    /// - Returns: whether it was sent; `false` when the connection is over or closing.
    /// - Throws: `CancellationError` when the task was cancelled before there was room, `NetworkError` when a replay expects
    ///   another message; nothing is sent then.
    func send(_ message: WebSocket.Message) async throws -> Bool {
        var isNext = false
        while true {
            let (isSent, sender) = try sending.withLock { deflater -> (Bool, Waiter<Void>?) in
                let (isOpen, sender) = state.withLock { state -> (Bool, Waiter<Void>?) in
                    guard state.isOpen else { return (false, nil) }
                    guard isNext || state.senders.isEmpty, output.pendingCount < options.sendBuffer else {
                        let sender = Waiter<Void>()
                        if isNext { state.senders.insert(sender, at: 0) } else { state.senders.append(sender) }
                        return (false, sender)
                    }
                    return (true, nil)
                }
                return (isOpen ? try write(message, &deflater) : false, sender)
            }
            wakeSender()
            guard let sender else { return isSent }
            do {
                try await sender.value()
            } catch {
                let wasNext = state.withLock { state in
                    let index = state.senders.firstIndex { $0 === sender }
                    if let index { state.senders.remove(at: index) }
                    return index == nil
                }
                // The next sender takes its turn.
                if wasNext { wakeSender() }
                throw error
            }
            isNext = true
        }
    }

    /// Sends messages at once, whether there is room or not.
    ///
    /// - Parameter isKept: whether ``takeUnsent()`` returns those that were not sent.
    func sendAtOnce(_ messages: [WebSocket.Message], isKept: Bool) throws {
        try sending.withLock { deflater in
            for message in messages {
                let isSent = try state.withLock(\.isOpen) && write(message, isKept: isKept, &deflater)
                if isKept, !isSent { state.withLock { $0.unsent.append((.max, message)) } }
            }
        }
    }

    /// How many bytes wait to be sent; how many of messages were not sent when the connection is over.
    var bufferedAmount: Int {
        state.withLock { $0.isOver ? Int(max(0, $0.messageEnd - output.takenCount)) : output.pendingCount }
    }

    /// The messages that the engine had not taken when the connection ended.
    func takeUnsent() -> [WebSocket.Message] {
        let taken = output.takenCount
        return state.withLock { state in
            defer { state.unsent = [] }
            return state.unsent.filter { $0.end > taken }.map(\.message)
        }
    }

    /// Sends a ping, and returns the time until its pong.
    func ping(within limit: Duration) async throws -> Duration {
        let answer = Waiter<Duration>()
        let payload = state.withLock { state -> [UInt8]? in
            guard state.isOpen else { return nil }
            state.pingCount += 1
            let payload = withUnsafeBytes(of: state.pingCount.bigEndian) { Array($0) }
            state.pings.append(Ping(payload: payload, sentAt: .now, answer: answer))
            writePing(payload, &state)
            return payload
        }
        guard let payload else { throw closedError }
        let timer = call.schedule(after: limit) { [self] in answer.end(.failure(latePong(limit))) }
        defer {
            call.cancel(timer)
            state.withLock { $0.pings.removeAll { $0.payload == payload } }
        }
        return try await answer.value()
    }

    private func latePong(_ limit: Duration) -> NetworkError {
        let advice =
            inbox.holdsUpConnection ? ", which waits behind messages that nobody reads; read socket.messages" : ""
        return error(.timeout(.idle), "no pong arrived within \(limit)\(advice)")
    }

    /// Called when there is room again.
    func drained() {
        state.withLock { state in
            guard let payload = state.latePong, !state.hasSentClose else { return }
            state.latePong = nil
            write(.pong, payload, &state)
        }
        wakeSender()
        if output.isOver { inbox.checkRoom() }
    }

    /// Wakes the first waiting sender when there is room; otherwise asks the engine for a call of ``drained()``.
    private func wakeSender() {
        let sender = state.withLock { state -> Waiter<Void>? in
            guard !state.senders.isEmpty else { return nil }
            return output.awaitDrain(to: lowMark) ? nil : state.senders.removeFirst()
        }
        sender?.end(.success(()))
    }

    /// - Returns: whether it was sent; `false` when the connection has ended or closes meanwhile.
    private func write(_ message: WebSocket.Message, isKept: Bool = true, _ deflater: inout Deflater?) throws -> Bool {
        try observer?.send(message.socketMessage)
        switch message {
        case .text(let text):
            var text = text
            return text.withUTF8 { write(message, .text, UnsafeRawBufferPointer($0), isKept: isKept, &deflater) }
        case .data(let data):
            return data.withUnsafeBytes { write(message, .data, $0, isKept: isKept, &deflater) }
        }
    }

    private func write(
        _ message: WebSocket.Message, _ opcode: FrameReader.Opcode, _ payload: UnsafeRawBufferPointer, isKept: Bool,
        _ deflater: inout Deflater?
    ) -> Bool {
        let compressed = compressed(payload, &deflater)
        return state.withLock { state in
            guard state.isOpen else { return false }
            let isWritten =
                compressed?.withUnsafeBytes { append(opcode, $0, isCompressed: true, &state) }
                ?? append(opcode, payload, isCompressed: false, &state)
            guard isWritten else { return false }
            state.messageEnd = state.written
            guard isKept, options.reconnection != nil, options.resend == .unsent else { return true }
            let taken = output.takenCount
            if let first = state.unsent.first, first.end <= taken {
                state.unsent.removeFirst(state.unsent.firstIndex { $0.end > taken } ?? state.unsent.count)
            }
            state.unsent.append((state.written, message))
            return true
        }
    }

    /// The compressed payload; `nil` when it is sent uncompressed. A compressed payload is sent even if it is larger, because
    /// the next message may refer to it.
    private func compressed(_ payload: UnsafeRawBufferPointer, _ deflater: inout Deflater?) -> [UInt8]? {
        guard let compression = agreement.compression, compression.clientWindow > 8,
            payload.count >= Self.compressedFrom
        else { return nil }
        if deflater == nil {
            deflater = Deflater(window: compression.clientWindow, resetsEachMessage: compression.clientResets)
        }
        return deflater?.deflate(payload)
    }

    func writePing(_ payload: [UInt8], _ state: inout State) {
        observer?.sendPing(payload)
        write(.ping, payload, &state)
    }

    /// Sends a control frame.
    func write(_ opcode: FrameReader.Opcode, _ payload: [UInt8], _ state: inout State) {
        _ = payload.withUnsafeBytes { append(opcode, $0, isCompressed: false, &state) }
    }

    /// - Returns: `false` when the connection is over.
    private func append(
        _ opcode: FrameReader.Opcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool, _ state: inout State
    ) -> Bool {
        output.write { bytes in
            let before = bytes.count
            state.writer.append(opcode, payload, isCompressed: isCompressed, to: &bytes)
            state.written += Int64(bytes.count - before)
        }
    }
}
