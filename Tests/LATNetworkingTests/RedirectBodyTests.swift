import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Bodies of redirects: a short one is read to keep the connection, a long one is not waited for.
@Suite(.timeLimit(.minutes(1))) struct RedirectBodyTests {
    enum Body: CaseIterable, CustomTestStringConvertible {
        case endless, stalled, huge, stalledBeforeItsFirstByte

        var testDescription: String { "\(self)" }

        func reply(to location: String, status: Int = 302) -> MockReply {
            var reply: MockReply =
                switch self {
                case .endless: .pattern(byteCount: 1 << 40).inChunks(of: 1 << 30)
                case .stalled: .pattern(byteCount: 1000).stalling(.afterBodyBytes(10))
                case .huge: .pattern(byteCount: 1 << 30)
                case .stalledBeforeItsFirstByte: .pattern(byteCount: 1000).stalling(.afterHead)
                }
            reply.status = status
            return reply.header("Location", location)
        }
    }

    /// Returns the text of a response that is collected or streamed.
    private func text(of request: HTTPRequest, _ manager: CentralRequestManager, streams: Bool) async throws -> String {
        var request = request
        request.streamsBody = streams
        request.timeout = .seconds(30)
        let response = try await manager.send(request)
        #expect(response.body.isStream == streams)
        return String(decoding: try await response.body.collect(upTo: .max), as: UTF8.self)
    }

    @Test(arguments: Body.allCases, [false, true])
    func longBodyIsNotWaitedFor(_ body: Body, streams: Bool) async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.route("GET", "/a") { _ in body.reply(to: second.url("/b")) }
        second.route("GET", "/b") { _ in
            // Responds once the redirect's connection is closed, or after ten seconds, and says which.
            for _ in 0..<2000 where first.closedConnections == 0 { usleep(5000) }
            return .text("end \(first.closedConnections)")
        }
        let manager = try CentralRequestManager.make()
        let request = HTTPRequest("GET", first.url("/a"))
        #expect(try await text(of: request, manager, streams: streams) == "end 1")
        #expect(first.requestCount == 1)
    }

    @Test(arguments: [0, 1, 65_536], [false, true])
    func shortBodyKeepsTheConnection(byteCount: Int64, streams: Bool) async throws {
        for isChunked in [false, true] {
            let server = try MockServer()
            server.route("GET", "/a") { _ in
                var reply = MockReply.pattern(byteCount: byteCount).header("Location", "/b")
                reply.status = 302
                return isChunked ? reply.inChunks(of: 1000) : reply
            }
            server.route("GET", "/b") { _ in .text("end") }
            let request = HTTPRequest("GET", server.url("/a"))
            #expect(try await text(of: request, CentralRequestManager.make(), streams: streams) == "end")
            #expect(server.acceptedConnections == 1)
        }
    }

    @Test(arguments: Body.allCases)
    func postBecomesGetAfter303(_ body: Body) async throws {
        let server = try MockServer()
        server.route("POST", "/a") { _ in body.reply(to: "/b", status: 303) }
        server.route("GET", "/b") { _ in .text("end") }
        let response = try await CentralRequestManager.make().startRequest("POST", server.url("/a"), body: .text("x"))
        #expect(response.text == "end")
        #expect(server.requests.map(\.method) == ["POST", "GET"])
        #expect(response.redirects == [.init(url: server.url("/a"), status: 303)])
    }

    @Test(arguments: Body.allCases)
    func redirectEndsAnUnfinishedUpload(_ body: Body) async throws {
        let server = try MockServer()
        server.enqueue(body.reply(to: "/b", status: 303).beforeRequestBody())
        server.route("GET", "/b") { _ in .text("end") }
        let unending = HTTPBody.stream { AsyncStream<Data> { $0.yield(Data("begin".utf8)) } }
        let response = try await CentralRequestManager.make().startRequest(
            "POST", server.url("/a"), body: unending, timeout: .seconds(30))
        #expect(response.text == "end")
        #expect(server.requests.last?.method == "GET")
    }

    @Test(arguments: [false, true], [false, true])
    func unfollowedRedirectKeepsItsWholeBody(isStopped: Bool, streams: Bool) async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in
            var reply = MockReply.pattern(byteCount: 400_000).header("Location", "/b")
            reply.status = 302
            // Longer than the client waits for the body of a redirect.
            return reply.delayed(by: .milliseconds(400), at: .afterBodyBytes(10))
        }
        let manager = try CentralRequestManager.make {
            if isStopped { $0.redirectHandler = { _ in .stop } } else { $0.redirects = .none }
        }
        var request = HTTPRequest("GET", server.url("/a"))
        request.streamsBody = streams
        let response = try await manager.send(request)
        #expect(response.status == 302)
        #expect(response.body.isStream == streams)
        let bytes = try await response.body.collect(upTo: .max)
        #expect(bytes.count == 400_000)
        #expect(MockPattern.firstMismatch(in: bytes, at: 0) == nil)
        #expect(server.requestCount == 1)
    }

    @Test func unfollowedRedirectObeysTheBodyLimit() async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in Body.huge.reply(to: "/b") }
        let manager = try CentralRequestManager.make { $0.redirectHandler = { _ in .stop } }
        var request = HTTPRequest("GET", server.url("/a"))
        request.maxBodySize = 1 << 20
        let error = await failure { [request] in try await manager.send(request) }
        #expect(error?.kind == .bodyTooLarge)
        // The limit applies to the final response, not to the redirects before it.
        let going = try CentralRequestManager.make()
        server.route("GET", "/b") { _ in .text("end") }
        #expect(try await going.send(request).text == "end")
    }

    @Test(arguments: Body.allCases)
    func refusedRedirectClosesItsConnection(_ body: Body) async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in body.reply(to: "ftp://127.0.0.1/b") }
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("GET", server.url("/a")) }
        #expect(error?.kind == .redirect)
        #expect(error?.response?.status == 302)
        try await server.waitForClosedConnections(1)
    }

    @Test func cancelledCallEndsDuringTheBody() async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in Body.stalled.reply(to: "/b") }
        server.route("GET", "/b") { _ in .text("never").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let call = Task { try await manager.startRequest("GET", server.url("/a")) }
        try await server.waitForRequests(1)
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        try await server.waitUntilDisconnected()
    }

    /// `stalledBeforeItsFirstByte` is left out, since nginx holds back a head until the body begins.
    @Test(.needsNginx, arguments: [Body.endless, .stalled, .huge])
    func http2KeepsTheConnection(_ body: Body) async throws {
        let server = try MockServer()
        let base = "\(try #require(Servers.nginxTLS))/to/\(server.port)"
        server.route("GET", "/a") { _ in body.reply(to: "\(base)/b") }
        server.route("GET", "/b") { _ in .text("end") }
        let manager = try CentralRequestManager.make { $0.tls.caFile = Servers.authority }
        let response = try await manager.startRequest("GET", "\(base)/a", timeout: .seconds(30))
        #expect(response.text == "end")
        #expect(response.version == .http2)
        #expect(response.timings.connectionReused)
    }
}
