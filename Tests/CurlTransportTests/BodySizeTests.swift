import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct BodySizeTests {
    private static let replies: [@Sendable (MockReply) -> MockReply] = [
        { $0 }, { $0.inChunks(of: 100) }, { $0.endingWithConnection() },
    ]

    @Test(arguments: 0..<3, [false, true])
    func bodyOverTheLimitIsRefused(framing: Int, streams: Bool) async throws {
        let server = try MockServer()
        server.enqueue(
            Self.replies[framing](.pattern(byteCount: 1001)), Self.replies[framing](.pattern(byteCount: 1000)))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.maxBodySize = 1000
                $0.streamsBody = streams
            }
            let error = try await CurlTransportTests.failure {
                try await transport.send(request).body.collect(upTo: 1 << 20)
            }
            #expect(error.kind == .bodyTooLarge)
            #expect(error.message.contains("1000"))
            if !streams { #expect(error.response?.status == 200) }
            try await server.waitUntilDisconnected()
            #expect(try await transport.answer(to: request).body.collect(upTo: 1 << 20).count == 1000)
        }
    }

    @Test func engineLimitAppliesToCollectedBodies() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 2000) }
        try await withTransport(testConfiguration { $0.maxBodySize = 1000 }) { transport async throws in
            let request = HTTPRequest("GET", server.url())
            #expect(try await transport.failure(of: request).kind == .bodyTooLarge)
            let larger = request.with { $0.maxBodySize = 2000 }
            #expect(try await transport.answer(to: larger).data.count == 2000)
            let stream = request.with { $0.streamsBody = true }
            #expect(try await transport.answer(to: stream).body.collect(upTo: 1 << 20).count == 2000)
        }
    }

    @Test func limitOfZeroAllowsEmptyBodies() async throws {
        let server = try MockServer()
        server.enqueue(.text(""), .status(204), .pattern(byteCount: 5000), .text("x"))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.maxBodySize = 0 }
            #expect(try await transport.answer(to: request).status == 200)
            #expect(try await transport.answer(to: request).status == 204)
            let head = HTTPRequest("HEAD", server.url()).with { $0.maxBodySize = 0 }
            #expect(try await transport.answer(to: head).headers["Content-Length"] == "5000")
            #expect(try await transport.failure(of: request).kind == .bodyTooLarge)
        }
    }

    @Test func negativeLimitIsRefused() async throws {
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", "http://127.0.0.1:1/").with { $0.maxBodySize = -1 }
            #expect(try await transport.failure(of: request).kind == .invalidRequest)
        }
    }

    @Test func limitIgnoresTheBodyOfAChallenge() async throws {
        let server = try MockServer()
        server.enqueue(
            .data(Data(count: 5000), status: 401).header(
                "WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\""),
            .text("hello"))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.authentication = .digest(user: "u", password: "p")
                $0.maxBodySize = 1000
            }
            #expect(try await transport.answer(to: request).text == "hello")
        }
    }

    private func zeros(_ mebibytes: Int, _ coding: String) throws -> MockReply {
        try .data(Codings.zeros(mebibytes, coding)).header("Content-Encoding", coding)
    }

    private static let packers = ["gzip", "zstd"].filter(Codings.known.contains)

    @Test(arguments: packers, [false, true])
    func decompressionBombIsRefused(coding: String, streams: Bool) async throws {
        let server = try MockServer()
        let bomb = try zeros(80, coding)
        server.fallback { _ in bomb }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = streams }
            let error = try await CurlTransportTests.failure {
                var count = 0
                for try await chunk in try await transport.send(request).body { count += chunk.count }
                return count
            }
            #expect(error.kind == .bodyTooLarge)
            #expect(error.message.contains("maxDecompressionRatio"))
            let raw = request.with { $0.decompresses = false }
            let bytes = try await transport.answer(to: raw).body.collect(upTo: 1 << 20)
            #expect(try bytes == Codings.zeros(80, coding))
        }
    }

    @Test(arguments: packers)
    func raisedRatioAndSmallBodiesAreAllowed(coding: String) async throws {
        let server = try MockServer()
        server.enqueue(try zeros(30, coding), try zeros(40, coding))
        try await withTransport(testConfiguration { $0.maxDecompressionRatio = 1_000_000 }) { transport async throws in
            #expect(try await transport.get(server.url()).data.count == 30 << 20)
            #expect(try await transport.get(server.url()).data.count == 40 << 20)
        }
        server.enqueue(try zeros(30, coding))
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url()).data.count == 30 << 20)
        }
    }

    @Test(arguments: packers)
    func limitCountsDecodedBytes(coding: String) async throws {
        let server = try MockServer()
        server.enqueue(try zeros(1, coding))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.maxBodySize = 1000 }
            #expect(try await transport.failure(of: request).kind == .bodyTooLarge)
        }
    }
}

