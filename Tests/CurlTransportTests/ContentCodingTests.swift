import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

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

    /// Bytes turned around, with a mark at the end.
    private final class Turned: ContentCoding.Encoder, ContentCoding.Decoder {
        private var isOver = false
        private struct Problem: Error, CustomStringConvertible { let description = "bytes after the mark" }

        func encode(_ piece: Data, flushes: Bool) -> Data { Data(piece.map { $0 ^ 0xFF }) }
        func finish() -> Data { Data([0]) }
        func decode(_ piece: Data) throws -> Data {
            guard let end = piece.firstIndex(of: 0) else { return encode(piece, flushes: true) }
            guard piece.index(after: end) == piece.endIndex, !isOver else { throw Problem() }
            isOver = true
            return encode(piece[..<end], flushes: true)
        }
        var isComplete: Bool { isOver }
    }

    @Test func codingOfTheAppIsAskedForAndDecoded() async throws {
        let own = ContentCoding("X-Turned", encoder: { Turned() }, decoder: { Turned() })
        let text = String(repeating: "a long text ", count: 20_000)
        let coded = Data(text.utf8.map { $0 ^ 0xFF })
        let server = try MockServer()
        server.route("GET", "/whole") { _ in .data(coded + [0]).header("Content-Encoding", "x-turned") }
        server.route("GET", "/cut") { _ in .data(coded).header("Content-Encoding", "x-turned") }
        server.route("GET", "/wrong") { _ in .data(coded + [0, 1]).header("Content-Encoding", "x-turned") }
        server.route("POST", "/") { _ in .text("") }
        let configuration = testConfiguration { $0.contentCodings = [own, .gzip, ContentCoding("x-no-decoder")] }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get(server.url("/whole")).text == text)
            #expect(server.requests.first?.headers["Accept-Encoding"] == "x-turned, gzip")
            let cut = try await transport.failure(of: HTTPRequest("GET", server.url("/cut")))
            #expect(cut.kind == .connectionLost && cut.message.contains("x-turned"))
            let wrong = try await transport.failure(of: HTTPRequest("GET", server.url("/wrong")))
            #expect(wrong.kind == .protocolViolation && wrong.message.contains("bytes after the mark"), "\(wrong)")
            let post = HTTPRequest("POST", server.url("/"), body: .text(text)).with { $0.contentCoding = own }
            _ = try await transport.answer(to: post)
            #expect(server.requests.last?.body == coded + [0])
            #expect(server.requests.last?.headers["Content-Encoding"] == "x-turned")
        }
    }

    @Test func noCodingsAskForIdentity() async throws {
        let server = try MockServer()
        server.fallback { _ in .data(Codings.gzip).header("Content-Encoding", "gzip") }
        try await withTransport(testConfiguration { $0.contentCodings = [] }) { transport async throws in
            #expect(try await transport.get(server.url()).text == Codings.text)
            #expect(server.requests.first?.headers["Accept-Encoding"] == "identity")
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

    enum Ending: CaseIterable {
        case length, chunk, close

        func applied(to reply: MockReply) -> MockReply {
            switch self {
            case .length: reply
            case .chunk: reply.inChunks(of: 7)
            case .close: reply.endingWithConnection()
            }
        }
    }

    /// The message is complete, its content is not. libcurl reports no error.
    @Test(arguments: Codings.known, Ending.allCases)
    func cutContentFails(coding: String, ending: Ending) async throws {
        let server = try MockServer()
        let whole = Self.coded[coding] ?? Data()
        let cuts = [1, whole.count / 2, whole.count - 1]
        for cut in cuts + cuts {
            server.enqueue(ending.applied(to: .data(whole.prefix(cut)).header("Content-Encoding", coding)))
        }
        server.fallback { _ in ending.applied(to: .data(whole).header("Content-Encoding", coding)) }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url())
            for cut in cuts {
                let error = try await transport.failure(of: request)
                #expect(error.kind == .connectionLost && error.response?.status == 200)
                #expect(error.message.contains("its coding (\(coding)) does, after \(cut) coded"), "\(error)")
                #expect(error.message.contains("decompresses = false"))
            }
            let streamed = request.with { $0.streamsBody = true }
            for _ in cuts {
                let response = try await transport.answer(to: streamed)
                let error = try await CurlTransportTests.failure {
                    try await response.body.collect(upTo: 1 << 20).count
                }
                #expect(error.kind == .connectionLost)
            }
            #expect(try await transport.answer(to: request).text == Codings.text)
            let response = try await transport.answer(to: streamed)
            #expect(try await response.body.collect(upTo: 1 << 20).count == Codings.text.utf8.count)
        }
    }

    /// libcurl 7.88 decodes these, and takes a cut one for whole.
    @Test(arguments: ["gzip", "gzip, chunked", "chunked, x"], [false, true])
    func transferCodingIsRefused(coding: String, isCut: Bool) async throws {
        let server = try MockServer()
        let body = isCut ? Codings.gzip.dropLast(8) : Codings.gzip
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: \(coding)\r\n\r\n"
        let chunk = coding == "gzip" ? "" : String(body.count, radix: 16) + "\r\n"
        let end = coding == "gzip" ? "" : "\r\n0\r\n\r\n"
        server.fallback { _ in .raw(Data((head + chunk).utf8) + body + Data(end.utf8)) }
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .protocolViolation)
        }
    }

    /// `identity` is no coding that could make a bomb.
    @Test func identityIsNoCoding() async throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 33 << 20).header("Content-Encoding", "identity"))
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url()).data.count == 33 << 20)
        }
    }

    /// RFC 1952 §2.2; zeros after the end are padding.
    @Test func gzipMembersAndPaddingAreDecoded() async throws {
        let server = try MockServer()
        let text = Codings.text
        server.enqueue(
            MockReply.data(Codings.gzip + Codings.gzip).header("Content-Encoding", "gzip"),
            .data(Codings.gzip + Data(count: 512)).header("Content-Encoding", "gzip"),
            .data(Codings.gzip + Data("more".utf8)).header("Content-Encoding", "gzip"))
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url()).text == text + text)
            #expect(try await transport.get(server.url()).text == text)
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .protocolViolation)
            #expect(error.message.contains("is not valid gzip (other bytes follow its end)"), "\(error)")
            #expect(error.message.contains("decompresses = false"))
        }
    }

    /// A paused transfer gets the piece again in which it was paused, decoded in part.
    @Test(arguments: ["gzip", "gzip, gzip"], [nil, 8 << 20] as [Int64?])
    func slowReaderGetsEveryByte(coding: String, rate: Int64?) async throws {
        let server = try MockServer()
        let lines = Data((0..<(200_000)).map { "line \($0 &* 2_654_435_761 % 1_000_003)\n" }.joined().utf8)
        var packed = lines
        for _ in coding.split(separator: ",") { packed = ZlibEncoder.gzip(packed) }
        let reply = MockReply.data(packed).header("Content-Encoding", coding)
        server.fallback { _ in reply }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.streamsBody = true
                $0.maxReceiveRate = rate
            }
            var received = Data()
            for try await chunk in try await transport.answer(to: request).body {
                received.append(chunk)
                await Task.yield()
            }
            #expect(received == lines)
        }
    }

    @Test(.needsNginx, arguments: ["", "gzip/"])
    func nginxFileIsTheSameWithCoding(folder: String) async throws {
        let base = try #require(Servers.nginx)
        try await withTransport { transport async throws in
            let plain = HTTPRequest("GET", "\(base)/1m.bin").with { $0.decompresses = false }
            let coded = HTTPRequest("GET", "\(base)/\(folder)1m.bin")
            let (first, second) = (try await transport.answer(to: plain), try await transport.answer(to: coded))
            #expect(second.headers["Content-Encoding"] == (folder.isEmpty ? nil : "gzip"))
            #expect(first.data == second.data && first.data.count == 1 << 20)
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
