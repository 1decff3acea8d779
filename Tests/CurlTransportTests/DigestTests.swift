import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct DigestTests {
    /// Challenges that libcurl does not answer, or answers wrongly.
    private static let hardServers: [(algorithm: String, first: [String], qop: String)] = [
        ("SHA-512-256", [], "auth"), ("sha-512-256", ["Basic realm=\"x\""], "auth, auth-int"), ("SHA-512", [], "auth"),
        ("MD5", ["Digest realm=\"test\", nonce=\"x\", algorithm=NEW-9, qop=\"auth\""], "auth"),
        (
            "SHA-256",
            ["Digest realm=\"test\", nonce=\"x\", algorithm=A, Digest realm=\"test\", nonce=\"y\", qop=\"auth-int\""],
            "auth"
        ),
        ("MD5", [], "auth-int ,\tauth"), ("MD5", [], "auth-int"), ("SHA-256", [], "auth-int"),
    ]

    @Test(arguments: hardServers, [false, true])
    func challengeThatLibcurlCannotAnswerIsAnswered(
        _ kind: (algorithm: String, first: [String], qop: String), any: Bool
    ) async throws {
        let server = try DigestServer(kind.algorithm, first: kind.first, qop: kind.qop)
        try await withTransport { transport async throws in
            for number in 0..<5 {
                for streams in [false, true] {
                    var request = server.request("/a b/\(number)?c=%20d&e")
                    request.streamsBody = streams
                    if any { request.authentication = .any(user: "u", password: "p") }
                    let response = try await transport.answer(to: request)
                    #expect(try await response.body.collect(upTo: 1_000) == Data("hello u".utf8))
                }
            }
            server.renewNonce()
            server.server.forgetRequests()
            // A stale nonce, a body, and a wrong password each cost one request more.
            let body = Data(repeating: 7, count: 200_000)
            let post = server.request("/p", method: .post).with { $0.body = .data(body) }
            #expect(try await transport.answer(to: post).status == 200)
            #expect(server.server.requests.last?.body == body && server.server.requestCount == 2)
            server.server.forgetRequests()
            #expect(try await transport.answer(to: server.request(password: "wrong")).status == 401)
            #expect(server.server.requestCount == 2)
        }
        #expect(server.challenges == 4)
    }

    @Test func bodyReadOnceIsSentWithTheAnswer() async throws {
        let server = try DigestServer("SHA-512-256")
        let body = Data(repeating: 1, count: 100_000)
        try await withTransport { transport async throws in
            let chunks = AsyncStream<Data> {
                $0.yield(body)
                $0.finish()
            }
            let post = server.request("/p", method: .post).with { $0.body = .stream(chunks, length: nil) }
            #expect(try await transport.answer(to: post).status == 200)
        }
        #expect(server.server.requests.map(\.body) == [Data(), body])
    }

    /// A body that is not in memory as a whole has no hash before it is sent.
    @Test(arguments: [false, true], [false, true]) func bodyThatCannotBeCoveredIsAnError(any: Bool, isFile: Bool)
        async throws
    {
        let server = try DigestServer(qop: "auth-int")
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 100_000, to: "a.bin")
        try await withTransport { transport async throws in
            let chunks = AsyncStream<Data> {
                $0.yield(Data([1]))
                $0.finish()
            }
            var post = server.request("/p", method: .post)
            post.body = isFile ? .file(path) : .stream(chunks, length: nil)
            if any { post.authentication = .any(user: "u", password: "p") }
            let error = try await transport.failure(of: post)
            #expect(error.kind == .requestBody && error.message.contains("qop=\"auth-int\""), "\(error)")
            #expect(server.server.requestCount == 1)
            // The same origin answers what is in memory.
            #expect(try await transport.answer(to: server.request()).status == 200)
        }
    }

    @Test func alwaysStaleOwnAnswerEndsTheCall() async throws {
        let server = try DigestServer("SHA-512-256")
        server.server.route("GET", "/stale") { _ in
            .status(401).header(
                "WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\", algorithm=SHA-512-256, stale=true")
        }
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: server.request("/stale"))
            #expect(error.kind == .protocolViolation && error.message.contains("as stale"), "\(error)")
            #expect(server.server.requestCount == 5)
        }
    }

    @Test(arguments: ["MD5", "SHA-256"], [false, true])
    func tenCallsAreChallengedOnce(algorithm: String, any: Bool) async throws {
        let server = try DigestServer(algorithm)
        try await withTransport { transport async throws in
            for number in 0..<10 {
                var request = server.request("/a b/\(number)?c=%20d&e")
                if any { request.authentication = .any(user: "u", password: "p") }
                #expect(try await transport.answer(to: request).text == "hello u")
            }
        }
        #expect(server.challenges == 1)
        #expect(server.server.requestCount == 11)
        #expect(server.counts == Array(1...10))
    }

    @Test func concurrentNonceCountsHaveNoGaps() async throws {
        let server = try DigestServer()
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 8 }) { transport async throws in
            _ = try await transport.answer(to: server.request())
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<60 {
                    group.addTask { try await transport.answer(to: server.request("/\(number)")).status }
                }
                for try await status in group { #expect(status == 200) }
            }
        }
        #expect(server.challenges == 1)
        #expect(server.counts == Array(1...61))
    }

    @Test(arguments: [HTTPMethod.get, .post]) func staleNonceIsRenewedOnce(method: HTTPMethod) async throws {
        let server = try DigestServer()
        let body = Data(repeating: 7, count: 200_000)
        try await withTransport { transport async throws in
            var request = server.request("/x", method: method)
            if method == .post { request.body = .data(body) }
            for _ in 0..<2 { #expect(try await transport.answer(to: request).status == 200) }
            server.renewNonce()
            server.server.forgetRequests()
            for _ in 0..<3 { #expect(try await transport.answer(to: request).status == 200) }
        }
        #expect(server.challenges == 2)
        #expect(server.counts == [1, 2, 3])
        #expect(server.server.requestCount == 4)
        for request in server.server.requests.dropFirst() where method == .post { #expect(request.body == body) }
    }

    @Test(arguments: [false, true]) func wrongPasswordCostsOneExtraRequest(isKnown: Bool) async throws {
        let server = try DigestServer()
        try await withTransport { transport async throws in
            if isKnown { _ = try await transport.answer(to: server.request()) }
            server.server.forgetRequests()
            let response = try await transport.answer(to: server.request(password: "wrong"))
            #expect(response.status == 401)
            #expect(try await response.body.collect(upTo: 10_000).count == 3000)
            #expect(server.server.requestCount == 2)
            #expect(try await transport.answer(to: server.request()).status == 200)
        }
    }

    @Test func otherUserIsChallenged() async throws {
        let server = try DigestServer(passwords: ["u": "p", "v": "q"])
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: server.request())
            server.renewNonce()
            for _ in 0..<2 {
                #expect(
                    try await transport.answer(to: server.request(user: "v", password: "q")).text == "hello v")
            }
            let bare = try #require(server.server.requests.dropFirst(2).first)
            #expect(bare.headers["Authorization"] == nil)
        }
        #expect(server.challenges == 2)
    }

    /// libcurl keeps the challenge that a request without credentials received, and must not answer it at another
    /// origin.
    @Test func otherOriginGetsNoCredentials() async throws {
        let server = try DigestServer()
        let other = try MockServer()
        other.fallback { _ in .text("public") }
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: server.request())
            _ = try await transport.answer(to: HTTPRequest("GET", server.server.url()))
            let request = HTTPRequest("GET", other.url()).with {
                $0.authentication = .digest(user: "u", password: "p")
            }
            #expect(try await transport.answer(to: request).text == "public")
            _ = try await transport.get(other.url())
        }
        #expect(server.server.requests.last?.headers["Authorization"] == nil)
        #expect(other.requests.map { $0.headers["Authorization"] } == [nil, nil])
        #expect(other.acceptedConnections == 1)
    }

    @Test func announcedNonceIsUsed() async throws {
        let server = try DigestServer()
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: server.request())
            server.announceNonce()
            for _ in 0..<4 { #expect(try await transport.answer(to: server.request()).status == 200) }
        }
        #expect(server.challenges == 1)
        #expect(server.counts == [1, 2, 3])
    }

    @Test(arguments: [10, 200_000]) func postWithKnownChallengeIsSentOnce(size: Int) async throws {
        let server = try DigestServer()
        let body = Data(repeating: 1, count: size)
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: server.request())
            server.server.forgetRequests()
            let post = server.request("/p", method: .post).with { $0.body = .data(body) }
            #expect(try await transport.answer(to: post).status == 200)
        }
        #expect(server.server.requests.map(\.body) == [body])
    }

    @Test func singleUseBodyWaitsForTheChallenge() async throws {
        let server = try DigestServer()
        let body = Data(repeating: 1, count: 1000)
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: server.request())
            server.renewNonce()
            server.server.forgetRequests()
            let chunks = AsyncStream<Data> {
                $0.yield(body)
                $0.finish()
            }
            let post = server.request("/p", method: .post).with { $0.body = .stream(chunks, length: nil) }
            #expect(try await transport.answer(to: post).status == 200)
        }
        #expect(server.server.requests.map(\.body) == [Data(), body])
    }

    /// libcurl would answer such a server forever.
    @Test(arguments: [false, true]) func alwaysStaleNonceEndsTheCall(isKnown: Bool) async throws {
        let server = try DigestServer()
        try await withTransport { transport async throws in
            if isKnown { _ = try await transport.answer(to: server.request()) }
            server.server.forgetRequests()
            server.server.route("GET", "/stale") { _ in
                .status(401).header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\", stale=true")
            }
            let error = try await transport.failure(of: server.request("/stale"))
            #expect(error.kind == .protocolViolation)
            #expect(error.message.contains("rejected 4 new nonces in a row as stale"), "\(error)")
            #expect(error.response?.status == 401)
            #expect(server.server.requestCount == 5)
        }
    }

    @Test func ownAuthorizationFieldIsKept() async throws {
        let server = try DigestServer()
        server.server.route("GET", "/own") { .text($0.headers[values: "Authorization"].joined(separator: "|")) }
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: server.request())
            let request = server.request("/own").with { $0.headers["Authorization"] = "Custom x" }
            #expect(try await transport.answer(to: request).text == "Custom x")
        }
    }

    @Test(.needsHTTPBin, arguments: ["MD5", "SHA-256", "SHA-512"])
    func httpbinAcceptsTheAnswer(algorithm: String) async throws {
        let base = try #require(Servers.httpbin)
        let path = "/digest-auth/auth/u/p/\(algorithm)"
        try await withTransport { transport async throws in
            let field = try #require(try await transport.get(base + path).headers["WWW-Authenticate"])
            let parameters = AuthenticationScheme.all(in: [field]).first?.parameters ?? [:]
            let challenge = try #require(DigestChallenge(parameters))
            #expect(challenge.algorithm == algorithm)
            let answer = challenge.answer(
                to: .init(method: "GET", target: path, user: "u", password: "p"), count: 5, clientNonce: "c")
            let request = HTTPRequest("GET", base + path).with { $0.headers["Authorization"] = answer }
            #expect(try await transport.answer(to: request).status == 200)
            for _ in 0..<3 {
                let digest = HTTPRequest("GET", base + path).with {
                    $0.authentication = .digest(user: "u", password: "p")
                }
                #expect(try await transport.answer(to: digest).status == 200)
            }
        }
    }
}