@Suite struct ErrorBodyTests {
    private func zeros(_ mebibytes: Int, status: Int) throws -> MockReply {
        try .data(Codings.zeros(mebibytes, "gzip"), status: status).header("Content-Encoding", "gzip")
    }

    /// A body waits for its reader in its coding, so eight errors of 40 MiB hold less than one.
    @Test func unreadErrorWaitsInItsCoding() async throws {
        let server = try MockServer()
        let reply = try zeros(40, status: 500)
        server.fallback { _ in reply }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 8 }) { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            var responses: [HTTPResponse] = []
            for _ in 0..<8 { responses.append(try await transport.answer(to: request)) }
            for response in responses {
                #expect(response.status == 500)
                var count = 0
                let error = await #expect(throws: NetworkError.self) {
                    for try await chunk in response.body { count += chunk.count }
                }
                #expect(error?.kind == .bodyTooLarge)
                #expect(count > 512 << 10 && count <= TransferMachine.errorGrace)
                #expect(error?.message.contains("maxDecompressionRatio") == true)
            }
        }
    }

    @Test(arguments: [400, 404, 503]) func compressedErrorIsLimitedToOneMebibyte(status: Int) async throws {
        let server = try MockServer()
        server.enqueue(try zeros(4, status: status), try zeros(1, status: status), try zeros(4, status: 200))
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .bodyTooLarge)
            #expect(error.response?.status == status)
            #expect(try await transport.get(server.url()).data.count == 1 << 20)
            #expect(try await transport.get(server.url()).data.count == 4 << 20)
        }
    }
}

/// Bodies in the codings of RFC 9110 §8.4.1.
enum Codings {
    /// The codings that the libcurl of this process decodes.
    static let known = ["gzip", "br", "zstd"].filter(LibcurlInfo.current.features.contains)

    static let text = String(repeating: "The quick brown fox. ", count: 20)

    static let gzip =
        Data(
            base64Encoded: "H4sIAAAAAAACAwvJSFUoLM1MzlZIKsovz1NIy6/QUwgZFRxMggBPe1LxpAEAAA==") ?? Data()

    /// Zero bytes, compressed.
    static func zeros(_ mebibytes: Int, _ coding: String) throws -> Data {
        guard coding == "gzip" else { return zstdZeros(mebibytes: mebibytes) }
        let directory = try TemporaryDirectory()
        let command = "head -c \(mebibytes << 20) /dev/zero | gzip -n >zeros.gz"
        try ChildProcess.run("sh", ["-c", command], in: directory.path(of: ""))
        return directory.read("zeros.gz") ?? Data()
    }

    static func gzip(_ data: Data) throws -> Data {
        let directory = try TemporaryDirectory()
        try directory.write(data, to: "data")
        try ChildProcess.run("gzip", ["-n", "data"], in: directory.path(of: ""))
        return directory.read("data.gz") ?? Data()
    }

    /// A frame of blocks that each repeat one byte 131,072 times (RFC 8878 §3.1.1.2).
    static func zstdZeros(mebibytes: Int) -> Data {
        var frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58]
        let blocks = mebibytes * 8
        for block in 0..<blocks {
            let header = UInt32(block == blocks - 1 ? 1 : 0) | 1 << 1 | UInt32(131_072) << 3
            frame += [UInt8(header & 0xFF), UInt8(header >> 8 & 0xFF), UInt8(header >> 16), 0]
        }
        return Data(frame)
    }

    /// A frame of one raw block (RFC 8878 §3.1.1.2).
    static func zstd(_ text: String) -> Data {
        let header = UInt32(text.utf8.count) << 3 | 1
        return Data(
            [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58, UInt8(header & 0xFF), UInt8(header >> 8 & 0xFF), 0] + text.utf8)
    }

    /// An uncompressed meta-block and an empty last one (RFC 7932 §9.2), for 2 to 65,536 bytes.
    static func brotli(_ text: String) -> Data {
        // WBITS 16 (one 0 bit), ISLAST 0, MNIBBLES 4 (00), MLEN - 1 in 16 bits, ISUNCOMPRESSED 1.
        let bits = UInt32(text.utf8.count - 1) << 4 | 1 << 20
        return Data([UInt8(bits & 0xFF), UInt8(bits >> 8 & 0xFF), UInt8(bits >> 16)] + text.utf8 + [0x03])
    }
}
