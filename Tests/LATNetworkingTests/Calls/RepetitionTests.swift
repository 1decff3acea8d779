import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

private struct Order: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "order")
    var book = 1
}

/// An authenticator that counts its renewals, each of which gives the next token.
final class CountingSession: Authenticator {
    private let number = Atomic(0)
    private let field: String

    init(field: String = "Authorization") { self.field = field }

    var renewals: Int { number.load(ordering: .relaxed) }

    func apply(to request: inout HTTPRequest) { request.headers[field] = "token-\(renewals)" }

    func refresh() async throws { number.add(1, ordering: .relaxed) }
}

/// A request that may have had its effect is not sent again, whatever fails afterwards.
@Suite(.timeLimit(.minutes(1))) struct RepetitionTests {
    private func table(_ first: MockServer, _ mirrors: String..., domain: String = "") throws -> DomainTable {
        let list = mirrors.map { "\"\($0)\"" }.joined(separator: ", ")
        return try .make(first.url(), domain: "mirrors: [\(list)], \(domain)")
    }

    /// Returns a server that redirects `POST /order`, by default to a GET.
    private func redirecting(to url: String, status: Int = 303) throws -> MockServer {
        let server = try MockServer.answering(#""first""#)
        server.route("POST", "/order") { _ in .redirect(to: url, status: status) }
        return server
    }

    // MARK: After a redirect

    @Test func failureOfALaterHopAsksNoMirror() async throws {
        let closed = try ClosedPort()
        let (second, third) = (try MockServer.answering(#""second""#), try MockServer.answering(#""third""#))
        let first = try redirecting(to: closed.url("/x"))
        let manager = try CentralRequestManager.make(table(first, second.url(), third.url()))
        let error = await failure { try await Order().startRequest(on: manager) }
        #expect(error?.kind == .connect)
        #expect(first.requests.map(\.method) == ["POST"])
        #expect(second.acceptedConnections == 0 && third.acceptedConnections == 0)
        // The first address responded, so it is still asked first.
        #expect(try await Get<String>().startRequest(on: manager) == "first")
        #expect(second.acceptedConnections == 0)
    }

    @Test func failureOfALaterHopKeepsTheFirstAddress() async throws {
        let closed = try ClosedPort()
        let first = try MockServer.answering(#""first""#)
        let second = try MockServer.answering(#""second""#)
        first.enqueue(.redirect(to: closed.url("/elsewhere")))
        let manager = try CentralRequestManager.make(table(first, second.url()))
        #expect(await failure { try await Get<String>().startRequest(on: manager) }?.kind == .connect)
        #expect(try await Get<String>().startRequest(on: manager) == "first")
        #expect(second.acceptedConnections == 0)
    }

    @Test func sentPostDoesNotWaitForItsHopsNetwork() async throws {
        let closed = try ClosedPort()
        let first = try redirecting(to: closed.url("/x"))
        let manager = try CentralRequestManager.make {
            $0.reachability.waitsForConnectivity = true
            $0.reachability.connectivityTimeout = .seconds(3_600)
        }
        let error = await failure { try await manager.startRequest("POST", first.url("/order")) }
        #expect(error?.kind == .connect)
        #expect(first.requests.map(\.method) == ["POST"])
    }

    @Test func unsentPostWaitsForItsHopsNetwork() async throws {
        let port = try ReservedPort()
        let first = try redirecting(to: "http://127.0.0.1:\(port.port)/x", status: 307)
        let manager = try CentralRequestManager.make {
            $0.reachability.waitsForConnectivity = true
            $0.reachability.failureTTL = .milliseconds(50)
        }
        var events = manager.events.makeAsyncIterator()
        let call = Task { try await manager.startRequest("POST", first.url("/order"), body: .text("1 book")).text }
        while let event = await events.next() {
            if case .waiting(.connectivity) = event.kind { break }
        }
        let again = try MockServer(port: port.port) { .text($0.text) }
        #expect(try await call.value == "1 book")
        #expect(again.requests.map(\.method) == ["POST"])
    }

    @Test(arguments: [401, 503, 500]) func failureOfALaterHopRetriesNoPost(_ status: Int) async throws {
        let other = try MockServer()
        other.fallback { _ in .status(status).header("Retry-After", "0") }
        let first = try redirecting(to: other.url("/x"))
        let session = CountingSession()
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, statuses: [500, 503], firstWait: .zero)
            $0.authenticator = session
        }
        let error = await failure { try await manager.startRequest("POST", first.url("/order")) }
        #expect(error?.response?.status == status)
        #expect(first.requestCount == 1 && other.requestCount == 1)
        #expect(session.renewals == 0)
    }

    @Test func connectionLostAfterRedirectRepeatsNoPost() async throws {
        let other = try MockServer()
        other.fallback { _ in .noReply }
        let first = try redirecting(to: other.url("/x"))
        let manager = try CentralRequestManager.make { $0.retries = 3 }
        #expect(await failure { try await manager.startRequest("POST", first.url("/order")) }?.kind == .connectionLost)
        #expect(first.requestCount == 1)
        // An idempotency key allows the repetition.
        var request = HTTPRequest("POST", first.url("/order"))
        request.idempotencyKey = "k"
        #expect(await failure { try await manager.send(request) }?.kind == .connectionLost)
        #expect(first.requestCount == 1 + 4)
    }

    // MARK: Tokens

    @Test func foreign401AfterPostRedirectRenewsNoToken() async throws {
        let other = try MockServer()
        other.fallback { _ in .status(401) }
        let first = try redirecting(to: other.url("/x"))
        let session = CountingSession()
        let manager = try CentralRequestManager.make {
            $0.baseURL = first.url()
            $0.authenticator = session
        }
        let error = await failure { try await manager.startRequest("POST", "/order") }
        #expect(error?.kind == .httpStatus && error?.response?.status == 401)
        #expect(error?.url == other.url("/x"))
        #expect(first.requests.map(\.method) == ["POST"] && other.requests.map(\.method) == ["GET"])
        #expect(session.renewals == 0)
        #expect(other.requests.first?.headers["Authorization"] == nil)
    }

    @Test func foreign401AfterRedirectRenewsNoToken() async throws {
        let other = try MockServer()
        other.fallback { _ in .status(401) }
        let first = try MockServer()
        first.fallback { _ in .redirect(to: other.url("/x"), status: 307) }
        let session = CountingSession()
        let manager = try CentralRequestManager.make {
            $0.baseURL = first.url()
            $0.authenticator = session
        }
        for method in ["GET", "POST"] {
            #expect(await failure { try await manager.startRequest(method, "/") }?.response?.status == 401)
        }
        #expect(first.requestCount == 2 && other.requestCount == 2 && session.renewals == 0)
    }

    @Test(arguments: ["GET", "POST", "PUT"]) func own401RenewsTheTokenOnce(_ method: String) async throws {
        let server = try MockServer()
        server.fallback { $0.headers["Authorization"] == "token-1" ? .text("ok") : .status(401) }
        let session = CountingSession()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.authenticator = session
        }
        #expect(try await manager.startRequest(method, "/x").text == "ok")
        #expect(try await manager.startRequest(method, "/x").text == "ok")
        #expect(session.renewals == 1)
        #expect(server.requests.map { $0.headers["Authorization"] } == ["token-0", "token-1", "token-1"])
    }

    @Test func sameOriginHop401RenewsTheTokenOnce() async throws {
        let server = try MockServer()
        server.route("*", "/a") { _ in .redirect(to: "/b", status: 307) }
        server.route("*", "/b") { $0.headers["Authorization"] == "token-1" ? .text("ok") : .status(401) }
        let session = CountingSession()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.authenticator = session
        }
        #expect(try await manager.startRequest("POST", "/a", body: .text("1 book")).text == "ok")
        #expect(session.renewals == 1)
        #expect(server.requests.map(\.path) == ["/a", "/b", "/a", "/b"])
    }

    @Test func mirrors401RenewsTheTokenOnce() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer()
        mirror.fallback { $0.headers["Authorization"] == "token-1" ? .json("{}") : .status(401) }
        let session = CountingSession()
        let manager = try CentralRequestManager.make(.make(closed.url(), domain: #"mirrors: ["\#(mirror.url())"]"#)) {
            $0.authenticator = session
        }
        _ = try await Order().startRequest(on: manager)
        #expect(session.renewals == 1)
        #expect(mirror.requests.map(\.method) == ["POST", "POST"])
    }

    // MARK: Allowed repetitions

    @Test func getGoesToTheMirrorAndItsRedirect() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer()
        mirror.route("GET", "/x") { _ in .redirect(to: "/y") }
        mirror.route("GET", "/y") { _ in .json(#""mirror""#) }
        let manager = try CentralRequestManager.make(.make(closed.url(), domain: #"mirrors: ["\#(mirror.url())"]"#)) {
            $0.retries = 2
            $0.authenticator = CountingSession()
            $0.reachability.waitsForConnectivity = true
        }
        let reply = try await Get<String>().reply(on: manager)
        #expect(reply.model == "mirror")
        #expect(reply.response.url == mirror.url("/y"))
        #expect(mirror.requests.map { $0.headers["Authorization"] } == ["token-0", "token-0"])
    }

    @Test func unsentPostGoesToTheMirror() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(closed.url(), domain: #"mirrors: ["\#(mirror.url())"]"#)) {
            $0.authenticator = CountingSession()
            $0.retries = 3
        }
        _ = try await Order().startRequest(on: manager)
        #expect(mirror.requests.map(\.method) == ["POST"])
        #expect(mirror.requests.first?.json == ["book": 1])
    }
}
