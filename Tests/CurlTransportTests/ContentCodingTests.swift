import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct ContentCodingTests {
    private static let coded: [String: Data] = [
        "gzip": Codings.gzip, "zstd": Codings.zstd(Codings.text), "br": Codings.brotli(Codings.text),
        "identity": Data(Codings.text.utf8), "GZIP": Codings.gzip, "x-gzip": Codings.gzip,
    ]

    @Test(arguments: Codings.known + ["identity", "GZIP", "x-gzip"], [false, true])
    func codedBodyIsDecoded(name: String, streams: Bool) async throws {
        let server = try MockServer()
        let data = Self.coded[name] ?? Data()
        server.fallback { _ in .data(data).header("Content-Encoding", name) }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = streams }
            let response = try await transport.answer(to: request)
            #expect(try await String(decoding: response.body.collect(upTo: 1 << 20), as: UTF8.self) == Codings.text)
            let accepted = server.requests.first?.headers[values: "Accept-Encoding"]
            #expect(accepted == [["gzip", "br", "zstd"].filter(Codings.known.contains).joined(separator: ", ")])
        }
    }

    @Test(arguments: ["deflate64", "zstd"].filter { !Codings.known.contains($0) })
    func unsupportedCodingIsRefused(name: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .data(Codings.zstd(Codings.text)).header("Content-Encoding", name) }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url())
            #expect(try await transport.failure(of: request).kind == .protocolViolation)
            let raw = request.with { $0.decompresses = false }
            #expect(try await transport.answer(to: raw).data == Codings.zstd(Codings.text))
        }
    }

    @Test func callerCanKeepCodedBytes() async throws {
        let server = try MockServer()
        server.fallback { _ in .data(Codings.gzip).header("Content-Encoding", "gzip") }
        try await withTransport { transport async throws in
            let plain = HTTPRequest("GET", server.url())
            let raw = plain.with { $0.decompresses = false }
            let own = plain.with { $0.headers["accept-encoding"] = "gzip;q=1.0" }
            let range = plain.with { $0.headers["Range"] = "bytes=0-" }
            let removed = plain.with { $0.headers["Accept-Encoding"] = nil }
            for (request, sent) in [(raw, []), (own, ["gzip;q=1.0"]), (range, []), (removed, [])] {
                let response = try await transport.answer(to: request)
                #expect(response.data == Codings.gzip)
                #expect(response.headers["Content-Encoding"] == "gzip")
                #expect(server.requests.last?.headers[values: "Accept-Encoding"] == sent)
                // The next request on the same handle is decoded.
                #expect(try await transport.answer(to: plain).text == Codings.text)
            }
        }
    }

    @Test(arguments: ["gzip", "zstd", "br"])
    func malformedCodedBodyFails(coding: String) async throws {
        let server = try MockServer()
        server.enqueue(MockReply.text("this is no such thing at all").header("Content-Encoding", coding))
        server.fallback { _ in .text("next") }
        try await withTransport { transport async throws in
            #expect(try await transport.failure(of: HTTPRequest("GET", server.url())).kind == .protocolViolation)
            #expect(try await transport.get(server.url()).text == "next")
        }
    }

    /// libcurl 7.88 reports no error when coded content ends early in a complete message.
    @Test(arguments: ["gzip", "zstd", "br"])
    func truncatedContentIsAPrefixOrFails(coding: String) async throws {
        let server = try MockServer()
        let whole = Self.coded[coding] ?? Data()
        server.enqueue(.data(Data(whole.dropLast(12))).header("Content-Encoding", coding))
        try await withTransport { transport async throws in
            do {
                let text = try await transport.get(server.url()).text ?? ""
                #expect(Codings.text.hasPrefix(text))
            } catch let error as NetworkError {
                #expect(error.kind == .protocolViolation)
            }
        }
    }

    @Test func codedEmptyBodyIsEmpty() async throws {
        let server = try MockServer()
        server.enqueue(
            MockReply.data(Data()).header("Content-Encoding", "gzip"),
            MockReply(status: 204).header("Content-Encoding", "br"),
            .data(Codings.gzip).header("Content-Encoding", "gzip"))
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url()).data.isEmpty)
            #expect(try await transport.get(server.url()).status == 204)
            #expect(try await transport.answer(to: HTTPRequest("HEAD", server.url())).data.isEmpty)
        }
    }

    @Test(
        .needsHTTPBin,
        arguments: ["gzip", "brotli", "deflate"])
    func httpbinCodingsAreDecoded(kind: String) async throws {
        let base = try #require(Servers.httpbin)
        try await withTransport { transport async throws in
            let response = try await transport.get("\(base)/\(kind)")
            #expect(response.text?.contains("\"Host\"") == true)
        }
    }
}
