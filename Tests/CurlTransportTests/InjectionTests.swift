import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

/// Values with control characters cannot inject header fields or requests.
@Suite struct InjectionTests {
    private static let evil = [
        "\r\nX-Injected: 1", "\nX-Injected: 1", "\r", "\u{0}", "a\r\n\r\nGET /second HTTP/1.1\r\n\r\n",
    ]

    private func expectNothingSent(_ make: @Sendable (_ server: MockServer, _ evil: String) -> HTTPRequest) async throws
    {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            for evil in Self.evil {
                let error = try await transport.failure(of: make(server, evil))
                #expect(error.kind == .invalidRequest, "\(error)")
                #expect(!error.description.contains("\r") && !error.description.contains("\u{0}"))
            }
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test func invalidMethodIsRefused() async throws {
        try await expectNothingSent { HTTPRequest("GET" + $1, $0.url()) }
        try await expectNothingSent { server, _ in HTTPRequest("", server.url()) }
        try await expectNothingSent { server, _ in HTTPRequest("GET /second", server.url()) }
        try await expectNothingSent { server, _ in HTTPRequest("CONNECT", server.url()) }
    }

    @Test func controlCharacterInURLIsRefused() async throws {
        try await expectNothingSent { HTTPRequest("GET", $0.url("/" + $1)) }
        try await expectNothingSent { HTTPRequest("GET", $0.url("/?q=" + $1)) }
        try await expectNothingSent { HTTPRequest("GET", "http://u\($1):p@127.0.0.1:\($0.port)/") }
        try await expectNothingSent { HTTPRequest("GET", "http://127.0.0.1:\($0.port)\($1)/") }
    }

    @Test func invalidHeaderIsRefused() async throws {
        try await expectNothingSent { HTTPRequest("GET", $0.url(), headers: ["X" + $1: "1"]) }
        try await expectNothingSent { HTTPRequest("GET", $0.url(), headers: ["X": "1" + $1]) }
        try await expectNothingSent {
            HTTPRequest("GET", $0.url(), headers: ["Content-Type": "a/b" + $1], body: .text("x"))
        }
        try await expectNothingSent { server, _ in HTTPRequest("GET", server.url(), headers: ["": "1"]) }
        try await expectNothingSent { server, _ in HTTPRequest("GET", server.url(), headers: ["X:": "1"]) }
        try await expectNothingSent { server, _ in HTTPRequest("GET", server.url(), headers: ["X Y": "1"]) }
        try await expectNothingSent { HTTPRequest("GET", $0.url(), headers: ["Content-Length": "0" + $1]) }
    }

    @Test func controlCharacterInMediaTypeIsRefused() async throws {
        try await expectNothingSent {
            HTTPRequest("POST", $0.url(), body: .data(Data("x".utf8), contentType: "a/b" + $1))
        }
        try await expectNothingSent { HTTPRequest("POST", $0.url(), body: .text("x", contentType: "a/b" + $1)) }
        try await expectNothingSent {
            HTTPRequest("POST", $0.url(), body: .stream(AsyncStream { $0.finish() }, contentType: "a/b" + $1))
        }
        try await expectNothingSent {
            let file = UploadFile(name: "a", fileName: "b", data: Data(), contentType: "a/b" + $1)
            return HTTPRequest("POST", $0.url(), body: .multipart([file]))
        }
    }

    @Test func controlCharacterInTokenIsRefused() async throws {
        try await expectNothingSent { server, evil in
            HTTPRequest("GET", server.url()).with { $0.authentication = .bearer(token: "a" + evil) }
        }
    }

    @Test func controlCharacterInCredentialsIsRefused() async throws {
        try await expectNothingSent { server, evil in
            HTTPRequest("GET", server.url()).with { $0.authentication = .digest(user: "u" + evil, password: "p") }
        }
        try await expectNothingSent { server, evil in
            HTTPRequest("GET", server.url()).with { $0.authentication = .basic(user: "u", password: "p" + evil) }
        }
        try await expectNothingSent { server, evil in
            HTTPRequest("GET", server.url()).with { $0.authentication = .any(user: "u" + evil, password: "p") }
        }
    }

    /// Names are escaped, not refused.
    @Test func uploadNamesAreEscaped() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            for evil in Self.evil where !evil.contains("\u{0}") {
                let file = UploadFile(name: "a" + evil, fileName: "b" + evil, data: Data("x".utf8))
                let request = HTTPRequest("POST", server.url(), body: .multipart([file]))
                #expect(try await transport.answer(to: request).status == 200)
                let parts = try MultipartForm(try #require(server.requests.last)).parts
                #expect(parts.map(\.name) == ["a" + evil])
                #expect(parts.map(\.fileName) == ["b" + evil])
            }
            let file = UploadFile(name: "a\u{0}b", data: Data())
            let error = try await transport.failure(of: HTTPRequest("POST", server.url(), body: .multipart([file])))
            #expect(error.kind == .invalidRequest)
        }
    }

    @Test func controlCharacterInUserAgentIsRefused() {
        for evil in Self.evil {
            let error = #expect(throws: NetworkError.self) {
                try CurlTransport(configuration: testConfiguration { $0.userAgent = "a" + evil })
            }
            #expect(error?.kind == .invalidRequest)
        }
    }

    @Test func percentEncodedCharactersStayEncoded() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            _ = try await transport.get(server.url("/a%0d%0aX-Injected:%201?q=%0D%0A%00"))
            // libcurl 8 writes the hex digits of percent-encoding in upper case, which is equivalent (RFC 3986 §2.1).
            #expect(server.requests.map { $0.target.uppercased() } == ["/A%0D%0AX-INJECTED:%201?Q=%0D%0A%00"])
            #expect(server.requests.first?.headers["X-Injected"] == nil)
        }
    }
}
