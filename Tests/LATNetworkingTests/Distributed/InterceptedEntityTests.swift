import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct Fetch: RequestEntity, Encodable {
    static let route = Route("GET", domain: "d", path: "x")
    var a = 1
}

private struct Save: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "x")
    var a = 1
}

/// An interceptor that records requests and changes them.
private struct Watch: Interceptor {
    let seen = Log<HTTPRequest>()
    var change: @Sendable (inout HTTPRequest) -> Void = { _ in }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        seen.append(request)
        var request = request
        change(&request)
        return try await next(request)
    }
}

/// What interceptors see of an entity's request, and how their changes are applied.
@Suite(.timeLimit(.minutes(1))) struct InterceptedEntityTests {
    @Test func interceptorChangesWinOverTheProvider() async throws {
        let server = try MockServer.answering()
        let watch = Watch {
            $0.headers["Changed"] = "room"
            $0.headers["Gone"] = nil
            $0.headers.append("Added", "1")
            $0.headers.append("Added", "2")
        }
        let headers = #"headers: { Changed: "row", Gone: "row", Kept: "row", Both: "row" }"#
        let manager = try CentralRequestManager.make(.make(server.url(), domain: headers)) {
            $0.headers = ["Default": "manager"]
            $0.interceptors = [watch]
            $0.headerProvider = { _ in ["Changed": "provider", "Gone": "provider", "Both": "provider"] }
        }
        _ = try await Fetch().header("Own", "call").header("Both", "call").startRequest(on: manager)
        let sent = try #require(server.requests.first).headers
        #expect(sent["Changed"] == "room" && !sent.contains("Gone") && sent["Kept"] == "row")
        #expect(sent["Default"] == "manager" && sent["Own"] == "call" && sent["Both"] == "call")
        #expect(sent[values: "Added"] == ["1", "2"])
        let shown = try #require(watch.seen.elements.first).headers
        #expect(shown["Changed"] == "row" && shown["Default"] == "manager" && shown["Both"] == "call")
    }

    @Test func providerWinsOverUnchangedRowHeaders() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url(), domain: #"headers: { A: "row" }"#)) {
            $0.interceptors = [Watch()]
            $0.headerProvider = { _ in ["A": "provider"] }
        }
        _ = try await Fetch().startRequest(on: manager)
        #expect(server.requests.first?.headers["A"] == "provider")
    }

    @Test func parametersStayInTheMirrorsURL() async throws {
        let server = try MockServer.answering()
        let watch = Watch()
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make(
            .make("http://127.0.0.1:\(closed.port)/one?k=v", domain: "mirrors: [\"\(server.url("/two"))\"]")
        ) { $0.interceptors = [watch] }
        _ = try await Fetch().startRequest(on: manager)
        #expect(watch.seen.elements.first?.url == "http://127.0.0.1:\(closed.port)/one/x?k=v&a=1")
        #expect(server.requests.map(\.target) == ["/two/x?a=1"])
    }

    @Test func parametersReachTheSimulatedServer() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make("http://127.0.0.1:1/real?k=v")) {
            $0.interceptors = [Watch()]
            $0.simulation = .server(server.url("/fake"))
        }
        _ = try await Fetch().startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/fake/x?a=1"])
    }

    @Test func networkInterceptorsSeeEveryAttempt() async throws {
        let server = try MockServer.answering()
        server.enqueue(.noReply, .redirect(to: "/there"))
        let watch = Watch { $0.headers["Signature"] = "\($0.headers["Token"] ?? "")-\($0.url.hasSuffix("/there"))" }
        let tokens = Counter()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.networkInterceptors = [watch]
            $0.headerProvider = { _ in ["Token": "\(tokens.next())"] }
            $0.parameterProvider = { _ in ["nonce": tokens.value] }
        }
        _ = try await Fetch().retries(1).startRequest(on: manager)
        #expect(server.requests.map { $0.headers["Signature"] } == ["1-false", "2-false", "2-true"])
        #expect(watch.seen.elements.map(\.url).dropLast().allSatisfy { $0.contains("nonce=") })
    }

    @Test func interceptorsSeeTheBody() async throws {
        let server = try MockServer.answering()
        let (around, inside) = (Watch(), Watch())
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.interceptors = [around]
            $0.networkInterceptors = [inside]
            $0.parameterProvider = { _ in ["nonce": 7] }
        }
        _ = try await Save().startRequest(on: manager)
        #expect(around.seen.elements.first?.body == .data(Data(#"{"a":1}"#.utf8), contentType: "application/json"))
        #expect(inside.seen.elements.first?.body != nil)
        #expect(server.requests.first?.json == ["a": 1, "nonce": 7])
    }

    @Test(arguments: [("POST", nil), ("POST", HTTPBody.text("x")), ("GET", nil)])
    func commonParametersOfAChangedURLAreSent(method: String, body: HTTPBody?) async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make {
            $0.interceptors = [Watch { $0.url += "?sig=1" }]
            $0.parameterProvider = { _ in ["nonce": 7] }
        }
        _ = try await manager.startRequest(method, server.url("/x"), body: body)
        let sent = try #require(server.requests.first)
        if method == "POST", body == nil {
            #expect(sent.target == "/x?sig=1" && sent.json == ["nonce": 7])
        } else {
            #expect(sent.target == "/x?sig=1&nonce=7" && sent.body.count == (body == nil ? 0 : 1))
        }
    }

    @Test func envelopeMessageMayBeANumber() async throws {
        let server = try MockServer.answering(#"{"c": 1, "m": 404}"#)
        let envelope = #"envelope: { code: "c", message: "m", success: [0] }"#
        let manager = try CentralRequestManager.make(.make(server.url(), domain: envelope))
        let error = await failure { try await Fetch().startRequest(on: manager) }
        #expect(error?.businessFailure?.message == "404")
    }

    @Test func observersSeeUnencodableParameters() async throws {
        let heard = Log<NetworkError.Kind>()
        let manager = try CentralRequestManager.make {
            $0.outcomeObservers = [
                { outcome, request in
                    if case .networkError(let error) = outcome, request.url == "http://127.0.0.1:1/" {
                        heard.append(error.kind)
                    }
                }
            ]
        }
        _ = await failure {
            try await manager.startRequest("POST", "http://127.0.0.1:1/", parameters: ["a": Double.nan])
        }
        #expect(heard.elements == [.invalidRequest])
    }
}
