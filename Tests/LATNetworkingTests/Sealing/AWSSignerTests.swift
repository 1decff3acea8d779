import FoundationEssentials
import LATTesting
import Testing

@testable import LATClient
@testable import LATSealing
@testable import LATTransfers

/// Requests from Amazon's published test suite for Signature Version 4, and the `iam` example of its guide.
@Suite(.timeLimit(.minutes(1))) struct AWSSignerTests {
    private func signer(service: String = "service", token: String? = nil) throws -> AWSSigner {
        var signer = try AWSSigner(
            accessKeyID: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            sessionToken: token, region: "us-east-1", service: service)
        signer.clock = { 1_440_938_160 }
        return signer
    }

    private func signature(_ request: HTTPRequest, service: String = "service") async throws -> (String, String) {
        var data = Data()
        if case .data(let bytes) = request.body?.content { data = bytes }
        let headers = try await signer(service: service).sign(request, bodyDigest: CanonicalRequest.digest(of: data))
        #expect(headers["X-Amz-Date"] == "20150830T123600Z")
        let text = try #require(headers["Authorization"])
        let parts = text.split(separator: ", ").map {
            $0.split(separator: "=", maxSplits: 1).last.map(String.init) ?? ""
        }
        #expect(text.hasPrefix("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/\(service)/aws4_request, "))
        return (parts[1], parts[2])
    }

    @Test(arguments: [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("GET", "/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
        ("GET", "/?ሴ=bar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
    ])
    func suiteRequestHasTheExpectedSignature(method: String, target: String, expected: String) async throws {
        let request = HTTPRequest(method, "https://example.amazonaws.com" + target)
        let (names, signature) = try await signature(request)
        #expect(names == "host;x-amz-date" && signature == expected)
    }

    /// The order is that of names, then values; the expected signature was computed apart from this package.
    @Test(arguments: ["/?page=1&page-size=10", "/?page-size=10&page=1"])
    func queryIsSignedInTheOrderOfItsNames(target: String) async throws {
        let (_, signature) = try await signature(HTTPRequest("GET", "https://example.amazonaws.com" + target))
        #expect(signature == "cbdd8f9f566f29835c79703328118306820c8c917cd8e85e6ac32443b4ff52eb")
    }

    /// The expected signature was computed apart from this package.
    @Test func queryThatIsNoTextIsSigned() async throws {
        let (_, signature) = try await signature(HTTPRequest("GET", "https://example.amazonaws.com/?a=%ff%00"))
        #expect(signature == "4d3d37a9ea1ecafdb1185b7ee5cf9f8d093554ac37364d56fc38f36cd2b8ceac")
    }

    @Test func suiteFormHasTheExpectedSignature() async throws {
        var request = HTTPRequest("POST", "https://example.amazonaws.com/")
        request.body = .data(Data("Param1=value1".utf8), contentType: "application/x-www-form-urlencoded")
        let (names, signature) = try await signature(request)
        #expect(names == "content-type;host;x-amz-date")
        #expect(signature == "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a")
    }

    @Test func guideExampleHasTheExpectedSignature() async throws {
        let request = HTTPRequest(
            "GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
            headers: ["Content-Type": "application/x-www-form-urlencoded; charset=utf-8"])
        let (names, signature) = try await signature(request, service: "iam")
        #expect(names == "content-type;host;x-amz-date")
        #expect(signature == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")
    }

    @Test func sentRequestIsSigned() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("abc".utf8), to: "a.txt")
        let signer = try signer(service: "s3", token: "token")
        let manager = try CentralRequestManager.make { $0.signer = signer }
        _ = try await manager.startRequest("PUT", server.url("/bucket/a b"), body: .file(path))
        _ = try await manager.startRequest("POST", server.url("/"), files: [UploadFile(name: "a", path: path)])
        let put = try #require(server.requests.first)
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(put.headers["X-Amz-Content-Sha256"] == digest && put.headers["X-Amz-Security-Token"] == "token")
        let names = "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
        #expect(put.headers["Authorization"]?.contains("SignedHeaders=\(names), ") == true)
        #expect(server.requests[1].headers["X-Amz-Content-Sha256"] == "UNSIGNED-PAYLOAD")
    }

    @Test func invalidKeyIDOrRegionIsRefused() {
        #expect(throws: NetworkError.self) {
            try AWSSigner(accessKeyID: "a b", secretAccessKey: "s", region: "r", service: "s")
        }
        #expect(throws: NetworkError.self) {
            try AWSSigner(accessKeyID: "a", secretAccessKey: "s", region: "", service: "s")
        }
    }
}
