import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct ConnectionTests {
    @Test func refusedConnectionIsReported() async throws {
        let closed = try ClosedPort()
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", closed.url()))
            #expect(error.kind == .connect)
            #expect(error.curlCode == 7)
            #expect(error.message.contains("is the server running"))
        }
    }

    /// A stalled response must not keep other requests to the host from connecting.
    @Test func requestsDoNotWaitForStalledResponses() async throws {
        let server = try MockServer()
        server.enqueue(.text("never").stalling(.start))
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let url = server.url()
            let stalled = Task { try await transport.send(HTTPRequest("GET", url)) }
            try await server.waitForRequests(1)
            #expect(try await transport.get(url).text == "x")
            stalled.cancel()
            _ = await stalled.result
        }
    }

    @Test func hostsConnectElsewhereAndKeepTheirName() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let address = "127.0.0.1:\(server.port)"
        for rules in [
            ["api.test:80:\(address)"], ["::\(address)"], ["other.test:80:203.0.113.1:1", "api.test::\(address)"],
        ] {
            try await withTransport(testConfiguration { $0.connectTo = rules }) { transport async throws in
                #expect(try await transport.get("http://api.test/").text == "x")
            }
        }
        #expect(server.requests.map { $0.headers["Host"] } == ["api.test", "api.test", "api.test"])
        let resolving = testConfiguration { $0.resolve = ["api.test:\(server.port)": "127.0.0.1,[::1]"] }
        try await withTransport(resolving) { transport async throws in
            #expect(try await transport.get("http://api.test:\(server.port)/").text == "x")
        }
        #expect(server.requests.last?.headers["Host"] == "api.test:\(server.port)")
    }

    @Test(.enabled(if: RawServer.linkLocalAddress != nil, "needs a link-local IPv6 address"))
    func linkLocalAddressKeepsItsZone() async throws {
        let address = try #require(RawServer.linkLocalAddress)
        let server = try RawServer(address: address) { connection in
            let head = String(decoding: connection.read(), as: UTF8.self)
            let host = head.split(separator: "\r\n").first { $0.hasPrefix("Host: ") } ?? ""
            connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: \(host.utf8.count)\r\n\r\n\(host)".utf8))
            connection.drain()
        }
        let other = try MockServer()
        other.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            #expect(await transport.connect(for: HTTPRequest("GET", server.url())).error == nil)
            // The zone is not sent (RFC 6874 §4).
            let host = "Host: [\(address.prefix { $0 != "%" })]:\(server.port)"
            #expect(try await transport.get(server.url()).text == host)
            // The same handle, without a zone.
            #expect(try await transport.get(other.url()).text == "x")
        }
    }

    @Test(
        arguments: [
            (["a:1"], [:], "connectTo \"a:1\" cannot be used; write HOST1:PORT1:HOST2:PORT2"),
            ([], ["a": "127.0.0.1"], "resolve has \"a\": \"127.0.0.1\"; write"),
            ([], ["a:1": ""], "resolve has \"a:1\": \"\"; write"),
        ] as [([String], [String: String], String)])
    func malformedAddressesAreRefused(rules: [String], addresses: [String: String], message: String) throws {
        var configuration = EngineConfiguration()
        configuration.connectTo = rules
        configuration.resolve = addresses
        let error = #expect(throws: NetworkError.self) { try CurlTransport(configuration: configuration) }
        #expect(error?.message.hasPrefix(message) == true)
    }

    @Test func internationalHostIsSentInASCII() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let port = server.port
        let configuration = testConfiguration { $0.resolve = ["xn--bcher-kva.example:\(port)": "127.0.0.1"] }
        try await withTransport(configuration) { transport async throws in
            _ = try await transport.get("http://bücher.example:\(port)/straße?q=ü")
            #expect(server.requests.first?.headers["Host"] == "xn--bcher-kva.example:\(port)")
            #expect(server.requests.first?.target == "/stra%C3%9Fe?q=%C3%BC")
        }
    }

    /// The result does not depend on how this libcurl was built.
    @Test(arguments: [
        ("bücher.example", "xn--bcher-kva.example"), ("BÜCHER.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"), ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("a。example", "a.example"), ("ａ.example", "a.example"), ("b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("２１３０７０６４３３", "127.0.0.1"), ("☃.example", "xn--n3h.example"),
    ])
    func internationalNamesBecomeASCII(name: String, ascii: String) {
        #expect(URLReference.host(of: "http://\(name)/") == ascii)
        #expect(URLReference.origin(of: "http://\(name)/") == "http://\(ascii):80")
    }

    @Test(arguments: ["a／b.example", "a＠b.example", "a＃b.example", "\u{301}a.example", "xn--ü.example"])
    func invalidInternationalNamesAreRefused(name: String) throws {
        let error = #expect(throws: NetworkError.self) { try Target("http://\(name)/") }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("host") == true, "\(error?.message ?? "")")
    }

    @Test func concurrentRequestsKeepTheirSettings() async throws {
        let server = try MockServer()
        server.fallback { request in
            let reply = MockReply.text(
                [request.headers["X-Id"], request.headers["X-Odd"], request.query("id")]
                    .map { $0 ?? "-" }.joined(separator: " "))
            return request.headers["X-Late"] == nil ? reply : reply.delayed(by: .seconds(30))
        }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 40 }) { transport async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for id in 0..<1000 {
                    let isLate = id % 50 == 0
                    var request = HTTPRequest(id % 3 == 0 ? "POST" : "GET", server.url("/?id=\(id)"))
                    request.headers["X-Id"] = "\(id)"
                    if id % 2 == 1 { request.headers["X-Odd"] = "yes" }
                    if id % 3 == 0 { request.body = .text("body \(id)") }
                    if isLate {
                        request.headers["X-Late"] = "1"
                        request.timeout = .milliseconds(100)
                    }
                    group.addTask { [request] in
                        do {
                            let response = try await transport.answer(to: request)
                            #expect(!isLate && response.text == "\(id) \(id % 2 == 1 ? "yes" : "-") \(id)")
                        } catch let error as NetworkError {
                            #expect(isLate && error.kind == .timeout(.total), "\(error)")
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}
