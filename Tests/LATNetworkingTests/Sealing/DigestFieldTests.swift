import Cryptography
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// `Content-Digest` and `Want-Repr-Digest` of requests (RFC 9530).
@Suite(.timeLimit(.minutes(1))) struct DigestFieldTests {
    private struct Save: RequestEntity {
        typealias Model = JSONValue
        static let route = Route(server: "save")
        var parameters: Parameters? { ["hello": "world"] }
    }

    private static func field(_ data: Data, _ function: RequestOptions.Digests.Algorithm = .sha256) throws -> String {
        RequestOptions.Digests.field(function, try MessageDigest.of(data, function == .sha512 ? .sha512 : .sha256))
    }

    @Test func rowSendsTheDigestOfTheBody() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())", digests: { sends: "sha-256", wants: "sha-512" } } },
                  servers: { save: { domain: "main", path: "save", method: "POST" } } }
                """, name: "table")
        let manager = try CentralRequestManager(configuration: configuration)
        _ = try await Save().startRequest(on: manager)
        _ = try await Save().setting(\.digests.sends, .sha512).startRequest(on: manager)
        _ = try await Save().setting(\.contentCoding, .gzip).startRequest(on: manager)
        #expect(server.requests.count == 3)
        for (request, function) in zip(server.requests, [RequestOptions.Digests.Algorithm.sha256, .sha512, .sha256]) {
            #expect(try request.headers["Content-Digest"] == Self.field(request.body, function))
            #expect(request.headers["Want-Repr-Digest"] == "sha-512=10")
        }
    }

    @Test func bodyDecidesWhetherThereIsADigest() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 300_000, to: "a.bin")
        let manager = try CentralRequestManager.make()
        func send(_ method: String, _ body: HTTPBody?, _ headers: HTTPHeaders = [:]) async throws -> String? {
            var request = HTTPRequest(method, server.url(), headers: headers, body: body)
            request.digests.sends = .sha256
            _ = try await manager.send(request)
            return server.requests.last?.headers["Content-Digest"]
        }
        #expect(try await send("GET", nil) == nil)
        #expect(try await send("POST", .data(Data("x".utf8))) == Self.field(Data("x".utf8)))
        #expect(try await send("PUT", .file(path)) == Self.field(try #require(directory.read("a.bin"))))
        #expect(try await send("POST", .text("x"), ["Content-Digest": "sha-256=:AAAA:"]) == "sha-256=:AAAA:")
        let stream = HTTPBody.stream(AsyncStream<Data> { $0.finish() })
        let error = await failure { try await send("POST", stream) }
        #expect(error?.kind == .invalidRequest && error?.message.contains("digest") == true)
    }

    /// A body that does not agree with its digest is not stored.
    @Test func changedBodyIsNotStored() async throws {
        let server = try MockServer()
        let field = try Self.field(Data("right".utf8))
        for text in ["wrong", "right"] {
            server.enqueue(
                MockReply.text(text).header("Cache-Control", "max-age=60").header("Content-Digest", field))
        }
        let manager = try CentralRequestManager.caching(.http)
        let request = HTTPRequest("GET", server.url())
        #expect(await failure { try await manager.send(request) }?.kind == .integrity)
        #expect(try await manager.send(request).text == "right")
        #expect(try await manager.send(request).text == "right")
        #expect(server.requestCount == 2)
    }
}
