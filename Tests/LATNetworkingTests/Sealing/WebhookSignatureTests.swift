import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing

@Suite(.timeLimit(.minutes(1))) struct WebhookSignatureTests {
    private static let keys = [Data("new-secret".utf8), Data("old-secret".utf8)]
    private static let body = Data(#"{"id":7}"#.utf8)

    /// The schemes, and whether one has a time.
    static let schemes: [(WebhookSignature.Scheme, Bool)] = [
        (.body(header: "X-Signature"), false), (.body(header: "X-Hub-Signature-256", prefix: "sha256="), false),
        (.body(header: "X-Hub-Signature", prefix: "sha1=", algorithm: .sha1), false),
        (.body(header: "X-Shop-Hmac", algorithm: .sha512, isBase64: true), false),
        (.timestamped(header: "Stripe-Signature"), true), (.standard, true),
    ]

    private func hook(
        _ scheme: WebhookSignature.Scheme, _ keys: [Data] = Self.keys, at time: Int64 = 1_767_225_600
    ) throws -> WebhookSignature {
        var hook = try WebhookSignature(scheme, keys: keys)
        hook.clock = { time }
        return hook
    }

    @Test func codesAreThoseOfTheRFC() throws {
        // RFC 4231, test case 2; RFC 2202, test case 2.
        let message = Data("what do ya want for nothing?".utf8)
        let key = Data("Jefe".utf8)
        let code = try HMAC.sha256(message, key: key)
        #expect(code.hexadecimal == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(try HMAC.sha1(message, key: key).hexadecimal == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")
        #expect(
            try HMAC.sha512(message, key: key).hexadecimal.hasPrefix("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e83"))
        #expect(code.matches(code.hexadecimal.uppercased()) && code.matches(code.base64) && !code.matches(""))
        let (same, other) = (try HMAC(.sha256, message, key: key), try HMAC.sha256(message, key: message))
        #expect(code == same && code != other)
        #expect(!"\(code)".contains(code.hexadecimal))
    }

    @Test(arguments: schemes.indices)
    func sentWebhookVerifies(index: Int) async throws {
        let (scheme, hasTime) = Self.schemes[index]
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 100_000, to: "a.bin")
        let hook = try hook(scheme)
        let manager = try CentralRequestManager.make { $0.signer = hook }
        _ = try await manager.startRequest("POST", server.url(), body: .json(["id": 7]))
        _ = try await manager.startRequest("POST", server.url(), body: .file(path))
        _ = try await manager.startRequest("POST", server.url(), parameters: [:])
        #expect(server.requests.count == 3)
        for request in server.requests {
            try hook.verify(headers: request.headers, body: request.body)
            // The key that signs first fits alone; the old one only where each key signs.
            try self.hook(scheme, [Self.keys[0]]).verify(headers: request.headers, body: request.body)
            #expect(throws: NetworkError.self) { try hook.verify(headers: request.headers, body: request.body + [0]) }
            #expect(throws: NetworkError.self) { try hook.verify(headers: HTTPHeaders(), body: request.body) }
            let stranger = try self.hook(scheme, [Data("guess".utf8)])
            #expect(throws: NetworkError.self) { try stranger.verify(headers: request.headers, body: request.body) }
            for shift in [301, -301] as [Int64] {
                let late = try self.hook(scheme, at: 1_767_225_600 + shift)
                let isRefused = (try? late.verify(headers: request.headers, body: request.body)) == nil
                #expect(isRefused == hasTime)
            }
        }
    }

    @Test func oldKeyVerifiesDuringARotation() async throws {
        let old = try hook(.body(header: "X"), [Self.keys[1]])
        let headers = try await old.sign(HTTPRequest("POST", "http://a"), body: .init(Self.body))
        try hook(.body(header: "X")).verify(headers: headers, body: Self.body)
        #expect(throws: NetworkError.self) {
            try hook(.body(header: "X"), [Self.keys[0]]).verify(headers: headers, body: Self.body)
        }
    }

    @Test func fieldsAreThoseOfTheServices() async throws {
        let request = HTTPRequest("POST", "http://a", headers: ["webhook-id": "msg_1"])
        let stripe = try await hook(.timestamped(header: "S")).sign(request, body: .init(Self.body))
        let codes = try Self.keys.map { try HMAC.sha256(Data("1767225600.".utf8) + Self.body, key: $0) }
        #expect(stripe["S"] == "t=1767225600,v1=\(codes[0].hexadecimal),v1=\(codes[1].hexadecimal)")
        let standard = try await hook(.standard).sign(request, body: .init(Self.body))
        #expect(standard["webhook-id"] == "msg_1" && standard["webhook-timestamp"] == "1767225600")
        let other = try await hook(.standard).sign(HTTPRequest("POST", "http://a"), body: .init(Self.body))
        #expect(other["webhook-id"]?.hasPrefix("msg_") == true && other["webhook-id"] != "msg_1")
    }

    @Test(arguments: [
        ("", "is missing"), ("v1=00", "lacks t= or v1="), ("t=1", "lacks t= or v1="),
        ("t=x,v1=00", "number of seconds"),
        ("t=1,v1=00", "no key fits"), ("t=-1,v1=00", "number of seconds"),
    ])
    func malformedFieldIsRefused(_ value: String, _ words: String) throws {
        let headers: HTTPHeaders = ["S": value.isEmpty ? nil : value]
        let error = #expect(throws: NetworkError.self) {
            try hook(.timestamped(header: "S")).verify(headers: headers, body: Self.body)
        }
        #expect(error?.kind == .integrity && error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test func repeatedFieldIsRefused() async throws {
        let hook = try hook(.body(header: "X"))
        var headers = try await hook.sign(HTTPRequest("POST", "http://a"), body: .init(Self.body))
        headers.append("X", "00")
        #expect(throws: NetworkError.self) { try hook.verify(headers: headers, body: Self.body) }
    }

    @Test func streamCannotBeSignedByItsBody() async throws {
        let server = try MockServer()
        let hook = try hook(.body(header: "X"))
        let manager = try CentralRequestManager.make { $0.signer = hook }
        let chunks = AsyncStream<Data> { $0.finish() }
        let error = await failure(of: { try await manager.startRequest("POST", server.url(), body: .stream(chunks)) })
        #expect(error?.kind == .invalidRequest && error?.message.contains("send data or a file") == true)
        #expect(server.acceptedConnections == 0)
    }

    @Test func unusableSettingsAreRefused() {
        let scheme = WebhookSignature.Scheme.body(header: "X")
        #expect(throws: NetworkError.self) { try WebhookSignature(scheme, keys: []) }
        #expect(throws: NetworkError.self) { try WebhookSignature(scheme, keys: [Data()]) }
        #expect(throws: NetworkError.self) { try WebhookSignature(.body(header: "a b"), keys: Self.keys) }
        #expect(throws: NetworkError.self) { try WebhookSignature(scheme, keys: Self.keys, tolerance: .zero) }
    }

    // MARK: Signers by name

    @Test func rowAndRequestNameASigner() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let table = try DomainTable(
            json5: """
                { domains: { d: { baseURL: "\(server.url())" } }, servers: {
                  signed: { domain: "d", path: "row", method: "GET", signer: "partner" },
                  unsigned: { domain: "d", path: "off", method: "GET", signer: null },
                  unknown: { domain: "d", path: "no", method: "GET", signer: "prtner" } } }
                """)
        let (standard, partner) = (try hook(.body(header: "X-Own")), try hook(.body(header: "X-Partner")))
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.signer = standard
            $0.signers = ["partner": partner]
        }
        _ = try await manager.startRequest(server: "signed")
        _ = try await manager.startRequest(server: "unsigned")
        var request = HTTPRequest("GET", server.url("/request"))
        request.signer = .named("partner")
        _ = try await manager.send(request)
        _ = try await manager.startRequest("GET", server.url("/plain"))
        let fields = server.requests.map { request in
            [
                request.target, request.headers["X-Own"] == nil ? "" : "own",
                request.headers["X-Partner"] == nil ? "" : "partner",
            ]
            .joined(separator: " ")
        }
        #expect(fields == ["/row  partner", "/off  ", "/request  partner", "/plain own "])
        let error = await failure(of: { try await manager.startRequest(server: "unknown") })
        #expect(error?.message == "there is no signer \"prtner\"; configuration.signers has \"partner\"")
    }
}
