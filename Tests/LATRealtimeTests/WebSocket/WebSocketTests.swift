import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// WebSockets over the server of LATTesting.
@Suite(.timeLimit(.minutes(2))) struct WebSocketTests {
    let manager: CentralRequestManager
    let server: MockServer

    init() throws {
        manager = try CentralRequestManager.make()
        server = try MockServer()
    }

    @Test func messagesGoBothWays() async throws {
        server.enqueue(.webSocket(.text("hello"), .echo(2), .fragments(["ha", "", "lf"]), .close(1000, "done")))
        let socket = try await manager.webSocket(server.url("/chat"))
        #expect(socket.state == .open)
        try await socket.send("one")
        try await socket.send(Data([0, 255]))
        let messages = try await socket.all()
        #expect(messages == [.text("hello"), .text("one"), .data(Data([0, 255])), .text("half")])
        #expect(socket.closing == .init(code: 1000, reason: "done", isByServer: true, isClean: true))
        #expect(socket.state == .closed)
        let request = try #require(server.requests.first)
        #expect(request.method == "GET" && request.path == "/chat")
        #expect(request.headers["Upgrade"] == "websocket")
        #expect(request.headers["Sec-WebSocket-Version"] == "13")
        #expect(request.headers["Transfer-Encoding"] == nil && request.headers["Content-Length"] == nil)
        #expect(request.headers["Accept-Encoding"] == nil && request.headers["Expect"] == nil)
    }

    @Test(arguments: ["ws", "WSS"]) func schemesOfWebSocketsAreKnown(_ scheme: String) async throws {
        server.enqueue(.webSocket(.text("a")))
        guard scheme == "ws" else {
            let port = try ClosedPort()
            let error = await failure { _ = try await manager.webSocket("\(scheme)://127.0.0.1:\(port.port)/") }
            #expect(error?.kind == .connect)
            #expect(error?.request?.url == "https://127.0.0.1:\(port.port)/")
            return
        }
        #expect(try await manager.webSocket("ws://127.0.0.1:\(server.port)/").all() == [.text("a")])
    }

    @Test func clientClosesWithCodeAndReason() async throws {
        server.enqueue(.webSocket { [.text($0.text)] })
        let socket = try await manager.webSocket(server.url("/"))
        try await socket.send("x")
        let closing = try await socket.close(code: 4001, reason: "grüße")
        #expect(closing == .init(code: 4001, reason: "grüße", isByServer: false, isClean: true))
        #expect(try await socket.all() == [.text("x")])
        try await server.waitForSocketMessages(2)
        #expect(server.socketMessages.map(\.kind) == [.text, .close(code: 4001)])
        #expect(server.socketMessages.last?.text == "grüße")
        #expect(await failure { try await socket.send("late") }?.kind == .connectionLost)
        // A second call of `close` returns the result of the first.
        #expect(try await socket.close().code == 4001)
    }

    @Test func codesAndReasonsAreChecked() async throws {
        server.enqueue(.webSocket { _ in [] })
        let socket = try await manager.webSocket(server.url("/"))
        for code: WebSocket.CloseCode in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000] {
            #expect(await failure { try await socket.close(code: code) }?.kind == .invalidRequest)
        }
        let long = String(repeating: "é", count: 62)
        #expect(await failure { try await socket.close(reason: long) }?.message.contains("124 bytes") == true)
        #expect(socket.state == .open)
        try await socket.close(reason: String(long.dropLast()))
    }

    @Test func pingMeasuresTheRoundTrip() async throws {
        server.enqueue(.webSocket { [.text($0.text)] })
        let socket = try await manager.webSocket(server.url("/"))
        #expect(try await socket.ping() > .zero)
        try await socket.ping()
        #expect(server.socketMessages.map(\.kind) == [.ping, .ping])
        try await socket.close()
    }

    @Test func pingsOfTheServerAreAnswered() async throws {
        // Nobody reads the messages meanwhile.
        server.enqueue(.webSocket(.text("a"), .ping("p1"), .ping("p2"), .text("b"), .receive(1)))
        let socket = try await manager.webSocket(server.url("/"))
        try await server.waitForSocketMessages(2)
        #expect(server.socketMessages.map(\.kind) == [.pong, .pong])
        #expect(server.socketMessages.map(\.text) == ["p1", "p2"])
        try await socket.send("go on")
        #expect(try await socket.all() == [.text("a"), .text("b")])
    }

    @Test func subprotocolIsAgreedOn() async throws {
        server.enqueue(
            .webSocket(.text("a")).subprotocol("v2"), .webSocket().subprotocol("v9"), .webSocket(.text("b")))
        let url = server.url("/")
        #expect(try await manager.webSocket(url, protocols: ["v1", "v2"]).subprotocol == "v2")
        #expect(server.requests[0].headers["Sec-WebSocket-Protocol"] == "v1, v2")
        let error = await failure { _ = try await manager.webSocket(url, protocols: ["v1"]) }
        #expect(error?.kind == .protocolViolation && error?.message.contains("\"v9\"") == true)
        #expect(try await manager.webSocket(url, protocols: ["v1"]).subprotocol == nil)
        #expect(await failure { _ = try await manager.webSocket(url, protocols: ["a b"]) }?.kind == .invalidRequest)
    }

    @Test func largeMessagesGoBothWays() async throws {
        server.enqueue(.webSocket(.echo(6)))
        let socket = try await manager.webSocket(server.url("/"))
        let sizes = [0, 125, 126, 65_535, 65_536, 3 << 20]
        for size in sizes { try await socket.send(Data(repeating: UInt8(size & 0xFF), count: size)) }
        var received: [Data] = []
        for try await message in socket.messages { received.append(message.data) }
        #expect(received.map(\.count) == sizes)
        #expect(received.allSatisfy { data in data.allSatisfy { $0 == UInt8(data.count & 0xFF) } })
    }

    @Test func refusalIsAnErrorWithItsResponse() async throws {
        server.enqueue(.text("no entry", status: 403), .text("no socket here"), .status(101))
        let refused = await failure { _ = try await manager.webSocket(server.url("/")) }
        #expect(refused?.kind == .httpStatus && refused?.response?.text == "no entry")
        let ordinary = await failure { _ = try await manager.webSocket(server.url("/")) }
        #expect(ordinary?.kind == .httpStatus && ordinary?.response?.status == 200)
        let bare = await failure { _ = try await manager.webSocket(server.url("/")) }
        #expect(bare?.kind == .protocolViolation)
        try await server.waitUntilDisconnected()
    }

    @Test func wrongAcceptIsRefused() async throws {
        server.enqueue(.webSocket().header("Sec-WebSocket-Accept", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="))
        let error = await failure { _ = try await manager.webSocket(server.url("/")) }
        #expect(error?.kind == .protocolViolation && error?.message.contains("Sec-WebSocket-Accept") == true)
        try await server.waitUntilDisconnected()
    }

    @Test func redirectsComeBeforeTheUpgrade() async throws {
        let other = try MockServer()
        other.enqueue(.webSocket(.text("there")))
        server.enqueue(.redirect(to: "ws://127.0.0.1:\(other.port)/moved", status: 307))
        let socket = try await manager.webSocket(server.url("/"), headers: ["Authorization": "secret"])
        #expect(try await socket.all() == [.text("there")])
        #expect(other.requests.first?.path == "/moved")
        #expect(other.requests.first?.headers["Authorization"] == nil)
        #expect(socket.response?.redirects.map(\.status) == [307])
    }

    @Test func lostConnectionIsAnError() async throws {
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket(.text("b"), .reset))
        for text in ["a", "b"] {
            let socket = try await manager.webSocket(server.url("/"))
            var messages: [WebSocket.Message] = []
            let error = await failure { for try await message in socket.messages { messages.append(message) } }
            #expect(messages == [.text(text)])
            #expect(error?.kind == .connectionLost)
            #expect(socket.closing?.code == .lost && socket.closing?.isClean == false)
            #expect(socket.state == .closed)
        }
    }

    @Test func valuesAreJSON() async throws {
        struct Price: Codable, Sendable, Equatable { var cents: Int }
        server.enqueue(.webSocket(.text(#"{"cents": 7}"#), .data(Data(#"{"cents": 8}"#.utf8)), .echo(1), .text("no")))
        let socket = try await manager.webSocket(server.url("/"))
        try await socket.send(json: Price(cents: 9))
        var prices: [Int] = []
        let error = await failure {
            for try await price in socket.messages(of: Price.self) { prices.append(price.cents) }
        }
        #expect(prices == [7, 8, 9])
        #expect(error?.message.contains("a message is not Price") == true)
    }

    @Test func messagesKeepTheirSocketOpen() async throws {
        server.enqueue(.webSocket(.wait(.milliseconds(300)), .text("a"), .close(1000)))
        var all: [WebSocket.Message] = []
        for try await message in try await manager.webSocket(server.url("/")).messages { all.append(message) }
        #expect(all == [.text("a")])
    }

    @Test func releasedSocketSendsACloseFrame() async throws {
        server.enqueue(.webSocket { _ in [] })
        _ = try await manager.webSocket(server.url("/"))
        try await server.waitForSocketMessages(1)
        #expect(server.socketMessages.map(\.kind) == [.close(code: 1001)])
        try await server.waitUntilDisconnected()
    }
}
