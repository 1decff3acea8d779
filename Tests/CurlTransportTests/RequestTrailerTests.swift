import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct RequestTrailerTests {
    private static func stream(_ text: String) -> HTTPBody {
        .stream {
            AsyncStream<Data> { stream in
                stream.yield(Data(text.utf8))
                stream.finish()
            }
        }
    }

    @Test func trailersFollowTheBody() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            for body in [Self.stream("hello"), .data(Data("hello".utf8)), .data(Data())] {
                let trailers = HTTPRequest.Trailers(["X-Checksum", "X-Count"]) {
                    ["X-Checksum": "ab c", "X-Count": "5"]
                }
                let request = HTTPRequest("PUT", server.url(), body: body).with { $0.trailers = trailers }
                #expect(try await transport.answer(to: request).status == 200)
            }
            // The handle's next request has no trailers.
            let plain = HTTPRequest("PUT", server.url(), body: Self.stream("plain"))
            #expect(try await transport.answer(to: plain).status == 200)
        }
        #expect(server.requests.map { String(decoding: $0.body, as: UTF8.self) } == ["hello", "hello", "", "plain"])
        for request in server.requests.dropLast() {
            #expect(request.headers["Trailer"] == "X-Checksum, X-Count")
            #expect(request.headers["Transfer-Encoding"] == "chunked")
            #expect(request.trailers["X-Checksum"] == "ab c" && request.trailers["X-Count"] == "5")
        }
        #expect(server.requests.last?.trailers.fields.isEmpty == true)
    }

    @Test func trailersAreReadAfterTheBody() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let count = Box(0)
        let body = HTTPBody.stream {
            AsyncStream<Data> { stream in
                for _ in 0..<3 { stream.yield(Data(count: 1000)) }
                stream.finish()
            }.map { chunk in
                count.change { $0 += chunk.count }
                return chunk
            }
        }
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: body).with {
                $0.trailers = HTTPRequest.Trailers(["X-Count"]) { ["X-Count": "\(count.value)"] }
            }
            #expect(try await transport.answer(to: request).status == 200)
        }
        #expect(server.requests.first?.trailers["X-Count"] == "3000")
    }

    @Test(.needsOpenSSL, .needsNginx)
    func requestWithTrailersUsesHTTP1() async throws {
        let url = try #require(Servers.nginxTLS)
        try await withTransport(testConfiguration { $0.tls.caFile = Servers.authority }) { transport async throws in
            let request = HTTPRequest("POST", "\(url)/1k.bin", body: Self.stream("x")).with {
                $0.trailers = HTTPRequest.Trailers(["X-A"]) { ["X-A": "1"] }
            }
            #expect(try await transport.answer(to: request).version == .http1_1)
            #expect(try await transport.get("\(url)/1k.bin").version == .http2)
        }
    }

    @Test func versionOfTheEngineIsRefusedToo() async throws {
        let server = try MockServer()
        try await withTransport(testConfiguration { $0.version = .http2PriorKnowledge }) { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: Self.stream("x")).with {
                $0.trailers = HTTPRequest.Trailers(["X-A"]) { ["X-A": "1"] }
            }
            let error = try await transport.failure(of: request)
            #expect(
                error.kind == .unsupported && error.message.contains("in place of .http2PriorKnowledge"), "\(error)")
        }
        #expect(server.acceptedConnections == 0)
    }

    private static let wrong: [@Sendable (inout HTTPRequest) -> Void] = [
        { $0.body = nil },
        {
            $0.method = .get; $0.body = nil
        }, { $0.trailers = HTTPRequest.Trailers([]) { [:] } },
        { $0.trailers = HTTPRequest.Trailers(["a b"]) { [:] } },
        { $0.trailers = HTTPRequest.Trailers(["Content-Length"]) { [:] } },
        { $0.body = .multipart([UploadFile(name: "f", fileName: "f", data: Data(), contentType: "text/plain")]) },
        { $0.authentication = .digest(user: "a", password: "b") }, { $0.headers["Content-Length"] = "1" },
        { $0.version = .http2PriorKnowledge },
    ]

    @Test(arguments: wrong.indices) func trailersThatCannotBeSentAreRefused(index: Int) async throws {
        let server = try MockServer()
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: Self.stream("x")).with {
                $0.trailers = HTTPRequest.Trailers(["X-A"]) { ["X-A": "1"] }
                Self.wrong[index](&$0)
            }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .invalidRequest || error.kind == .unsupported, "\(error)")
            #expect(error.message.lowercased().contains("trailers"), "\(error)")
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test(arguments: [["X-B": "not announced"], ["X-A": "line\r\nX-Injected: 1"]])
    func invalidTrailerAbortsTheRequest(fields: [String: String]) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: Self.stream("x")).with {
                $0.trailers = HTTPRequest.Trailers(["X-A"]) {
                    var headers = HTTPHeaders()
                    for (name, value) in fields { headers[name] = value }
                    return headers
                }
            }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .requestBody, "\(error)")
            #expect(server.requests.isEmpty)
        }
    }
}
