import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATRealtime

/// Servers and networks that misbehave, and peers that are slow.
@Suite(.timeLimit(.minutes(2))) struct WebSocketFaultTests {
    private let manager: CentralRequestManager
    private let server: MockServer

    init() throws {
        manager = try CentralRequestManager.make()
        server = try MockServer()
    }

    private func outcome(
        _ reply: MockReply, _ options: WebSocketOptions = WebSocketOptions()
    ) async throws -> (messages: [WebSocket.Message], error: NetworkError?, closing: WebSocket.Closing?) {
        server.enqueue(reply)
        let socket = try await manager.webSocket(server.url("/"), options: options)
        var messages: [WebSocket.Message] = []
        do {
            for try await message in socket.messages { messages.append(message) }
            return (messages, nil, socket.closing)
        } catch let error as NetworkError {
            return (messages, error, socket.closing)
        }
    }

    @Test func maskedFramesAreRefused() async throws {
        let (messages, error, closing) = try await outcome(
            .webSocket(.text("a"), .frame(opcode: 1, Data("b".utf8), isMasked: true), .receive(.max)))
        #expect(messages == [.text("a")])
        #expect(error?.kind == .protocolViolation && error?.message.contains("masked") == true)
        #expect(closing?.code == .protocolError && closing?.isByServer == false)
        try await server.waitForSocketMessages(1)
        #expect(server.socketMessages.last?.kind == .close(code: 1002))
        try await server.waitUntilDisconnected()
    }

    @Test func serverThatClosesWithoutAnAnswerIsALoss() async throws {
        server.enqueue(.text("x").closing(afterBytes: 0))
        let error = await #expect(throws: NetworkError.self) {
            _ = try await manager.webSocket(server.url("/"), options: WebSocketOptions(openTimeout: .seconds(120)))
        }
        #expect(error?.kind == .connectionLost)
    }

    @Test func cutInsideAFrameIsALoss() async throws {
        let (messages, error, _) = try await outcome(
            .webSocket(.text("whole"), .bytes(Data([0x81, 10, 0x61, 0x62])), .cut))
        #expect(messages == [.text("whole")])
        #expect(error?.kind == .connectionLost)
    }

    @Test func compressedGarbageIsRefused() async throws {
        let reply = MockReply.webSocket(.frame(opcode: 1, Data([0xFF, 0xFF, 0xFF]), reserved: 4), .receive(.max))
            .header("Sec-WebSocket-Extensions", "permessage-deflate")
        let (messages, error, closing) = try await outcome(reply)
        #expect(messages.isEmpty)
        #expect(error?.message.contains("cannot be opened") == true && closing?.code == .invalidContent)
    }

    @Test func bombIsStoppedAtTheLimit() async throws {
        let limit = 1 << 20
        for size in [limit, limit + 1, limit * 20] {
            let deflater = try #require(Deflater(window: 15, resetsEachMessage: false))
            let bomb = try #require([UInt8](repeating: 0, count: size).withUnsafeBytes { deflater.deflate($0) })
            let reply = MockReply.webSocket(.frame(opcode: 2, Data(bomb), reserved: 4), .receive(.max))
                .header("Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover")
            if size == limit {
                server.enqueue(reply)
                let socket = try await manager.webSocket(
                    server.url("/"), options: WebSocketOptions(messageLimit: limit))
                var incoming = socket.messages.makeAsyncIterator()
                #expect(try await incoming.next()?.byteCount == limit)
                continue
            }
            let (messages, error, closing) = try await outcome(reply, WebSocketOptions(messageLimit: limit))
            #expect(messages.isEmpty && error?.kind == .bodyTooLarge && closing?.code == .tooLarge, "\(size)")
            #expect(error?.message.contains("\(limit) bytes") == true)
        }
    }

    @Test func largeFrameIsRefusedByItsHead() async throws {
        // The head alone: nothing of the message follows.
        let (_, error, closing) = try await outcome(
            .webSocket(.bytes(Data([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0])), .receive(.max)))
        #expect(error?.kind == .bodyTooLarge && closing?.code == .tooLarge)
    }

    @Test func cancelledTaskDoesNotWaitForTheClosing() async throws {
        server.enqueue(.webSocket(.text("a"), .stall))
        let socket = try await manager.webSocket(server.url("/"))
        let closing = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await socket.close()
        }
        await #expect(throws: CancellationError.self) { try await closing.value }
        manager.cancelRequests(.all)
        try await server.waitUntilDisconnected()
    }

    /// The server closes while this side closes.
    @Test(arguments: [1009, 4001]) func failureThatTheServerTellsIsTheCode(_ code: Int) async throws {
        server.enqueue(.webSocket { _ in [.close(code, "why")] })
        let socket = try await manager.webSocket(server.url("/"))
        try await socket.send("x")
        let closing = try await socket.close(code: 4002)
        #expect(closing.code.rawValue == UInt16(code) && closing.reason == "why" && closing.isByServer)
    }

    @Test func closeEndsWithoutTheServersAnswer() async throws {
        server.enqueue(.webSocket(.text("a"), .stall))
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(closeTimeout: .milliseconds(50)))
        var incoming = socket.messages.makeAsyncIterator()
        #expect(try await incoming.next() == .text("a"))
        let closing = try await socket.close(code: 4002)
        #expect(closing == .init(code: 4002, isByServer: false, isClean: false))
        #expect(try await incoming.next() == nil)
        try await server.waitUntilDisconnected()
    }

    @Test(arguments: [MockReply.webSocket(.text("a"), .stall), .webSocket(.text("a"), .receive(.max)).pongs(.never)])
    func silenceIsNoticedByPings(_ reply: MockReply) async throws {
        let (messages, error, _) = try await outcome(
            reply, WebSocketOptions(pingInterval: .seconds(1), missedPongs: 2))
        #expect(messages == [.text("a")])
        #expect(error?.kind == .timeout(.idle) && error?.message.contains("2 pings") == true)
        try await server.waitUntilDisconnected()
    }

    @Test func slowPongsKeepTheConnection() async throws {
        server.enqueue(.webSocket { [.text($0.text)] }.pongs(.after(.milliseconds(150))))
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(pingInterval: .milliseconds(100), missedPongs: 50))
        #expect(try await socket.ping() >= .milliseconds(150))
        try await server.waitForSocketMessages(4)
        #expect(socket.state == .open)
        try await socket.close()
    }

    @Test func readerThatIsSlowHoldsTheServer() async throws {
        let size = 64 << 10
        let count = 2_000
        server.enqueue(.webSocket(.repeated([.data(Data(count: size))], count: count)))
        let socket = try await manager.webSocket(server.url("/"))
        // The server is stopped by the full buffers of both systems: it sends nothing for a while.
        var (last, still) = (Int64(0), 0)
        try await eventually {
            try await Task.sleep(for: .milliseconds(10))
            still = server.sentBytes == last && socket.session.inbox.holdsUpConnection ? still + 1 : 0
            last = server.sentBytes
            return still == 20
        }
        #expect(last < Int64(size) * Int64(count) / 2)
        var received = 0
        for try await message in socket.messages { received += message.byteCount }
        #expect(received == size * count)
    }

    @Test func slowReaderIsNotTakenForADeadServer() {
        var rule = KeepAlive(limit: 1)
        func beat(hadInput: Bool = false, isReaderBehind: Bool = false) -> KeepAlive.Action {
            rule.beat(hadInput: hadInput, isReaderBehind: isReaderBehind, written: 0, taken: 0)
        }
        for _ in 0..<10 { #expect(beat(isReaderBehind: true) == .rest) }
        #expect(beat() == .ping)
        #expect(beat(hadInput: true) == .rest)
        #expect(beat() == .ping)
        #expect(beat() == .lost)
    }

    @Test func pingBehindALongMessageIsNotMissed() {
        var rule = KeepAlive(limit: 1)
        func beat(taken: Int64) -> KeepAlive.Action {
            rule.beat(hadInput: false, isReaderBehind: false, written: 1_000, taken: taken)
        }
        #expect(beat(taken: 0) == .ping)
        for taken in 1...5 { #expect(beat(taken: Int64(taken) * 200) == .rest) }
        #expect(beat(taken: 1_002) == .ping)
        #expect(beat(taken: 1_004) == .lost)
        // Nothing leaves.
        rule = KeepAlive(limit: 1)
        #expect(beat(taken: 500) == .ping)
        #expect(beat(taken: 500) == .lost)
    }

    @Test func closingHandshakeIsNotCutByPings() async throws {
        server.enqueue(.webSocket(.text("a"), .stall))
        // Without a close, two seconds of pings would end the connection.
        let socket = try await manager.webSocket(
            server.url("/"),
            options: WebSocketOptions(pingInterval: .milliseconds(20), missedPongs: 100, closeTimeout: .seconds(4)))
        var incoming = socket.messages.makeAsyncIterator()
        #expect(try await incoming.next() == .text("a"))
        #expect(try await socket.close(code: 4002).code.rawValue == 4002)
        #expect(try await incoming.next() == nil)
    }

    @Test func senderWaitsForASlowServer() async throws {
        server.enqueue(.webSocket(.receive(100), .stall))
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(sendBuffer: 100_000, closeTimeout: .milliseconds(50)))
        for _ in 0..<100 {
            try await socket.send(Data(count: 50_000))
            #expect(socket.bufferedAmount < 200_000)
        }
        // More than the system's buffers hold: most of it stays queued.
        try await socket.send(Data(count: 32 << 20))
        func senderWaits() -> Bool { socket.session.latest?.state.withLock(\.senders.count) == 1 }
        let cancelled = Task { try await socket.send("cancelled") }
        try await eventually("a waiting sender") { senderWaits() }
        #expect(socket.bufferedAmount >= 100_000)
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        // The others wait no longer when the socket is closed.
        let late = Task { try await socket.send("late") }
        try await eventually("another waiting sender") { senderWaits() }
        try await socket.close()
        #expect(await failure { try await late.value }?.kind == .connectionLost)
        // What was queued is lost, and the app can know it.
        #expect(socket.bufferedAmount >= 100_000)
    }

    /// A response body of one ping. It reads the connection's output only after the ping has been handled.
    private final class PingBody: ResponseBody.Source {
        let output = ConnectionOutput()
        let sent = Log<[UInt8]>()
        private let isHandled = Atomic(false)

        func next() async -> Data? {
            guard isHandled.exchange(true, ordering: .relaxed) else { return Data([0x89, 2, 0x61, 0x62]) }
            output.open()
            var buffer = [UInt8](repeating: 0, count: 16 << 10)
            while case .bytes(let count) = buffer.withUnsafeMutableBytes({ output.read(into: $0) }) {
                sent.append(Array(buffer[..<count]))
            }
            return nil
        }
    }

    @Test(arguments: [0, 20_000, 40_000, 60_000, 70_000, 200_000])
    func pingsAreAnsweredWhileBytesWait(_ count: Int) async throws {
        let body = PingBody()
        let response = HTTPResponse(status: 101, url: server.url("/"))
        let call = try manager.liveCall(HTTPRequest("GET", server.url("/")), standard: [:], upgrades: true)
        let connection = SocketConnection(
            response, body.output, .init(), WebSocketOptions(pingInterval: nil), call, SocketInbox())
        try connection.sendAtOnce([.data(Data(count: count))], isKept: true)
        await withCheckedContinuation { over in
            connection.start(ResponseBody(body), on: nil) { _, _ in over.resume() }
        }
        call.cancel()
        let sent = body.sent.elements.flatMap { $0 }
        // The pong is the last frame, of 8 bytes.
        #expect(sent.count > count + 8 && sent.suffix(8).starts(with: [0x8A, 0x82]))
    }

    @Test func messagesOfManyTasksNeverMix() async throws {
        server.enqueue(.webSocket { _ in [] })
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(sendBuffer: 20_000))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<20 {
                group.addTask {
                    for number in 0..<20 {
                        let letter = UInt8(ascii: "a") + UInt8(task)
                        try await socket.send(
                            String(decoding: [UInt8](repeating: letter, count: 3_000 + number), as: UTF8.self))
                    }
                }
            }
            try await group.waitForAll()
        }
        try await socket.close()
        let texts = server.socketMessages.filter { $0.kind == .text }.map(\.text)
        #expect(texts.count == 400)
        #expect(texts.allSatisfy { Set($0.utf8).count == 1 })
        // The messages of one task are in order.
        for letter in "abcdefghijklmnopqrst" {
            #expect(texts.filter { $0.first == letter }.map(\.utf8.count) == Array(3_000..<3_020))
        }
    }

    @Test func cancellationEndsTheSocket() async throws {
        server.enqueue(.webSocket(.text("a"), .stall), .webSocket(.text("b"), .stall))
        let tagged = try await manager.webSocket(server.url("/"), tag: "live")
        let other = try await manager.webSocket(server.url("/"))
        manager.cancelRequests(.tag("live"))
        #expect(await failure { _ = try await tagged.all() }?.kind == .cancelled)
        #expect(other.state == .open)
        // A reader that is cancelled leaves the socket open.
        let reader = Task { try await other.all() }
        reader.cancel()
        await #expect(throws: CancellationError.self) { try await reader.value }
        #expect(other.state == .open)
    }

    @Test func cancellationEndsASocketThatNobodyReads() async throws {
        server.enqueue(.webSocket(.repeated([.text("a")], count: 3_000), .stall))
        let socket = try await manager.webSocket(server.url("/"), tag: "unread")
        try await eventually { socket.session.inbox.holdsUpConnection }
        manager.cancelRequests(.tag("unread"))
        try await eventually { socket.state == .closed }
        // The messages that have arrived come first.
        var incoming = socket.messages.makeAsyncIterator()
        #expect(try await incoming.next() == .text("a"))
        #expect(await failure { _ = try await socket.all() }?.kind == .cancelled)
    }

    @Test func openingEndsInTime() async throws {
        server.enqueue(.webSocket().stalling(.start), .webSocket().stalling(.start))
        let late = await failure {
            _ = try await manager.webSocket(
                server.url("/"), options: WebSocketOptions(openTimeout: .milliseconds(50)))
        }
        #expect(late?.kind == .timeout(.total))
        var request = HTTPRequest("GET", server.url("/"))
        request.timeout = .milliseconds(60)
        #expect(await failure { _ = try await manager.webSocket(request) }?.message.contains("0.06") == true)
        try await server.waitUntilDisconnected()
    }

    @Test func floodOfPingsIsAnswered() async throws {
        server.enqueue(.webSocket(.repeated([.ping("x")], count: 20_000), .text("end"), .close(1000)))
        let socket = try await manager.webSocket(server.url("/"))
        #expect(try await socket.all() == [.text("end")])
        #expect(socket.closing?.isClean == true)
    }

    @Test func manySocketsAreOpenAtOnce() async throws {
        server.fallback { _ in .webSocket { [.text($0.text)] } }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 1 }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask { [url = server.url("/")] in
                    let socket = try await manager.webSocket(url)
                    var incoming = socket.messages.makeAsyncIterator()
                    for round in 0..<5 {
                        try await socket.send("\(number) \(round)")
                        #expect(try await incoming.next() == .text("\(number) \(round)"))
                    }
                    #expect(try await socket.close().isClean)
                }
            }
            try await group.waitForAll()
        }
        await manager.shutdown()
        #expect(await manager.gauges?.sockets == 0)
    }
}
