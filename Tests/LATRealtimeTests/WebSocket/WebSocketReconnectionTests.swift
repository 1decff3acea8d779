import Dispatch
import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATRealtime

@Suite(.timeLimit(.minutes(2))) struct WebSocketReconnectionTests {
    private let manager: CentralRequestManager
    private let server: MockServer

    init() throws {
        manager = try CentralRequestManager.make()
        server = try MockServer()
    }

    @Test func lostConnectionIsOpenedAgain() async throws {
        server.enqueue(
            .webSocket(.text("a"), .cut), .status(503), .webSocket(.text("b"), .close(1012)),
            .webSocket(.text("c"), .close(1000)))
        var reconnection = Reconnection.quick
        reconnection.statuses = [503]
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: reconnection))
        let states = socket.states
        #expect(try await socket.all() == [.text("a"), .text("b"), .text("c")])
        #expect(server.requestCount == 4)
        #expect(socket.closing?.code == .normal)
        // A refused attempt is no loss.
        #expect(socket.losses == 2)
        var last: LiveState?
        for await state in states { last = state }
        #expect(last == .closed)
        // Each handshake has a key of its own.
        #expect(Set(server.requests.map { $0.headers["Sec-WebSocket-Key"] }).count == 4)
    }

    @Test func closingIsThatOfTheNewestConnection() async throws {
        server.enqueue(.webSocket(.text("a"), .close(1001)), .webSocket(.text("b"), .stall))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: .quick))
        var messages = socket.messages.makeAsyncIterator()
        #expect(try await messages.next() == .text("a"))
        #expect(try await messages.next() == .text("b"))
        #expect(socket.closing == nil)
    }

    @Test(arguments: [1000, 1003, 1008, 4000]) func onlySomeCloseCodesReconnect(_ code: Int) async throws {
        server.enqueue(.webSocket(.text("a"), .close(code)), .webSocket(.text("never")))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: .quick))
        #expect(try await socket.all() == [.text("a")])
        #expect(server.requestCount == 1)
        #expect(socket.closing?.code.rawValue == UInt16(code))
    }

    @Test func laterHandshakeThatHangsIsTriedAgain() async throws {
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket().stalling(.start))
        server.fallback { _ in .webSocket(.text("b"), .close(1000)) }
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(openTimeout: .seconds(2), reconnection: .quick))
        #expect(try await socket.all() == [.text("a"), .text("b")])
    }

    @Test func firstConnectionIsTriedAgain() async throws {
        server.enqueue(.text("x").closing(afterBytes: 0), .webSocket(.text("a"), .close(1000)))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: .quick))
        #expect(try await socket.all() == [.text("a")])
    }

    @Test func attemptsAreLimited() async throws {
        let closed = try ClosedPort()
        var reconnection = Reconnection.quick
        reconnection.attempts = 3
        let error = await failure {
            _ = try await manager.webSocket(
                closed.url(), options: WebSocketOptions(reconnection: reconnection))
        }
        #expect(error?.kind == .connect)
    }

    @Test func greetingComesFirstOnEachConnection() async throws {
        server.enqueue(
            .webSocket(.receive(2), .text("a"), .cut), .webSocket(.receive(2), .text("b"), .close(1000)))
        let socket = try await manager.webSocket(
            server.url("/"),
            options: WebSocketOptions(
                reconnection: .quick, greeting: { [.text("subscribe"), .data(Data([1]))] }))
        #expect(try await socket.all() == [.text("a"), .text("b")])
        let first = server.socketMessages.filter { $0.connection == 1 }.prefix(2).map(\.text)
        let second = server.socketMessages.filter { $0.connection == 2 }.prefix(2).map(\.text)
        #expect(first == ["subscribe", "\u{1}"] && second == first)
    }

    /// The test takes the place of the engine, so nothing is sent.
    @Test func greetingIsNotKeptForTheNextConnection() throws {
        let request = HTTPRequest("GET", server.url("/"))
        let connection = SocketConnection(
            HTTPResponse(status: 101, url: request.url), ConnectionOutput(), .init(),
            WebSocketOptions(reconnection: .quick, resend: .unsent),
            try manager.liveCall(request, standard: [:], upgrades: true), SocketInbox())
        try connection.sendAtOnce([.text("subscribe")], isKept: false)
        try connection.sendAtOnce([.text("a")], isKept: true)
        #expect(connection.takeUnsent() == [.text("a")])
    }

    @Test func messagesWaitForTheNextConnection() async throws {
        let mayOpen = DispatchSemaphore(value: 0)
        server.enqueue(.webSocket(.text("a"), .cut))
        server.fallback { _ in
            mayOpen.wait()
            return .webSocket { [.text($0.text)] }
        }
        let socket = try await manager.webSocket(
            server.url("/"), options: WebSocketOptions(reconnection: .quick, resend: .unsent))
        var incoming = socket.messages.makeAsyncIterator()
        #expect(try await incoming.next() == .text("a"))
        try await eventually { socket.state != .open }
        async let sent: Void = socket.send("b")
        mayOpen.signal()
        try await sent
        #expect(try await incoming.next() == .text("b"))
        try await socket.close()
    }

    @Test func sendFailsWithoutResend() async throws {
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket().stalling(.start))
        let wait = Reconnection(firstWait: .seconds(60), longestWait: .seconds(60))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: wait))
        var incoming = socket.messages.makeAsyncIterator()
        #expect(try await incoming.next() == .text("a"))
        try await eventually { socket.state != .open }
        #expect(await failure { try await socket.send("b") }?.kind == .connectionLost)
        // A close ends the wait.
        try await socket.close()
        #expect(socket.state == .closed)
    }

    @Test func socketIsOneCallForObservers() async throws {
        let accessory = StepRecorder()
        let manager = try CentralRequestManager.make { $0.accessories = [accessory] }
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket(.text("b"), .close(1000)))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: .quick))
        _ = try await socket.all()
        try await eventually { accessory.events.count == 4 }
        #expect(accessory.events.elements == ["willStart", "didStart", "willFinish", "didFinish"])
    }

    @Test func messagesBeyondTheLimitSurviveReconnection() async throws {
        server.enqueue(
            .webSocket(.text("a"), .close(1012)),
            .webSocket(.repeated([.text("b")], count: 3_000), .close(1000)))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: .quick))
        // Nothing is read until no more fits.
        try await eventually { socket.session.inbox.holdsUpConnection || socket.state == .closed }
        #expect(try await socket.all().count == 3_001)
    }

    /// The greeting ignores the cancellation and fails with an error after which there would be another attempt.
    @Test func cancelledOpeningIsNotTriedAgain() async throws {
        let accessory = StepRecorder()
        let manager = try CentralRequestManager.make { $0.accessories = [accessory] }
        server.fallback { _ in .webSocket { _ in [] } }
        let (greets, mayFail) = (Event(), Event())
        let options = WebSocketOptions(
            reconnection: .quick,
            greeting: {
                greets.happen()
                await mayFail.wait()
                throw NetworkError(.connectionLost, message: "the token's server is gone")
            })
        let opening = Task { [url = server.url("/")] in try await manager.webSocket(url, options: options) }
        await greets.wait()
        opening.cancel()
        await #expect(throws: CancellationError.self) { try await opening.value }
        mayFail.happen()
        try await eventually { accessory.events.count == 4 }
        #expect(await manager.load.calls == 0)
        #expect(server.requestCount == 1)
    }

    /// The greeting ignores every cancellation.
    @Test func greetingThatHangsIsCancelled() async throws {
        server.fallback { _ in .webSocket { _ in [] } }
        let (greets, mayEnd) = (Event(), Event())
        let options = WebSocketOptions(
            greeting: {
                greets.happen()
                await mayEnd.wait()
                return []
            })
        let opening = Task { [url = server.url("/")] in
            try await manager.webSocket(url, tag: "hangs", options: options)
        }
        await greets.wait()
        manager.cancelRequests(.tag("hangs"))
        #expect(await failure { _ = try await opening.value }?.kind == .cancelled)
        #expect(await manager.load.calls == 0)
        try await server.waitUntilDisconnected()
        mayEnd.happen()
    }

    @Test func greetingThatHangsEndsInTime() async throws {
        server.fallback { _ in .webSocket { _ in [] } }
        let mayEnd = Event()
        let greeting: @Sendable () async -> [WebSocket.Message] = {
            await mayEnd.wait()
            return []
        }
        let late = await failure {
            _ = try await manager.webSocket(
                server.url("/"), options: WebSocketOptions(openTimeout: .seconds(3), greeting: greeting))
        }
        #expect(late?.kind == .timeout(.total))
        #expect(late?.message.contains("greeting") == true)
        var request = HTTPRequest("GET", server.url("/"))
        request.deadline = .milliseconds(500)
        let over = await failure {
            _ = try await manager.webSocket(request, options: WebSocketOptions(greeting: greeting))
        }
        #expect(over?.kind == .timeout(.deadline))
        try await server.waitUntilDisconnected()
        mayEnd.happen()
    }

    @Test(arguments: [false, true]) func closeBetweenTwoConnectionsEndsTheLoop(hangs: Bool) async throws {
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket().stalling(.start))
        let reconnection = hangs ? .quick : Reconnection(firstWait: .seconds(600), longestWait: .seconds(600))
        let socket = try await manager.webSocket(server.url("/"), options: WebSocketOptions(reconnection: reconnection))
        try await eventually {
            if case .waiting = socket.state, !hangs { true } else { server.requestCount == 2 }
        }
        try await socket.close()
        #expect(socket.state == .closed)
        #expect(try await socket.all() == [.text("a")])
        #expect(await manager.load.calls == 0)
    }

    /// The end of a socket calls the app's observers, which may take long.
    @Test func observerOfTheEndHoldsUpNoOtherCall() async throws {
        let accessory = SlowEnd()
        let manager = try CentralRequestManager.make { $0.accessories = [accessory] }
        server.enqueue(.webSocket(.text("a"), .close(1000)), .text("b"))
        let socket = try await manager.webSocket(server.url("/"))
        await accessory.isEnding.wait()
        let response = try await manager.startRequest("GET", server.url("/"))
        accessory.mayEnd.signal()
        #expect(response.text == "b")
        #expect(try await socket.all() == [.text("a")])
    }

    /// Waits at the end of the first call that ends.
    private final class SlowEnd: RequestAccessory {
        let isEnding = Event()
        let mayEnd = DispatchSemaphore(value: 0)

        func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
            guard !isEnding.hasHappened else { return }
            isEnding.happen()
            mayEnd.wait()
        }
    }
}
