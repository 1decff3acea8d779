import Cryptography
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// Bodies are compared with `Content-Digest` and `Repr-Digest` (RFC 9530).
@Suite struct BodyDigestTests {
    private static let text = "{\"hello\": \"world\"}\n"
    /// Of the text above (RFC 9530 §B.1).
    private static let right = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
    private static let wrong = "sha-256=:4REjxQ4yrqUVicfSKYNO/cF9zNj5ANbzgDZt3/h3Qxo=:"

    private static func field(_ algorithm: RequestOptions.Digests.Algorithm, _ data: Data) throws -> String {
        RequestOptions.Digests.field(algorithm, try MessageDigest.of(data, algorithm.function))
    }

    private func kind(
        _ reply: MockReply, streams: Bool = false, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> NetworkError.Kind? {
        let server = try MockServer()
        server.enqueue(reply)
        var request = HTTPRequest("GET", server.url()).with { $0.streamsBody = streams }
        change(&request)
        let failures = Log<NetworkError>()
        try await withTransport { [request] transport async throws in
            do {
                _ = try await transport.send(request).body.collect(upTo: 64 << 20)
            } catch let error as NetworkError {
                failures.append(error)
            }
        }
        let error = failures.elements.first
        if error?.kind == .integrity { #expect(error?.message.contains("-Digest (sha-") == true) }
        return error?.kind
    }

    @Test(arguments: ["Content-Digest", "Repr-Digest"], [false, true])
    func bodyAgreesWithItsDigest(_ name: String, streams: Bool) async throws {
        let reply = MockReply.text(Self.text)
        #expect(try await kind(reply.header(name, Self.right), streams: streams) == nil)
        #expect(try await kind(reply.header(name, Self.wrong), streams: streams) == .integrity)
        #expect(try await kind(reply.header(name, Self.wrong), streams: streams) { $0.digests.checks = false } == nil)
        let sha512 = try Self.field(.sha512, Data(Self.text.utf8))
        #expect(try await kind(reply.header(name, "md5=:AAAA:, \(sha512)"), streams: streams) == nil)
        #expect(try await kind(reply.header(name, "\(sha512), \(Self.wrong)"), streams: streams) == .integrity)
        #expect(try await kind(MockReply.text("").header(name, Self.right), streams: streams) == .integrity)
        #expect(try await kind(MockReply.text("no", status: 500).header(name, Self.right)) == .integrity)
    }

    @Test(arguments: [
        "", "sha-256", "sha-256=1", "sha-256=\"x\"", "sha-256=:%:", "sha-256=:RK/0:;", "md5=:AAAA:", "SHA-256=:AAAA:",
        "sha-256=:AAAA", "a, b", String(repeating: ",", count: 1_000),
    ])
    func unreadableDigestIsIgnored(_ value: String) async throws {
        #expect(try await kind(MockReply.text(Self.text).header("Repr-Digest", value)) == nil)
    }

    /// Compressors of nginx, Caddy and Envoy leave the digest of the plain content.
    @Test func digestIsThatOfTheCodedOrPlainBody() async throws {
        let plain = Data(repeating: 0x61, count: 300_000)
        let coded = try Codings.gzip(plain)
        let reply = MockReply.data(coded).header("Content-Encoding", "gzip")
        for streams in [false, true] {
            let right = try Self.field(.sha256, coded)
            #expect(try await kind(reply.header("Content-Digest", right), streams: streams) == nil)
            let ofPlain = try Self.field(.sha512, plain)
            for name in ["Content-Digest", "Repr-Digest"] {
                #expect(try await kind(reply.header(name, ofPlain), streams: streams) == nil)
                #expect(try await kind(reply.header(name, "\(ofPlain), \(Self.wrong)"), streams: streams) == .integrity)
            }
        }
    }

    @Test func digestInATrailerIsChecked() async throws {
        let reply = MockReply.text(Self.text).header("Trailer", "X-A, content-digest")
        #expect(try await kind(reply.withTrailers(["Content-Digest": Self.right])) == nil)
        #expect(try await kind(reply.withTrailers(["Content-Digest": Self.wrong])) == .integrity)
        let sha512 = try Self.field(.sha512, Data("other".utf8))
        #expect(try await kind(reply.withTrailers(["Content-Digest": sha512]), streams: true) == .integrity)
        #expect(try await kind(reply.withTrailers(["X-A": "1"])) == nil)
    }

    @Test func partHasTheDigestOfTheWhole() async throws {
        let part = MockReply.text("{\"hel", status: 206).header("Content-Range", "bytes 0-4/19")
        #expect(try await kind(part.header("Repr-Digest", Self.right)) == nil)
        #expect(try await kind(part.header("Content-Digest", Self.right)) == .integrity)
    }

    @Test func responseWithoutABodyIsNotChecked() async throws {
        #expect(try await kind(MockReply.text("").header("Repr-Digest", Self.right)) { $0.method = .head } == nil)
        #expect(try await kind(MockReply(status: 304).header("Repr-Digest", Self.right)) == nil)
        #expect(try await kind(MockReply(status: 204).header("Content-Digest", Self.right)) == nil)
    }

    /// A transfer that is paused gets bytes again; they count once.
    @Test func slowReaderGetsTheSameDigest() async throws {
        let server = try MockServer()
        let data = Data((0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ ($0 >> 9)) })
        for coding in ["identity", "gzip"] {
            let body = coding == "gzip" ? try Codings.gzip(data) : data
            server.enqueue(
                MockReply.data(body).header("Content-Encoding", coding)
                    .header("Content-Digest", try Self.field(.sha256, body)))
            try await withTransport { transport async throws in
                let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
                var count = 0
                for try await chunk in try await transport.send(request).body {
                    count += chunk.count
                    try await Task.sleep(for: .milliseconds(1))
                }
                #expect(count == data.count)
            }
        }
    }
}
