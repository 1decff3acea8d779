@testable import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct BodyCompressionTests {
    private static let text = (0..<40_000).map { "line \($0) of many\n" }.joined()

    /// The text that `gzip(1)` decodes from the bytes.
    private static func decoded(_ data: Data) throws -> String {
        let directory = try TemporaryDirectory()
        try directory.write(data, to: "body.gz")
        return try ChildProcess.run("gzip", ["-dc", "body.gz"], in: directory.path)
    }

    /// Sends a body and returns the request that the server received.
    private static func sent(
        _ body: HTTPBody?, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> RecordedRequest {
        let server = try MockServer()
        let request = HTTPRequest("POST", server.url(), body: body).with {
            $0.contentCoding = .gzip
            change(&$0)
        }
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            #expect(try await transport.answer(to: request).status == 200)
        }
        return try #require(server.requests.first)
    }

    /// Short and long, each decoded again by the decoder of the coding.
    @Test(
        arguments: ContentCoding.known.filter { $0 == .deflate || Codings.known.contains($0.name) }, [3_000, 500_000])
    func everyCodingIsSent(coding: ContentCoding, count: Int) async throws {
        let text = String(Self.text.prefix(count))
        let request = try await Self.sent(.text(text)) { $0.contentCoding = coding }
        #expect(request.headers[values: "Content-Encoding"] == [coding.name])
        #expect((request.headers["Content-Length"] != nil) == (count == 3_000))
        #expect(request.body.count < count / 3)
        let decoder = try #require(BodyDecoder([coding.name]))
        var decoded = Data()
        try request.body.withUnsafeBytes { bytes in
            var rest = bytes
            var buffer = [UInt8](repeating: 0, count: 4096)
            var size: Int
            repeat {
                size = try buffer.withUnsafeMutableBytes { try decoder.decode(&rest, into: $0) }
                decoded.append(contentsOf: buffer[..<size])
            } while size == buffer.count
        }
        #expect(decoder.isComplete && String(decoding: decoded, as: UTF8.self) == text)
    }

    @Test func streamIsDecodableAfterEachPiece() throws {
        for coding in ContentCoding.known where coding == .deflate || Codings.known.contains(coding.name) {
            let encoder = try ContentCodings.encoder(for: coding)
            let decoder = try #require(BodyDecoder([coding.name]))
            for piece in ["one ", "two ", "three"] {
                let coded = try encoder.encode(Data(piece.utf8), flushes: true)
                let decoded = try coded.withUnsafeBytes { bytes in
                    var rest = bytes
                    var buffer = [UInt8](repeating: 0, count: 64)
                    let size = try buffer.withUnsafeMutableBytes { try decoder.decode(&rest, into: $0) }
                    return String(decoding: buffer[..<size], as: UTF8.self)
                }
                #expect(decoded == piece, "\(coding)")
            }
        }
    }

    @Test(arguments: [ContentCoding("x-none"), ContentCoding("x-throws", encoder: { throw POSIXProblem() })])
    func codingWithoutEncoderIsRefused(coding: ContentCoding) async throws {
        let server = try MockServer()
        try await withTransport { transport async throws in
            for body in [HTTPBody.text("x"), .stream { AsyncStream<Data> { $0.finish() } }] {
                let request = HTTPRequest("POST", server.url(), body: body).with { $0.contentCoding = coding }
                let error = try await transport.failure(of: request)
                #expect(error.kind == (coding.name == "x-none" ? .invalidRequest : .requestBody))
                #expect(error.message.contains(coding.name))
            }
        }
        #expect(server.requests.isEmpty)
    }

    private struct POSIXProblem: Error {}

    @Test func shortBodyIsCompressedBeforeSending() async throws {
        let text = String(repeating: "abc", count: 1000)
        let request = try await Self.sent(.text(text))
        #expect(request.headers["Content-Encoding"] == "gzip")
        #expect(request.headers["Content-Type"] == "text/plain; charset=utf-8")
        #expect(request.headers["Content-Length"] == "\(request.body.count)")
        #expect(request.body.count < 100)
        #expect(try Self.decoded(request.body) == text)
    }

    @Test func jsonValueIsCompressed() async throws {
        let request = try await Self.sent(.json(["name": String(repeating: "a", count: 500)]))
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(try Self.decoded(request.body) == #"{"name":"\#(String(repeating: "a", count: 500))"}"#)
        let long = try await Self.sent(.json([Self.text]))
        #expect(long.headers["Transfer-Encoding"] == "chunked")
        #expect(try Self.decoded(long.body).hasPrefix(#"["line 0 of many\n"#))
    }

    @Test func longBodyIsCompressedWhileSending() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(Self.text.utf8), to: "file.txt")
        let pieces = stride(from: 0, to: Self.text.utf8.count, by: 50_000).map {
            Data(Self.text.utf8.dropFirst($0).prefix(50_000))
        }
        let stream = AsyncStream<Data> { stream in
            for piece in pieces { stream.yield(piece) }
            stream.finish()
        }
        for body in [
            HTTPBody.data(Data(Self.text.utf8)), .file(file), .stream(stream),
        ] {
            let request = try await Self.sent(body) { $0.headers["Content-Length"] = "\(Self.text.utf8.count)" }
            #expect(request.headers["Content-Encoding"] == "gzip")
            #expect(request.headers["Transfer-Encoding"] == "chunked")
            #expect(request.headers["Content-Length"] == nil)
            #expect(request.body.count < Self.text.utf8.count / 3)
            #expect(try Self.decoded(request.body) == Self.text)
        }
    }

    @Test func emptyOrIncompressibleBodyIsUnchanged() async throws {
        var generator = SystemRandomNumberGenerator()
        let noise = Data((0..<2000).map { _ in UInt8.random(in: 0 ... .max, using: &generator) })
        for body in [HTTPBody.data(noise), .data(Data()), nil] {
            let request = try await Self.sent(body)
            #expect(request.headers["Content-Encoding"] == nil)
            #expect(request.body == (body == .data(noise) ? noise : Data()))
        }
    }

    @Test func codedAndMultipartBodiesAreUnchanged() async throws {
        let text = String(repeating: "abc", count: 1000)
        let coded = try await Self.sent(.text(text)) { $0.headers["Content-Encoding"] = "aes128gcm" }
        #expect(coded.headers["Content-Encoding"] == "aes128gcm")
        #expect(coded.body == Data(text.utf8))
        let parts = try await Self.sent(
            .multipart([UploadFile(name: "f", fileName: "f", data: Data(text.utf8), contentType: "text/plain")]))
        #expect(parts.headers["Content-Encoding"] == nil)
        #expect(parts.body.count > 3000)
    }

    @Test func streamPiecesAreSentAsTheyArrive() async throws {
        // The second piece is made after the server has received the first.
        let hasCome = Event()
        let server = try RawServer { connection in
            var seen = 0
            while seen < 300 {
                let bytes = connection.read()
                if bytes.isEmpty { return }
                seen += bytes.count
                // 0x1F is in no head: it begins the gzip data of the first chunk.
                if bytes.contains(0x1F) { hasCome.happen() }
                if String(decoding: bytes, as: UTF8.self).hasSuffix("0\r\n\r\n") { break }
            }
            connection.write(Array("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".utf8))
        }
        let pieces = TwoPieces(second: hasCome)
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: .stream { pieces }).with { $0.contentCoding = .gzip }
            #expect(try await transport.answer(to: request).status == 204)
        }
    }

    /// Yields one piece immediately and another one after an event.
    private struct TwoPieces: AsyncSequence, Sendable {
        let second: Event

        struct Iterator: AsyncIteratorProtocol {
            let second: Event
            var count = 0

            mutating func next() async throws -> Data? {
                count += 1
                if count == 2 { await second.wait() }
                return count > 2 ? nil : Data("piece \(count)".utf8)
            }
        }

        func makeAsyncIterator() -> Iterator { Iterator(second: second) }
    }

    @Test func compressedBodyIsResentAfterChallenge() async throws {
        let server = try MockServer()
        server.fallback { request in
            request.headers["Authorization"] == nil
                ? .status(401).header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"") : .text("in")
        }
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: .data(Data(Self.text.utf8))).with {
                $0.contentCoding = .gzip
                $0.authentication = .digest(user: "a", password: "b")
            }
            #expect(try await transport.answer(to: request).text == "in")
        }
        let last = try #require(server.requests.last)
        #expect(try Self.decoded(last.body) == Self.text)
    }

    @Test func failingBodyIsReported() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer()
        try await withTransport { transport async throws in
            let short = AsyncStream<Data> { stream in
                stream.yield(Data(count: 10))
                stream.finish()
            }
            for body in [HTTPBody.file(directory.path(of: "missing")), .stream(short, length: 11)] {
                let request = HTTPRequest("POST", server.url(), body: body).with { $0.contentCoding = .gzip }
                let error = try await transport.failure(of: request)
                #expect(error.kind == .requestBody, "\(error)")
            }
        }
    }

    @Test func callerSeesUncompressedByteCounts() async throws {
        let events = Box<[BodyEvent]>([])
        let owner = TestOwner(body: { event, _ in events.change { $0.append(event) } })
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: .data(Data(Self.text.utf8))).with {
                $0.contentCoding = .gzip
            }
            _ = try await transport.send(request, for: owner)
        }
        let read = events.value.reduce(0) { if case .read(let count) = $1 { $0 + count } else { $0 } }
        #expect(read == Self.text.utf8.count)
        #expect(events.value.first == .rewound && events.value.last == .end)
    }
}
