import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// Bodies whose length no field tells, and that the end of their connection ends (RFC 9112 §6.3, §9.8).
@Suite(.needsOpenSSL, .needsPython)
struct BodyEndTests {
    /// New versions of libcurl 8 take the end without `close_notify` for a failure.
    private static let isStrict = GlobalCurl.runtimeVersion >= 0x08_00_00
    private static let text = "name,amount\nanna,100\nbert,2"

    private func configuration(_ change: (inout EngineConfiguration) -> Void = { _ in }) -> EngineConfiguration {
        testConfiguration {
            $0.tls.caFile = TestCertificates.shared?.authority
            change(&$0)
        }
    }

    private func server(_ version: String = "1.3") async throws -> PythonScript {
        try await PythonScript("tls_ends.py", [try #require(TestCertificates.shared).server, version])
    }

    @Test(arguments: ["1.2", "1.3"], [false, true])
    func closeNotifyShowsThatABodyIsWhole(version: String, streams: Bool) async throws {
        let server = try await server(version)
        try await withTransport(configuration()) { transport async throws in
            for (path, mayBeCut) in [
                ("notice/1.0/plain", false), ("notice/1.1/plain", false), ("silent/1.0/plain", true),
                ("silent/1.1/plain", true), ("silent/1.1/gzip", false), ("silent/1.1/digest", false),
                ("silent/1.1/length", false),
            ] {
                let request = HTTPRequest("GET", "https://localhost:\(server.port)/\(path)").with {
                    $0.streamsBody = streams
                    $0.decompresses = true
                }
                do {
                    let response = try await transport.answer(to: request)
                    #expect(try await response.body.collect(upTo: 1000).count == Self.text.utf8.count, "\(path)")
                    #expect(response.mayBeCut == mayBeCut, "\(path)")
                } catch let error as NetworkError {
                    #expect(
                        Self.isStrict && path.hasPrefix("silent") && error.kind == .connectionLost, "\(path): \(error)")
                }
            }
        }
    }

    @Test(arguments: ["1.2", "1.3"], [false, true])
    func bodyThatWasCutForCertainFails(version: String, streams: Bool) async throws {
        let server = try await server(version)
        try await withTransport(configuration()) { transport async throws in
            for (path, kind) in [
                ("record/1.0/plain", NetworkError.Kind.connectionLost), ("record/1.1/plain", .connectionLost),
                ("record/1.1/length", .connectionLost),
                ("silent/1.1/cut", Self.isStrict ? .connectionLost : .integrity),
            ] {
                let request = HTTPRequest("GET", "https://localhost:\(server.port)/\(path)").with {
                    $0.streamsBody = streams
                }
                let error = try await failure {
                    try await transport.answer(to: request).body.collect(upTo: 1000)
                }
                #expect(error.kind == kind, "\(path): \(error)")
            }
        }
    }

    @Test func closeNotifyIsSeenOnAReusedConnection() async throws {
        let server = try await server()
        try await withTransport(configuration()) { transport async throws in
            for end in Self.isStrict ? ["notice"] : ["notice", "silent"] {
                _ = try await transport.get("https://localhost:\(server.port)/\(end)/1.1/length")
                let response = try await transport.get("https://localhost:\(server.port)/\(end)/1.1/plain")
                #expect(response.timings.connectionReused)
                #expect(response.text == Self.text && response.mayBeCut == (end == "silent"))
            }
        }
    }

    /// The body of a request to an http URL comes through the TLS connection of its proxy.
    @Test func closeNotifyOfAnHTTPSProxyCounts() async throws {
        let server = try await server()
        let configuration = configuration { $0.proxy = .url("https://localhost:\(server.port)") }
        try await withTransport(configuration) { transport async throws in
            for end in Self.isStrict ? ["notice"] : ["notice", "silent"] {
                let response = try await transport.get("http://origin.example.org/\(end)/1.1/plain")
                #expect(response.text == Self.text && response.mayBeCut == (end == "silent"))
            }
            let cut = HTTPRequest("GET", "http://origin.example.org/record/1.1/plain")
            #expect(try await transport.failure(of: cut).kind == .connectionLost)
        }
    }

    @Test(arguments: ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"], ["1.0", "1.1"])
    func inClearTextTheConnectionEndsTheBody(field: String, version: String) async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            let body = field.contains("chunked") ? "5\r\nhello\r\n0\r\n\r\n" : "hello"
            connection.write(Array("HTTP/\(version) 200 OK\r\n\(field)\r\n\(body)".utf8))
        }
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.text == "hello" && !response.mayBeCut)
        }
    }

    @Test func responseWithoutABodyIsWhole() async throws {
        let server = try RawServer { connection in
            let isHead = connection.read().starts(with: "HEAD".utf8)
            connection.write(Array("HTTP/1.1 \(isHead ? 200 : 204) X\r\n\r\n".utf8))
        }
        try await withTransport { transport async throws in
            for method in ["HEAD", "GET"] {
                #expect(try await !transport.answer(to: HTTPRequest(method, server.url())).mayBeCut)
            }
        }
    }
}
