import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing

@Suite(.timeLimit(.minutes(1))) struct MessageSignatureTests {
    private typealias Vectors = SignatureVectors
    private static let time: Int64 = 1_618_884_473

    private static func verifier(_ keys: [String: MessageSignature.Key], requires: [String] = []) throws
        -> MessageSignature.Verifier
    {
        var verifier = try MessageSignature.Verifier(keys: keys, requires: requires)
        verifier.clock = { time + 10 }
        return verifier
    }

    private static func keys() throws -> [String: MessageSignature.Key] {
        [
            "test-key-rsa-pss": try .rsaPSS(pem: Vectors.rsaPSSPublic),
            "test-key-ecc-p256": try .ecdsaP256(pem: Vectors.eccPublic),
            "test-key-ed25519": try .ed25519(pem: Vectors.ed25519Public),
            "test-shared-secret": try .hmac(Vectors.secret),
        ]
    }

    // MARK: The vectors of RFC 9421, appendix B.2

    @Test(arguments: ["sig-b21", "sig-b22", "sig-b23", "sig-b25", "sig-b26"])
    func requestOfTheRFCVerifies(label: String) throws {
        let vector = try #require(Vectors.signatures[label])
        var request = Vectors.request
        request.headers["Signature-Input"] = "\(label)=\(vector.input)"
        request.headers["Signature"] = "\(label)=:\(vector.signature):"
        let verifier = try Self.verifier(Self.keys())
        let body = try #require(request.body?.data)
        let verified = try verifier.verify(request, body: body)
        #expect(verified.label == label && verified.created == Self.time)
        request.headers["Signature"] = "\(label)=:A\(vector.signature.dropFirst()):"
        #expect(throws: NetworkError.self) { try verifier.verify(request, body: body) }
    }

    @Test func responseOfTheRFCVerifies() throws {
        let vector = try #require(Vectors.signatures["sig-b24"])
        var headers = Vectors.response
        headers["Signature-Input"] = "sig-b24=\(vector.input)"
        headers["Signature"] = "sig-b24=:\(vector.signature):"
        var response = HTTPResponse(
            status: 200, headers: headers, body: ResponseBody(Data(#"{"message": "good dog"}"#.utf8)), url: "")
        let verifier = try Self.verifier(Self.keys(), requires: ["@status", "content-digest"])
        let verified = try verifier.verify(response)
        #expect(verified.components == ["\"@status\"", "\"content-type\"", "\"content-digest\"", "\"content-length\""])
        response.status = 201
        #expect(throws: NetworkError.self) { try verifier.verify(response) }
    }

    @Test(arguments: [
        ("sig-b25", ["date", "@authority", "content-type"], "test-shared-secret"),
        ("sig-b26", ["date", "@method", "@path", "@authority", "content-type", "content-length"], "test-key-ed25519"),
    ])
    func signatureIsThatOfTheRFC(_ label: String, _ components: [String], _ keyID: String) async throws {
        let vector = try #require(Vectors.signatures[label])
        let key: MessageSignature.Key =
            keyID == "test-key-ed25519" ? try .ed25519(pem: Vectors.ed25519Private) : try .hmac(Vectors.secret)
        var signer = try MessageSignature(key: key, keyID: keyID, components: components, label: label)
        signer.clock = { Self.time }
        let fields = try await signer.sign(Vectors.request, body: .init(Data()))
        #expect(fields["Signature-Input"] == "\(label)=\(vector.input)")
        #expect(fields["Signature"] == "\(label)=:\(vector.signature):")
    }

    // MARK: Components (RFC 9421 §2)

    private static let example = HTTPRequest(
        "GET",
        "HTTP://WWW.Example.com:80/path?param=value&foo=bar&qux=&var=a%20big%0Aline&bar=with+plus&fa%C3%A7ade=x*~",
        headers: [
            "Example-Dict": "a=1,    b=2;x=1;y=2,   c=(a   b    c), d", "X-Empty": "",
            "Cache-Control": "max-age=60,   no-store",
            "X-List": "1 ,2;b=?1", "Priority": "u=1,i",
        ])

    @Test(arguments: [
        ("@method", "GET"), ("@authority", "www.example.com"), ("@scheme", "http"), ("@path", "/path"),
        (#"@query-param;name="param""#, "value"), (#"@query-param;name="qux""#, ""),
        (#"@query-param;name="var""#, "a%20big%0Aline"), (#"@query-param;name="bar""#, "with%20plus"),
        (#"@query-param;name="fa%C3%A7ade""#, "x*%7E"), (#"example-dict;key="a""#, "1"),
        (#"example-dict;key="d""#, "?1"),
        (#"example-dict;key="b""#, "2;x=1;y=2"), (#"example-dict;key="c""#, "(a b c)"),
        ("example-dict;sf", "a=1, b=2;x=1;y=2, c=(a b c), d"),
        ("example-dict", "a=1,    b=2;x=1;y=2,   c=(a   b    c), d"),
        ("x-empty", ""), ("x-list;sf", "1, 2;b"), ("priority;sf", "u=1, i"), ("x-list;bs", ":MSAsMjtiPT8x:"),
        ("Cache-Control;sf", "max-age=60, no-store"),
    ])
    func componentHasTheValueOfTheRFC(_ component: String, _ value: String) throws {
        #expect(try SignedMessage(request: Self.example).value(of: SignatureComponent(component)) == value)
    }

    @Test(arguments: [
        ("https://a.example", "/", "?", "https://a.example/", "a.example"),
        ("https://a.example:8443/x?", "/x", "?", "https://a.example:8443/x?", "a.example:8443"),
        ("https://a.example:443/ö?q=ü#f", "/%C3%B6", "?q=%C3%BC", "https://a.example/%C3%B6?q=%C3%BC", "a.example"),
    ])
    func partsOfTheURLAreThoseOnTheWire(
        _ url: String, _ path: String, _ query: String, _ target: String, _ authority: String
    ) throws {
        let message = SignedMessage(request: HTTPRequest("GET", url))
        for (name, value) in [
            ("@path", path), ("@query", query), ("@target-uri", target), ("@authority", authority),
        ] { #expect(try message.value(of: SignatureComponent(name)) == value) }
    }

    @Test func repeatedFieldsAreJoined() throws {
        var request = HTTPRequest("GET", "http://a")
        request.headers.append("X", " value, with, lots ")
        request.headers.append("X", "of, commas")
        let message = SignedMessage(request: request)
        #expect(try message.value(of: SignatureComponent("x")) == "value, with, lots, of, commas")
        #expect(
            try message.value(of: SignatureComponent("x;bs")) == ":dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:")
    }

    @Test(arguments: [
        ("@pth", "there is no component \"@pth\"; use the name of a header field, or @method"),
        ("@query-param", "lacks its name; write @query-param;name=\"page\""), ("a b", "not the name of a header field"),
        ("@method;sf", "cannot have the parameter \"sf\""), ("date;bs;sf", "bs stands alone"),
        ("date;tr", "trailer (tr)"),
        ("date;key=1", "parameter \"key\""), ("date;req", "signatures of responses"),
        ("@status", "signatures of responses"),
        ("date;=", "cannot be read"), ("@signature-params", "there is no component"),
    ])
    func unknownComponentIsOneSentence(_ component: String, _ words: String) throws {
        let error = #expect(throws: NetworkError.self) {
            try MessageSignature(key: .hmac(Vectors.secret), keyID: "k", components: ["@method", component])
        }
        #expect(error?.kind == .invalidRequest && error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("\n") == false)
    }

    @Test(arguments: [
        (["date"], "the message has no field \"date\"; set it, or leave it out"),
        ([#"@query-param;name="a""#], "2 times; sign @query"), ([#"@query-param;name="z""#], "has no parameter \"z\""),
        (["@method", "@method"], "there twice"), ([#"accept;key="a""#], "no dictionary"),
        (["accept;sf"], "no structured field"),
    ])
    func unusableValueFailsTheCall(_ components: [String], _ words: String) async throws {
        let server = try MockServer()
        let signer = try MessageSignature(key: .hmac(Vectors.secret), keyID: "k", components: components)
        let manager = try CentralRequestManager.make { $0.signer = signer }
        let error = await failure(of: {
            try await manager.startRequest("GET", server.url("/?a=1&a=2"), headers: ["Accept": "a b"])
        })
        #expect(error?.kind == .invalidRequest && error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect(server.acceptedConnections == 0)
    }

    // MARK: On the wire

    @Test(arguments: ["hmac", "ed25519", "ecdsaP256", "rsaPSS", "rsaPKCS1"])
    func everySentRequestVerifies(algorithm: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 200_000, to: "a.bin")
        let key: MessageSignature.Key =
            switch algorithm {
            case "hmac": try .hmac(Vectors.secret)
            case "ed25519": try .ed25519(pem: Vectors.ed25519Private)
            case "ecdsaP256": try .ecdsaP256(pem: Vectors.eccPrivate)
            case "rsaPSS": try .rsaPSS(pem: Vectors.rsaPSSPrivate)
            default: try .rsaPKCS1(pem: Vectors.rsaPrivate)
            }
        let signer = try MessageSignature(
            key: key, keyID: "k", lifetime: .seconds(60), hasNonce: true, namesAlgorithm: true, tag: "app")
        let manager = try CentralRequestManager.make { $0.signer = signer }
        _ = try await manager.startRequest("GET", server.url("/a b"), parameters: ["q": "ü"])
        _ = try await manager.startRequest("POST", server.url("/x"), body: .json(["a": 1]))
        _ = try await manager.startRequest("PUT", server.url("/x"), body: .file(path))
        let verifier = try MessageSignature.Verifier(
            keys: ["k": key], requires: ["@method", "@target-uri"], tag: "app")
        var nonces: Set<String?> = []
        for request in server.requests {
            let received = HTTPRequest(request.method, server.url(request.target), headers: request.headers)
            let verified = try verifier.verify(received, body: request.body)
            nonces.insert(verified.nonce)
            #expect(verified.expires == verified.created.map { $0 + 60 })
            #expect(verified.components.contains("\"content-digest\"") == (request.method != "GET"))
            if !request.body.isEmpty {
                #expect(throws: NetworkError.self) { try verifier.verify(received, body: request.body + Data([1])) }
            }
        }
        #expect(nonces.count == 3 && !nonces.contains(nil))
    }

    /// Only one of two digests is signed. The other one cannot stand for it.
    @Test func eachKnownDigestHasToFit() async throws {
        let key = try MessageSignature.Key.hmac(Vectors.secret)
        let component = "content-digest;key=\"sha-256\""
        let signer = try MessageSignature(key: key, keyID: "k", components: ["@method", component])
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let manager = try CentralRequestManager.make { $0.signer = signer }
        _ = try await manager.startRequest("POST", server.url("/x"), body: .json(["a": 1]))
        let sent = try #require(server.requests.first)
        var received = HTTPRequest("POST", server.url("/x"), headers: sent.headers)
        let verifier = try MessageSignature.Verifier(keys: ["k": key], requires: [component])
        _ = try verifier.verify(received, body: sent.body)
        let changed = Data("changed".utf8)
        let digest = try HTTPBody.Bytes(changed).digest(.sha512)
        let own = try #require(received.headers["Content-Digest"])
        received.headers["Content-Digest"] = own + ", sha-512=:\(Data(digest).base64EncodedString()):"
        #expect(throws: NetworkError.self) { try verifier.verify(received, body: changed) }
    }

    @Test func everyHopAndAttemptIsSignedAnew() async throws {
        let other = try MockServer()
        other.route("GET", "/end") { _ in .text("end") }
        let server = try MockServer()
        let attempts = Box(0)
        server.route("POST", "/a") { _ in
            attempts.change { $0 += 1 }
            return attempts.value == 1 ? .status(503) : .redirect(to: "/b", status: 307)
        }
        server.route("POST", "/b") { _ in .redirect(to: "/c", status: 303) }
        server.route("GET", "/c") { _ in .redirect(to: other.url("/end"), status: 302) }
        let key = try MessageSignature.Key.hmac(Vectors.secret)
        let signer = try MessageSignature(key: key, keyID: "k", hasNonce: true)
        let manager = try CentralRequestManager.make {
            $0.signer = signer
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .milliseconds(1), repeatsOnlyIdempotent: false)
        }
        let response = try await manager.startRequest("POST", server.url("/a"), body: .json(["a": 1]))
        #expect(response.text == "end")
        let verifier = try MessageSignature.Verifier(keys: ["k": key], requires: ["@method", "@target-uri"])
        let sent = server.requests
        #expect(sent.map { "\($0.method) \($0.target)" } == ["POST /a", "POST /a", "POST /b", "GET /c"])
        let nonces = try sent.map { request in
            try verifier.verify(
                HTTPRequest(request.method, server.url(request.target), headers: request.headers), body: request.body
            ).nonce
        }
        #expect(Set(nonces).count == 4)
        // Another origin gets no signature.
        let last = try #require(other.requests.first)
        #expect(last.headers["Signature"] == nil && last.headers["Signature-Input"] == nil)
    }

    @Test func responseIsVerifiedByAnInterceptor() async throws {
        let server = try MockServer()
        let key = try MessageSignature.Key.ecdsaP256(pem: Vectors.eccPrivate)
        let plain = Data(#"{"a":1}"#.utf8)
        // The same in gzip. Content-Digest is that of the coded bytes (RFC 9530 §2).
        let coded = Data(base64Encoded: "H4sIAAAAAAACA6tWSlSyMqwFAK+sG1YHAAAA") ?? Data()
        let changed = Data(base64Encoded: "H4sIAAAAAAACA6tWSlSyMqoFAGz/Nn0HAAAA") ?? Data()
        server.fallback { request in
            guard request.target != "/unsigned" else { return .json("{}") }
            let isCoded = request.target.hasPrefix("/coded")
            let body = isCoded ? coded : plain
            let components = try MessageSignature.parsed([
                "@status", "content-digest", "@method;req", "signature;req;key=\"sig1\"",
            ])
            let digest = "sha-256=:\(try HTTPBody.Bytes(body).digest().base64EncodedString()):"
            var headers: HTTPHeaders = ["Content-Digest": digest]
            var parameters = StructuredField.Parameters()
            parameters["created"] = .integer(SealingCore.systemClock() / 1000)
            parameters["keyid"] = .string("s")
            let input = StructuredField.Member(.list(components.map(\.member)), parameters).text ?? ""
            let message = SignedMessage(
                request: HTTPRequest(request.method, server.url(request.target), headers: request.headers),
                response: (200, headers))
            let signature = try key.signature(of: message.signatureBase(components, input))
            headers["Signature-Input"] = "s=\(input)"
            headers["Signature"] = "s=:\(Data(signature).base64EncodedString()):"
            if isCoded { headers["Content-Encoding"] = "gzip" }
            switch request.target {
            case "/changed": return MockReply(headers: headers, body: .bytes(Data(#"{"a":2}"#.utf8)))
            case "/coded-changed": return MockReply(headers: headers, body: .bytes(changed))
            default: return MockReply(headers: headers, body: .bytes(body))
            }
        }
        let signer = try MessageSignature(key: .hmac(Vectors.secret), keyID: "k")
        let verifier = try MessageSignature.Verifier(
            keys: ["s": .ecdsaP256(pem: Vectors.eccPublic)], requires: ["@status", "content-digest", "@method;req"])
        let manager = try CentralRequestManager.make {
            $0.signer = signer
            $0.networkInterceptors = [verifier]
        }
        for path in ["/ok", "/coded"] {
            #expect(try await manager.startRequest("GET", server.url(path)).json()["a"].int == 1)
        }
        for path in ["/changed", "/coded-changed", "/unsigned"] {
            let error = await failure(of: { try await manager.startRequest("GET", server.url(path)) })
            #expect(error?.kind == .integrity)
        }
        // Only the engine can compare the bytes on the wire.
        var unchecked = HTTPRequest("GET", server.url("/coded"))
        unchecked.digests.checks = false
        let error = await failure { [unchecked] in try await manager.send(unchecked) }
        #expect(error?.kind == .integrity && error?.message.contains("digests.checks") == true)
    }

    @Test func otherSignaturesStay() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let signer = try MessageSignature(key: .hmac(Vectors.secret), keyID: "k", components: ["@method"])
        let manager = try CentralRequestManager.make { $0.signer = signer }
        _ = try await manager.startRequest(
            "GET", server.url(), headers: ["Signature-Input": "own=(\"date\");created=1", "Signature": "own=:AA==:"])
        let headers = try #require(server.requests.first).headers
        #expect(headers["Signature-Input"]?.hasPrefix("own=(\"date\");created=1, sig1=(\"@method\")") == true)
        #expect(headers["Signature"]?.hasPrefix("own=:AA==:, sig1=:") == true)
    }

    // MARK: What a verifier refuses

    @Test(arguments: [
        ("()", "names no key"), ("();keyid=\"x\"", "not among the verifier's"), ("();keyid=\"k\"", "when it was made"),
        ("();created=1;keyid=\"k\"", "s ago"), ("();created=9999999999;keyid=\"k\"", "in the future"),
        ("();created=NOW;keyid=\"k\";expires=NOW", "it expired"),
        ("();created=NOW;keyid=\"k\";alg=\"ed25519\"", "algorithm"),
        ("();created=NOW;keyid=\"k\"", "does not cover \"@method\""),
        ("(\"@method\");created=NOW;keyid=\"k\"", "does not fit"),
        ("(\"@nope\");created=NOW;keyid=\"k\"", "there is no component"), ("a", "no inner list"), ("(", "malformed"),
    ])
    func invalidSignatureIsRefused(_ input: String, _ words: String) throws {
        let verifier = try Self.verifier(["k": .hmac(Vectors.secret)], requires: ["@method"])
        let input = input.split(separator: "NOW", omittingEmptySubsequences: false).joined(separator: "\(Self.time)")
        let request = HTTPRequest(
            "GET", "http://a/", headers: ["Signature-Input": "s=\(input)", "Signature": "s=:AAAA:"])
        let error = #expect(throws: NetworkError.self) { try verifier.verify(request, body: Data()) }
        #expect(error?.kind == .integrity && error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    @Test func keyOfAnotherKindIsRefused() {
        #expect(throws: NetworkError.self) { try MessageSignature.Key.ed25519(pem: Vectors.eccPrivate) }
        #expect(throws: NetworkError.self) { try MessageSignature.Key.ecdsaP384(pem: Vectors.eccPrivate) }
        #expect(throws: NetworkError.self) { try MessageSignature.Key.rsaPKCS1(pem: Vectors.rsaPSSPrivate) }
        #expect(throws: NetworkError.self) { try MessageSignature.Key.rsaPSS(pem: "no key") }
        #expect(throws: NetworkError.self) { try MessageSignature.Key.hmac(Data(count: 15)) }
        let error = #expect(throws: NetworkError.self) {
            try MessageSignature(key: .ed25519(pem: Vectors.ed25519Public), keyID: "k")
        }
        #expect(error?.message.contains("give the private key") == true)
    }
}
