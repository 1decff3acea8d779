import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing

/// Signatures against other implementations: http-message-signatures and standardwebhooks of PyPI.
@Suite(.needsPython, .timeLimit(.minutes(2))) struct SignaturePeerTests {
    private typealias Vectors = SignatureVectors

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let key: @Sendable () throws -> MessageSignature.Key
        let members: [String: JSONValue]
    }

    static let cases = [
        Case(
            testDescription: "HMAC_SHA256", key: { try .hmac(SignatureVectors.secret) },
            members: ["secret": .string(SignatureVectors.secret.base64EncodedString())]),
        pair(
            "ED25519", { try .ed25519(pem: SignatureVectors.ed25519Private) }, SignatureVectors.ed25519Private,
            SignatureVectors.ed25519Public),
        pair(
            "ECDSA_P256_SHA256", { try .ecdsaP256(pem: SignatureVectors.eccPrivate) }, SignatureVectors.eccPrivate,
            SignatureVectors.eccPublic),
    ]

    private static func pair(
        _ name: String, _ key: @escaping @Sendable () throws -> MessageSignature.Key, _ secret: String, _ open: String
    ) -> Case {
        Case(testDescription: name, key: key, members: ["private": .string(secret), "public": .string(open)])
    }

    private func peer(_ action: String, _ given: [String: JSONValue]) throws -> String {
        let directory = try TemporaryDirectory()
        try JSONValue.object(given).data().write(to: URL(filePath: directory.path(of: "given.json")))
        return try PythonScript.run("signature_peer.py", [action, directory.path(of: "given.json")])
    }

    private func members(_ headers: HTTPHeaders) -> JSONValue {
        .object(Dictionary(headers.map { ($0.name, JSONValue.string($0.value)) }) { first, _ in first })
    }

    @Test(arguments: cases)
    func peerVerifiesWhatIsSent(_ example: Case) async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let signer = try MessageSignature(
            key: example.key(), keyID: "k",
            components: [
                "@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query",
                #"@query-param;name="q""#, "content-digest", "content-type", "content-length", "cache-control;sf",
                #"x-dict;key="a""#,
            ], namesAlgorithm: true)
        let manager = try CentralRequestManager.make { $0.signer = signer }
        _ = try await manager.startRequest(
            "POST", server.url("/ö?q=a%20b%2Fc*~&r"), body: .json(["a": 1]),
            headers: ["Cache-Control": "max-age=60,   no-store", "X-Dict": "a=(1   2);p, b"])
        let request = try #require(server.requests.first)
        var given = example.members
        given["algorithm"] = .string(example.testDescription)
        given["method"] = .string(request.method)
        given["url"] = .string(server.url(request.target))
        given["headers"] = members(request.headers)
        given["body"] = .string(request.body.base64EncodedString())
        #expect(try peer("verify", given) == "ok\n")
        given["body"] = .string(Data("{}".utf8).base64EncodedString())
        #expect(try peer("verify", given).hasPrefix("refused"))
    }

    @Test(arguments: cases)
    func signatureOfThePeerVerifies(_ example: Case) throws {
        let body = Data(#"{"a":1}"#.utf8)
        var given = example.members
        given["algorithm"] = .string(example.testDescription)
        given["method"] = "POST"
        given["url"] = "https://api.example:8443/a/b?x=1&y=%C3%BC"
        given["headers"] = ["Content-Type": "application/json", "Host": "api.example:8443", "X-Dict": "a=1, b=?0"]
        given["components"] = [
            "@method", "@target-uri", "@authority", "@path", "@query", #""@query-param";name="y""#, "content-type",
            #""x-dict";key="b""#,
        ]
        given["body"] = .string(body.base64EncodedString())
        let reply = try peer("sign", given)
        let headers = try JSONValue(parsing: Data(reply.utf8)).object ?? [:]
        var request = HTTPRequest("POST", "https://api.example:8443/a/b?x=1&y=%C3%BC")
        for (name, value) in headers { request.headers[name] = value.string }
        let verifier = try MessageSignature.Verifier(
            keys: ["peer": example.key()],
            requires: ["@method", #"@query-param;name="y""#, "content-digest", #"x-dict;key="b""#], tag: "app")
        #expect(try verifier.verify(request, body: body).label == "pyhms")
        #expect(throws: NetworkError.self) { try verifier.verify(request, body: Data()) }
        request.method = "PUT"
        #expect(throws: NetworkError.self) { try verifier.verify(request, body: body) }
    }

    @Test func standardWebhookVerifiesAtThePeer() async throws {
        let key = Data((0..<32).map { UInt8($0) })
        let hook = try WebhookSignature(.standard, keys: [Data("another".utf8), key])
        let body = Data(#"{"ä":1}"#.utf8)
        let headers = try await hook.sign(HTTPRequest("POST", "http://a"), body: .init(body))
        var given: [String: JSONValue] = [
            "secret": .string("whsec_" + key.base64EncodedString()), "headers": members(headers),
            "body": .string(body.base64EncodedString()),
        ]
        #expect(try peer("webhook", given) == "ok\n")
        given["body"] = .string(Data("{}".utf8).base64EncodedString())
        #expect(try peer("webhook", given).hasPrefix("refused"))
    }
}
