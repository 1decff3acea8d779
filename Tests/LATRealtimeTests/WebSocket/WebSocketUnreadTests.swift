import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import LATRealtime

/// Sockets whose messages nobody reads, so that the inbox is full.
@Suite(.timeLimit(.minutes(2))) struct WebSocketUnreadTests {
    private let manager: CentralRequestManager
    private let server: MockServer
    /// More than the inbox holds while the connection is open.
    private let many = MockReply.SocketStep.repeated([.text("a")], count: 3_000)

    init() throws {
        manager = try CentralRequestManager.make()
        server = try MockServer()
    }

    @Test func endIsNoticedByTheSender() async throws {
        server.enqueue(.webSocket(many, .cut))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(pingInterval: nil))
        try await eventually("the end") { socket.state == .closed }
        #expect(await failure { try await socket.send("b") }?.kind == .connectionLost)
        var messages = socket.messages.makeAsyncIterator()
        for _ in 0..<3_000 { #expect(try await messages.next() == .text("a")) }
        #expect(await failure { _ = try await messages.next() }?.kind == .connectionLost)
    }

    @Test func messagesSentAtTheEndAreSentOnTheNextConnection() async throws {
        server.enqueue(.webSocket(many, .cut))
        server.fallback { _ in .webSocket { [.text($0.text)] } }
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(pingInterval: nil, reconnection: .quick, resend: .unsent))
        // The engine knows of the end, and the socket may not know of it yet.
        let first = try #require(socket.session.latest)
        try await eventually("the end") { first.output.isOver }
        for text in ["b", "c", "d"] { try await socket.send(text) }
        try await server.waitForSocketMessages(3)
        #expect(server.socketMessages.map(\.text) == ["b", "c", "d"])
        var messages = socket.messages.makeAsyncIterator()
        for _ in 0..<3_000 { #expect(try await messages.next() == .text("a")) }
        for text in ["b", "c", "d"] { #expect(try await messages.next() == .text(text)) }
        try await socket.close()
    }

    /// The test takes the place of the engine.
    @Test func nothingIsSentOnAConnectionThatIsOver() async throws {
        let output = ConnectionOutput()
        let request = HTTPRequest("GET", server.url("/"))
        let connection = SocketConnection(
            HTTPResponse(status: 101, url: request.url), output, .init(),
            WebSocketOptions(reconnection: .quick, resend: .unsent),
            try manager.liveCall(request, standard: [:], upgrades: true), SocketInbox())
        try connection.sendAtOnce([.text("a")], isKept: true)
        output.end()
        #expect(try await connection.send(.text("the caller keeps it")) == false)
        try connection.sendAtOnce([.text("greeting")], isKept: false)
        try connection.sendAtOnce([.text("b"), .text("c")], isKept: true)
        #expect(connection.takeUnsent() == [.text("a"), .text("b"), .text("c")])
    }

    @Test func messagesBeforeTheServersCloseFrameAreKept() async throws {
        server.enqueue(.webSocket { [many] _ in [many] })
        let socket = try await manager.webSocket(server.url("/"))
        try await socket.send("all of them")
        #expect(try await socket.close().isClean)
        #expect(try await socket.all().count == 3_000)
    }

    @Test func moreMessagesThanFitBeforeTheCloseFrameAreAnError() async throws {
        server.enqueue(.webSocket { _ in [.repeated([.data(Data(count: 1 << 20))], count: 40)] })
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(closeTimeout: .seconds(5)))
        try await socket.send("all of them")
        #expect(try await socket.close().isClean == false)
        var count = 0
        let error = await failure { for try await _ in socket.messages { count += 1 } }
        #expect(count >= 16 && count < 40)
        #expect(error?.kind == .connectionLost && error?.message.contains("nobody read the messages") == true)
    }

    @Test func pingWithoutReaderEndsInTime() async throws {
        server.enqueue(.webSocket(many, .receive(.max)))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(pingInterval: nil))
        try await eventually("a full inbox") { socket.session.inbox.holdsUpConnection }
        let late = await failure { try await socket.ping(within: .milliseconds(50)) }
        #expect(late?.kind == .timeout(.idle))
        #expect(late?.message.contains("socket.messages") == true)
        #expect(socket.session.latest?.state.withLock(\.pings.isEmpty) == true)
        let reader = Task { try await socket.all() }
        #expect(try await socket.ping() > .zero)
        try await socket.close()
        #expect(try await reader.value.count == 3_000)
    }
}
