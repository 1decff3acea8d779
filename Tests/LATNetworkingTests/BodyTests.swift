import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct BodyTests {
    private struct Secret: Encodable, Sendable {
        let password = "hunter2"

        func encode(to encoder: any Encoder) throws {
            throw EncodingError.invalidValue(
                self, .init(codingPath: encoder.codingPath, debugDescription: "it is locked"))
        }
    }

    private func server() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .status(204) }
        return server
    }

    @Test func callersContentTypeWins() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        let url = server.url("/")
        let headers: HTTPHeaders = ["content-type": "application/vnd.api+json"]
        _ = try await manager.startRequest("POST", url, parameters: ["a": 1], headers: headers)
        _ = try await manager.startRequest("POST", url, parameters: ["a": 1], body: .form, headers: headers)
        _ = try await manager.startRequest("POST", url, body: .json(["a": 1]), headers: headers)
        _ = try await manager.startRequest("POST", url, body: .data(Data([1]), contentType: "a/b"), headers: headers)
        _ = try await manager.startRequest("POST", url, body: .text("x"), headers: headers)
        for request in server.requests {
            #expect(request.headers[values: "Content-Type"] == ["application/vnd.api+json"])
        }
        #expect(server.requestCount == 5)
    }

    @Test func nilContentTypeIsNotSent() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        _ = try await manager.startRequest(
            "POST", server.url("/"), parameters: ["a": 1], headers: ["Content-Type": nil])
        #expect(server.requests.first?.headers["Content-Type"] == nil)
    }

    @Test(arguments: [
        nil, "multipart/form-data", "multipart/form-data; boundary=mine", "multipart/related; boundary=\"mine\"",
    ])
    func multipartBoundaryMatchesTheBody(_ contentType: String?) async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        let headers: HTTPHeaders = contentType.map { ["Content-Type": $0] } ?? [:]
        _ = try await manager.startRequest(
            "POST", server.url(), files: [UploadFile(name: "a", value: "1")], headers: headers)
        let request = try #require(server.requests.first)
        let types = request.headers[values: "Content-Type"]
        #expect(types.count == 1)
        let type = try #require(types.first)
        #expect(type.hasPrefix(contentType?.split(separator: ";").first.map(String.init) ?? "multipart/form-data"))
        // Given two boundaries, a server uses the first.
        let boundaries = type.split(separator: ";").filter { $0.contains("boundary=") }
        #expect(boundaries.count == 1, "\(type)")
        let boundary = boundaries.last?.split(separator: "=").last.map { $0.filter { $0 != "\"" } } ?? ""
        #expect(request.text.hasPrefix("--\(boundary)\r\n"), "\(type)")
        #expect(request.text.hasSuffix("--\(boundary)--\r\n"), "\(type)")
    }

    /// A default `Content-Type` of the manager must not replace the one that names the boundary.
    @Test func managersContentTypeDoesNotBreakUploads() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make { $0.headers = ["Content-Type": "application/json"] }
        _ = try await manager.startRequest("POST", server.url(), files: [UploadFile(name: "a", value: "1")])
        let type = server.requests.first?.headers["Content-Type"]
        #expect(type?.hasPrefix("multipart/form-data; boundary=") == true, "\(type ?? "none")")
    }

    @Test func parametersBecomeFormFieldsWithFiles() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        _ = try await manager.startRequest(
            "POST", server.url("/"), parameters: ["b": 2, "a": ["x", "y"], "null": JSONValue.null, "gone": nil],
            files: [UploadFile(name: "f", fileName: "f.bin", data: Data([0xFF]))])
        let request = try #require(server.requests.first)
        #expect(request.target == "/")
        let names = String(decoding: request.body, as: UTF8.self).split(separator: "\r\n")
            .filter { $0.hasPrefix("Content-Disposition: form-data; ") }
            .map { $0.dropFirst("Content-Disposition: form-data; ".count) }
        #expect(
            names == [
                "name=\"a[]\"", "name=\"a[]\"", "name=\"b\"", "name=\"null\"", "name=\"f\"; filename=\"f.bin\"",
            ])
    }

    @Test func filesAreAddedToAMultipartBody() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        _ = try await manager.startRequest(
            "PATCH", server.url("/"), parameters: ["p": 1], files: [UploadFile(name: "second", value: "2")],
            body: .multipart([UploadFile(name: "first", value: "1")]))
        let text = try #require(server.requests.first?.text)
        let order = ["name=\"p\"", "name=\"first\"", "name=\"second\""].map { text.firstRange(of: $0)?.lowerBound }
        #expect(order.allSatisfy { $0 != nil })
        #expect(order.compactMap { $0 } == order.compactMap { $0 }.sorted())
    }

    @Test(arguments: ["GET", "HEAD", "get"])
    func filesWithGetOrHeadAreRefused(_ method: String) async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        let error = await failure {
            try await manager.startRequest(method, server.url("/"), files: [UploadFile(name: "a", value: "1")])
        }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("files") == true)
        #expect(server.acceptedConnections == 0)
    }

    @Test func filesBesideAnotherBodyAreRefused() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        for body in [HTTPBody.text("x"), .json(["a": 1]), .file("/dev/null")] {
            let error = await failure {
                try await manager.startRequest(
                    "POST", server.url("/"), files: [UploadFile(name: "a", value: "1")], body: body)
            }
            #expect(error?.kind == .invalidRequest)
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test(arguments: ["HEAD", "TRACE"])
    func bodyWithHeadOrTraceIsRefused(_ method: String) async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest(method, server.url("/"), body: .text("x")) }
        #expect(error?.kind == .invalidRequest)
        #expect(server.acceptedConnections == 0)
    }

    @Test func missingFileFailsBeforeSending() async throws {
        let server = try server()
        let directory = try TemporaryDirectory()
        let manager = try CentralRequestManager.make()
        let path = directory.path(of: "absent.txt")
        for (files, body) in [([UploadFile(name: "a", path: path)], nil), ([], HTTPBody.file(path))] {
            let error = await failure {
                try await manager.startRequest("POST", server.url("/"), files: files, body: body)
            }
            #expect(error?.kind == .requestBody)
            #expect(error?.message.contains("absent.txt") == true)
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func encodingErrorDoesNotShowTheValue() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("POST", server.url("/"), body: .json(Secret())) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("it is locked") == true)
        #expect(error.map { "\($0)" }?.contains("hunter2") == false)
        #expect(server.acceptedConnections == 0)
    }

    @Test func partNamesAreEscaped() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make()
        _ = try await manager.startRequest(
            "POST", server.url("/"),
            files: [UploadFile(name: "a\"\r\nX: 1", fileName: "naïve \"q\"\r\n.txt", data: Data("x".utf8))])
        let text = try #require(server.requests.first?.text)
        #expect(!text.contains("\r\nX: 1"))
        #expect(text.contains("name=\"a%22%0D%0AX: 1\"; filename=\"naïve %22q%22%0D%0A.txt\""))
    }

    @Test func largeBodyOfEveryKindArrivesWhole() async throws {
        let server = try server()
        let directory = try TemporaryDirectory()
        let size: Int64 = 3_000_000
        let path = try directory.writePattern(byteCount: size, to: "big.bin")
        let manager = try CentralRequestManager.make()
        let url = server.url("/")
        let bytes = MockPattern.bytes(in: 0..<size)
        _ = try await manager.startRequest("PUT", url, body: .data(bytes))
        _ = try await manager.startRequest("PUT", url, body: .file(path))
        let chunks = AsyncStream<Data> { continuation in
            for start in stride(from: 0, to: size, by: 100_000) {
                continuation.yield(MockPattern.bytes(in: start..<min(size, start + 100_000)))
            }
            continuation.finish()
        }
        _ = try await manager.startRequest("PUT", url, body: .stream(chunks, length: size))
        #expect(server.requests.map(\.bodyByteCount) == [size, size, size])
        for request in server.requests { #expect(MockPattern.firstMismatch(in: request.body, at: 0) == nil) }
    }

    @Test(.needsHTTPBin)
    func httpbinReadsAMultipartUpload() async throws {
        let base = try #require(Servers.httpbin)
        let manager = try CentralRequestManager.make { $0.baseURL = base }
        let response = try await manager.startRequest(
            "POST", "post", parameters: ["title": "Über"],
            files: [UploadFile(name: "doc", fileName: "a.txt", data: Data("inside".utf8))])
        #expect(try response.json()["form"]["title"].string == "Über")
        #expect(try response.json()["files"]["doc"].string == "inside")
    }

    @Test(.needsHTTPBin)
    func httpbinAcceptsCredentials() async throws {
        let base = try #require(Servers.httpbin)
        let manager = try CentralRequestManager.make { $0.baseURL = base }
        for (path, authentication) in [
            ("basic-auth/u/p", Authentication.basic(user: "u", password: "p")),
            ("digest-auth/auth/u/p", .digest(user: "u", password: "p")),
            ("digest-auth/auth/u/p", .any(user: "u", password: "p")), ("bearer", .bearer(token: "t")),
        ] {
            var request = HTTPRequest("GET", path)
            request.authentication = authentication
            #expect(try await manager.send(request).status == 200)
        }
        #expect(try await manager.send(HTTPRequest("GET", "basic-auth/u/p")).status == 401)
    }
}
