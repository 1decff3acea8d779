import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct AuthenticationTests {
    @Test func basicCredentialsStayWithTheirRequest() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Authorization"] ?? "-") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let plain = HTTPRequest("GET", server.url())
            let basic = plain.with { $0.authentication = .basic(user: "Aladdin", password: "open sesame") }
            #expect(try await transport.answer(to: basic).text == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
            #expect(try await transport.answer(to: plain).text == "-")
            let inURL = HTTPRequest("GET", "http://Aladdin:open%20sesame@127.0.0.1:\(server.port)/")
            #expect(try await transport.answer(to: inURL).text == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
            #expect(try await transport.answer(to: plain).text == "-")
            let bearer = plain.with { $0.authentication = .bearer(token: "abc") }
            #expect(try await transport.answer(to: bearer).text == "Bearer abc")
            #expect(try await transport.answer(to: plain).text == "-")
            let unicode = plain.with { $0.authentication = .basic(user: "ü", password: ":") }
            #expect(try await transport.answer(to: unicode).text == "Basic w7w6Og==")
        }
    }

    @Test(
        .needsHTTPBin, arguments: [false, true],
        ["basic", "digest", "any basic", "any digest"])
    func httpbinAcceptsCredentials(streams: Bool, scheme: String) async throws {
        let base = try #require(Servers.httpbin)
        let url = base + (scheme.hasSuffix("basic") ? "/basic-auth/u/p" : "/digest-auth/auth/u/p")
        try await withTransport { transport async throws in
            for (password, status) in [("p", 200), ("wrong", 401), ("p", 200)] {
                let request = HTTPRequest("GET", url).with {
                    $0.streamsBody = streams
                    $0.authentication =
                        switch scheme {
                        case "basic": .basic(user: "u", password: password)
                        case "digest": .digest(user: "u", password: password)
                        default: .any(user: "u", password: password)
                        }
                }
                let response = try await transport.answer(to: request)
                #expect(response.status == status)
                let data = try await response.body.collect(upTo: 1 << 20)
                if status == 200 { #expect(String(decoding: data, as: UTF8.self).contains("\"authenticated\"")) }
            }
        }
    }

    /// libcurl answers the challenge; the caller gets the head of the final response.
    @Test(arguments: [0, 10, 300_000])
    func streamDeliversTheFinalResponse(challengeSize: Int) async throws {
        let server = try MockServer()
        server.fallback { request in
            request.headers["Authorization"]?.hasPrefix("Digest") == true
                ? .text("hello")
                : .data(Data(count: challengeSize), status: 401)
                    .header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")
        }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.authentication = .digest(user: "u", password: "p")
                $0.streamsBody = true
            }
            let response = try await transport.answer(to: request)
            #expect(response.status == 200)
            #expect(try await response.body.collect(upTo: 1 << 20) == Data("hello".utf8))
        }
    }

    @Test(arguments: [false, true])
    func unansweredChallengeIsTheResponse(streams: Bool) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("who are you?", status: 401).header("WWW-Authenticate", "Negotiate") }
        try await withTransport { transport async throws in
            for authentication in [nil, Authentication.digest(user: "u", password: "p"), .bearer(token: "t")] {
                let request = HTTPRequest("GET", server.url()).with {
                    $0.authentication = authentication
                    $0.streamsBody = streams
                }
                let response = try await transport.answer(to: request)
                #expect(response.status == 401)
                #expect(try await response.body.collect(upTo: 100) == Data("who are you?".utf8))
            }
        }
    }
}
