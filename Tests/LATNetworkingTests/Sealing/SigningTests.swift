import Cryptography
import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing
@testable import LATTransfers

@Suite(.timeLimit(.minutes(1))) struct SigningTests {
    private static let key = Data("0123456789abcdef0123456789abcdef".utf8)

    private func signer(_ fields: [String] = ["Content-Type", "X-Tenant"]) throws -> HMACSigner {
        var signer = try HMACSigner(keyID: "app-7", key: Self.key, fields: fields)
        signer.clock = { 1_767_225_600 }
        return signer
    }

    @Test func canonicalTextIsAsDocumented() throws {
        var request = HTTPRequest(
            "POST", "HTTPS://API.Example.org:443/v1/ö rders?page=2#x", headers: ["X-Tenant": " 7 ", "x-other": "no"])
        request.headers.append("X-Tenant", "8")
        request.body = .data(Data("x".utf8), contentType: "application/json")
        let text = CanonicalRequest(
            request, fields: ["content-type", "x-none", "x-tenant"], time: 12, nonce: "ab", digest: "cd")
        #expect(
            text.description == """
                LAT-HMAC-SHA256
                POST
                /v1/%C3%B6%20rders?page=2
                api.example.org
                12
                ab
                content-type:application/json
                x-tenant:7,8
                cd
                """)
    }

    @Test func zoneOfAnAddressIsNotSigned() {
        #expect(HTTPRequest("GET", "http://[fe80::1%25eth0]:8080/").wireHost == "[fe80::1]:8080")
        #expect(HTTPRequest("GET", "https://[fe80::1%25eth0]/").wireHost == "[fe80::1]")
    }

    @Test func signatureIsTheHMACOfTheText() async throws {
        let request = HTTPRequest("GET", "http://127.0.0.1:8080")
        let digest = try #require(CanonicalRequest.digest(of: Data()))
        let headers = try await signer().sign(request, bodyDigest: digest)
        let nonce = try #require(headers["X-Signature-Nonce"])
        #expect(nonce.count == 32 && headers["X-Signature-Key"] == "app-7" && headers["X-Signature-Fields"] == "")
        #expect(digest == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        let text = "LAT-HMAC-SHA256\nGET\n/\n127.0.0.1:8080\n1767225600\n\(nonce)\n\(digest)"
        let expected = Data(try MessageDigest.hmac(Data(text.utf8), key: Self.key)).base64EncodedString()
        #expect(headers["X-Signature"] == expected)
        #expect(try await signer().sign(request, bodyDigest: digest)["X-Signature-Nonce"] != nonce)
    }

    @Test func everySentRequestVerifies() async throws {
        let server = try MockServer()
        let directory = try TemporaryDirectory()
        server.fallback { _ in .json("{}") }
        let signer = try signer()
        let manager = try CentralRequestManager.make {
            $0.signer = signer
            $0.headerProvider = { _ in ["X-Tenant": "7"] }
        }
        let path = try directory.writePattern(byteCount: 700_000, to: "a.bin")
        let chunks = AsyncStream<Data> {
            $0.yield(Data("chunk".utf8))
            $0.finish()
        }
        _ = try await manager.startRequest("GET", server.url("/a b"), parameters: ["q": "ü"])
        _ = try await manager.startRequest("POST", server.url("/x"), parameters: ["a": 1])
        _ = try await manager.startRequest("POST", server.url("/x"), body: .json(["a": 1]))
        _ = try await manager.startRequest("PUT", server.url("/x"), body: .file(path))
        _ = try await manager.startRequest("POST", server.url("/x"), body: .stream(chunks))
        _ = try await manager.startRequest("POST", server.url("/x"), files: [UploadFile(name: "a", path: path)])
        let requests = server.requests
        #expect(requests.count == 6)
        for request in requests {
            #expect(
                signer.verifies(
                    method: request.method, target: request.target, headers: request.headers, body: request.body),
                "\(request)")
        }
        // The multipart boundary is not known when the request is signed, so its `Content-Type` is not signed.
        let typed = requests.dropLast().map { $0.headers["Content-Type"] != nil } + [false]
        #expect(
            requests.map { $0.headers["X-Signature-Fields"] }
                == typed.map { $0 ? "content-type;x-tenant" : "x-tenant" })
        #expect(typed[1] && typed[2] && !typed[0])
        #expect(requests.suffix(2).allSatisfy { $0.headers["X-Signature-Body"] == "UNSIGNED" })
        #expect(Set(requests.map { $0.headers["X-Signature-Nonce"] }).count == 6)
    }

    @Test func changedRequestDoesNotVerify() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let signer = try signer()
        let manager = try CentralRequestManager.make { $0.signer = signer }
        _ = try await manager.startRequest(
            "POST", server.url("/x?a=1"), body: .text("body"), headers: ["X-Tenant": "7"])
        let request = try #require(server.requests.first)
        func verifies(
            method: String = "POST", target: String = "/x?a=1", body: String = "body",
            _ change: (inout HTTPHeaders) -> Void = { _ in }
        ) -> Bool {
            var headers = request.headers
            change(&headers)
            return signer.verifies(method: method, target: target, headers: headers, body: Data(body.utf8))
        }
        #expect(verifies())
        #expect(!verifies(method: "PUT") && !verifies(target: "/x?a=2") && !verifies(body: "bodY"))
        #expect(!verifies { $0["X-Tenant"] = "8" } && !verifies { $0["Host"] = "evil.example" })
        #expect(!verifies { $0["X-Signature-Time"] = "1767225601" } && !verifies { $0["X-Signature-Nonce"] = "00" })
        #expect(!verifies { $0["X-Signature-Fields"] = "" } && !verifies { $0["X-Signature-Body"] = "UNSIGNED" })
        #expect(!verifies { $0["X-Signature"] = "AAAA" } && !verifies { $0.removeAll { $0 == "X-Signature" } })
        let other = try HMACSigner(keyID: "app-7", key: Data(count: 32), fields: [])
        #expect(
            !other.verifies(method: "POST", target: "/x?a=1", headers: request.headers, body: Data("body".utf8)))
    }

    @Test func sealedRequestIsSigned() async throws {
        let server = try MockServer()
        let key = Data(repeating: 1, count: 32)
        let peer = SealingPeer(try AESGCMSealer(keys: ["k": key], current: "k"))
        let signer = try signer()
        server.fallback { request in
            guard
                signer.verifies(
                    method: request.method, target: request.target, headers: request.headers, body: request.body),
                let message = try? peer.open(
                    method: request.method, target: request.target, headers: request.headers, body: request.body),
                let reply = try? peer.seal(Data("ok".utf8), status: 200, to: message)
            else { return .status(400) }
            return MockReply(headers: reply.headers, body: .bytes(reply.body))
        }
        let sealer = try AESGCMSealer(keys: ["k": key], current: "k")
        let manager = try CentralRequestManager.make {
            $0.signer = signer
            $0.sealer = sealer
        }
        #expect(try await manager.startRequest("POST", server.url(), parameters: ["a": 1]).text == "ok")
        #expect(try await manager.startRequest("GET", server.url("/?a=1")).text == "ok")
        #expect(server.requests.allSatisfy { $0.headers["X-Signature"] != nil })
    }

    @Test func invalidKeyOrFieldIsRefused() {
        for (id, key, fields) in [
            ("a", Data(count: 15), []), ("", Data(count: 32), []), ("a b", Data(count: 32), []),
            ("a", Data(count: 32), ["x y"]),
        ] as [(String, Data, [String])] {
            #expect(throws: NetworkError.self) { try HMACSigner(keyID: id, key: key, fields: fields) }
        }
    }

    @Test func throwingSignerFailsTheCall() async throws {
        struct Broken: RequestSigner {
            struct Lost: Error {}
            func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders { throw Lost() }
        }
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.signer = Broken() }
        let error = await failure(of: { try await manager.startRequest("GET", server.url()) })
        #expect(error?.kind == .provider && error?.underlying is Broken.Lost && server.acceptedConnections == 0)
    }

    @Test(arguments: [true, false]) func unencodableBodyIsAnInvalidRequest(isSealed: Bool) async throws {
        struct Reading: Encodable { let degrees: Double }
        let server = try MockServer()
        let signer = try signer()
        let sealer = try AESGCMSealer(keys: ["k": Self.key], current: "k")
        let manager = try CentralRequestManager.make {
            $0.signer = signer
            $0.sealer = isSealed ? sealer : nil
        }
        let error = await failure(of: {
            try await manager.startRequest("POST", server.url(), body: .json(Reading(degrees: .nan)))
        })
        #expect(error?.kind == .invalidRequest && error?.message.contains("does not encode: degrees: nan") == true)
        #expect(server.acceptedConnections == 0)
    }
}
