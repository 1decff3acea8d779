import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A stored response answers only calls that would have accepted it from the network: of the same sender, with the same trust
/// and the same checks.
@Suite(.needsOpenSSL, .timeLimit(.minutes(2))) struct CacheDemandTests {
    private typealias Change = (inout CentralRequestManager.Configuration) -> Void

    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer.counting(["Cache-Control": "private, max-age=3600"])
        directory = try TemporaryDirectory()
    }

    /// The answer to a call of a manager of its own, whose cache is in the folder of all.
    private func answer(
        _ policy: CachePolicy = .http, to change: (inout HTTPRequest) -> Void = { _ in }, _ configure: Change
    ) async throws -> String? {
        let manager = try CentralRequestManager.caching(policy) {
            $0.cacheStorage = .memoryAndDisk
            $0.cacheDirectory = directory.path(of: "cache")
            configure(&$0)
        }
        var request = HTTPRequest("GET", server.url())
        change(&request)
        let text = try await manager.send(request).text
        await manager.shutdown()
        return text
    }

    private static let policies = [CachePolicy.http, .cacheElseNetwork(.forever)]

    @Test(arguments: policies) func certificateOfTheSamePathIsAnother(policy: CachePolicy) async throws {
        let certificates = try #require(TestCertificates.shared)
        let own = directory.path(of: "id.pem")
        var answers: [String?] = []
        for name in ["client", "server", "client"] {
            let pem = try Data(contentsOf: URL(filePath: certificates.path("\(name).crt")))
            let key = try Data(contentsOf: URL(filePath: certificates.path("\(name).key")))
            try directory.write(pem + Data("\n".utf8) + key, to: "id.pem")
            let certificate = ClientCertificate.pem(certificate: own, key: own)
            answers.append(try await answer(policy) { $0.tls.clientCertificate = certificate })
            answers.append(try await answer(policy, to: { $0.tls.clientCertificate = certificate }) { _ in })
        }
        #expect(answers == ["1", "1", "2", "2", "1", "1"])
    }

    private struct Partner: RequestSigner {
        var key: String

        func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders { ["X-Key": key] }
    }

    @Test func keysOfOneKindOfSignerAreSeveralSenders() async throws {
        func hook(_ key: String) throws -> WebhookSignature {
            try WebhookSignature(.body(header: "X-Signature"), keys: [Data(key.utf8)])
        }
        let (a, b) = (try hook("a"), try hook("b"))
        #expect(try await answer { $0.signer = a } == "1")
        #expect(try await answer { $0.signer = b } == "2")
        #expect(try await answer { $0.signer = a } == "1")
        // A signer that does not say who it is belongs to its manager.
        #expect(try await answer { $0.signer = Partner(key: "a") } == "3")
        #expect(try await answer { $0.signer = Partner(key: "b") } == "4")

        let manager = try CentralRequestManager.caching(.http) {
            $0.signers = ["a": Partner(key: "a"), "b": Partner(key: "b")]
        }
        var texts: [String?] = []
        for name in ["a", "b", "a"] {
            var request = HTTPRequest("GET", server.url())
            request.signer = .named(name)
            texts.append(try await manager.send(request).text)
        }
        #expect(texts == ["5", "6", "5"])
    }

    @Test(arguments: policies) func unverifiedResponsesAreForUnverifyingCalls(policy: CachePolicy) async throws {
        #expect(try await answer(policy) { $0.tls.disableCertificateVerification() } == "1")
        #expect(try await answer(policy) { _ in } == "2")
        let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        #expect(try await answer(policy) { $0.tls.pins = ["127.0.0.1": [pin]] } == "3")
        #expect(try await answer(policy, to: { $0.tls.pins = [pin] }) { _ in } == "4")
        let file = try #require(TestCertificates.shared).authority
        #expect(try await answer(policy) { $0.tls.caFile = file } == "5")
        #expect(try await answer(policy, to: { $0.tls.caFile = file }) { _ in } == "6")
        #expect(try await answer(policy, to: { $0.tls.revocation = .hard }) { _ in } == "7")
        #expect(try await answer(policy, to: { $0.tls.revocation = .off }) { _ in } == "8")
        #expect(try await answer(policy) { $0.tls.revocation = .hard } == "9")
        #expect(try await answer(policy) { $0.resolve = ["localhost:80": "127.0.0.1"] } == "10")
        #expect(try await answer(policy) { $0.tls.disableCertificateVerification() } == "1")
        #expect(try await answer(policy) { _ in } == "2")
    }

    @Test(arguments: policies) func wrongDigestIsForCallsThatDoNotCheck(policy: CachePolicy) async throws {
        server.fallback { _ in
            .text("damaged").header("Cache-Control", "max-age=3600")
                .header("Content-Digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")
        }
        #expect(try await answer(policy, to: { $0.digests.checks = false }) { _ in } == "damaged")
        #expect(await failure { try await answer(policy) { _ in } }?.kind == .integrity)
        #expect(try await answer(policy, to: { $0.digests.checks = false }) { _ in } == "damaged")
        #expect(server.requestCount == 2)
    }

    @Test func sealersAndUnsealedCallsShareNothing() async throws {
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            $0.sealers = ["a": Marking(name: "a"), "b": Marking(name: "b")]
            $0.sealer = Marking(name: "standard")
        }
        var texts: [String?] = []
        for sealing in [RequestOptions.Sealing.unsealed, .sealed(by: "a"), .sealed(by: "b"), .automatic, .unsealed] {
            var request = HTTPRequest("GET", server.url())
            request.sealing = sealing
            texts.append(try await manager.send(request).text)
        }
        #expect(texts == ["1", "a 2", "b 3", "standard 4", "1"])
    }

    private struct Marking: Sealer {
        let name: String

        func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
            SealedRequest(method: request.method, body: body)
        }

        func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) async throws -> OpenedReply? {
            OpenedReply(body: Data("\(name) ".utf8) + body)
        }
    }

    /// The key of the digests of credentials must be there when only streams were stored.
    @Test func streamWithCredentialsIsFoundByTheNextProcess() async throws {
        for _ in 1...2 {
            let manager = try CentralRequestManager.caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
            }
            var request = HTTPRequest("GET", server.url())
            request.authentication = .bearer(token: "t")
            let response = try await manager.stream(request)
            #expect(String(decoding: try await response.body.collect(upTo: 100), as: UTF8.self) == "1")
            await manager.shutdown()
        }
        #expect(server.requestCount == 1)
    }
}
