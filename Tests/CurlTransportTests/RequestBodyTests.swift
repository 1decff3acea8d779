import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct RequestBodyTests {
    @Test(arguments: ["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "GET"], [0, 1, 65_536, 65_537, 1 << 20])
    func bytesArriveUnchanged(method: String, size: Int) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            // A slice whose indices do not begin at 0.
            let data = MockPattern.bytes(in: 0..<Int64(size + 7)).dropFirst(7)
            _ = try await transport.answer(to: HTTPRequest(method, server.url(), body: .data(data)))
            let request = try #require(server.requests.first)
            #expect(request.method == method)
            #expect(request.body == Data(data))
            #expect(request.headers[values: "Content-Length"] == ["\(size)"])
            #expect(request.headers["Content-Type"] == nil)
            #expect(request.headers["Expect"] == nil)
            #expect(request.headers["Transfer-Encoding"] == nil)
        }
    }

    @Test(arguments: ["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "REPORT"])
    func missingBodySendsLengthZeroForSomeMethods(method: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: HTTPRequest(method, server.url()))
            let request = try #require(server.requests.first)
            #expect(request.method == method)
            let says = ["POST", "PUT", "PATCH"].contains(method)
            #expect(request.headers[values: "Content-Length"] == (says ? ["0"] : []))
            #expect(request.headers["Content-Type"] == nil)
            #expect(request.headers["Transfer-Encoding"] == nil)
        }
    }

    @Test(arguments: ["HEAD", "TRACE"])
    func bodyOfHeadOrTraceIsRefused(method: String) async throws {
        try await withTransport { transport async throws in
            let request = HTTPRequest(method, "http://127.0.0.1:1/", body: .text("x"))
            #expect(try await transport.failure(of: request).kind == .invalidRequest)
        }
    }

    /// Handles are reused; no setting of one request may leak into the next.
    @Test(arguments: 0..<3)
    func mixedRequestsShareOneConnection(seed: UInt64) async throws {
        let directory = try TemporaryDirectory()
        let large = MockPattern.bytes(in: 0..<100_000)
        let path = try directory.write(large, to: "large.bin")
        let server = try MockServer()
        server.fallback { $0.method == "HEAD" ? .status(200) : .text("\($0.method) \($0.bodyByteCount)") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            var random = SeededGenerator(seed: seed)
            for index in 0..<150 {
                let method =
                    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "ODD"].randomElement(using: &random) ?? ""
                var request = HTTPRequest(method, server.url("/\(index)"))
                var expected: Data? = Data()
                switch method == "HEAD" ? 0 : Int.random(in: 0..<6, using: &random) {
                case 1:
                    expected = Data("small \(index)".utf8)
                    request.body = .text("small \(index)")
                case 2:
                    expected = large
                    request.body = .data(large)
                case 3:
                    expected = large
                    request.body = .file(path)
                case 4:
                    expected = large + large
                    request.body = .stream {
                        AsyncStream {
                            $0.yield(large); $0.yield(large); $0.finish()
                        }
                    }
                case 5:
                    expected = nil
                    request.body = .multipart([UploadFile(name: "f", path: path)])
                default: break
                }
                if Bool.random(using: &random) { request.headers["X-Odd"] = "\(index)" }
                if Int.random(in: 0..<5, using: &random) == 0 {
                    request.authentication = .basic(user: "u", password: "p")
                }
                if Int.random(in: 0..<5, using: &random) == 0 { request.decompresses = false }
                if Int.random(in: 0..<5, using: &random) == 0 { request.timeout = .seconds(9) }
                _ = try await transport.answer(to: request)
                let got = try #require(server.requests.last)
                #expect(got.method == method)
                #expect(got.target == "/\(index)")
                #expect(got.headers["X-Odd"] == request.headers["X-Odd"])
                #expect((got.headers["Authorization"] != nil) == (request.authentication != nil))
                #expect((got.headers["Accept-Encoding"] != nil) == (request.decompresses != false))
                if let expected {
                    #expect(got.body == expected, "\(method) \(index)")
                } else {
                    #expect(try MultipartForm(got).parts.map(\.body) == [large])
                }
            }
            #expect(server.acceptedConnections == 1)
        }
    }

    @Test(arguments: [0, 1, 65_536, 3_000_000])
    func fileIsSentWithItsLengthAndType(size: Int64) async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: size, to: "a.txt")
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            _ = try await transport.answer(to: HTTPRequest("PUT", server.url(), body: .file(path)))
            let request = try #require(server.requests.first)
            #expect(request.body == MockPattern.bytes(in: 0..<size))
            #expect(request.headers["Content-Length"] == "\(size)")
            #expect(request.headers["Content-Type"] == "text/plain")
        }
    }

    @Test(arguments: ["missing", "directory", "device", "multipart", "empty path"])
    func unreadableFileFailsBeforeConnecting(kind: String) async throws {
        let directory = try TemporaryDirectory()
        let missing = directory.path(of: "missing")
        let body: HTTPBody =
            switch kind {
            case "missing": .file(missing)
            case "directory": .file(directory.path)
            case "device": .file("/dev/zero")
            case "multipart": .multipart([UploadFile(name: "ok", value: "x"), UploadFile(name: "f", path: missing)])
            default: .file("")
            }
        let server = try MockServer()
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("POST", server.url(), body: body))
            #expect(error.kind == .requestBody)
            #expect(error.message.contains("cannot be sent"))
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test(arguments: [false, true])
    func fileThatShrinksFailsTheRequest(inMultipart: Bool) async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 32 << 20, to: "big")
        let server = try MockServer()
        server.bodyLimit = 0
        server.bodyReadRate = 0
        try await withTransport { transport async throws in
            let body: HTTPBody = inMultipart ? .multipart([UploadFile(name: "f", path: path)]) : .file(path)
            let hasBegun = Event()
            let owner = TestOwner { _ in hasBegun.happen() }
            let request = HTTPRequest("PUT", server.url(), body: body)
            let task = Task { try await transport.send(request, for: owner) }
            await hasBegun.wait()
            #expect(truncate(path, 100) == 0)
            server.bodyReadRate = nil
            let error = await #expect(throws: NetworkError.self) { try await within { try await task.value } }
            #expect(error?.kind == .requestBody)
            #expect(error?.message.contains("shorter") == true)
            try await server.waitUntilDisconnected()
            #expect(server.requestCount == 0)
        }
    }

    @Test func earlyResponseIsAccepted() async throws {
        let server = try MockServer()
        server.enqueue(.text("too much", status: 413).beforeRequestBody().closingConnection())
        server.fallback { _ in .text("next") }
        try await withTransport { transport async throws in
            let body = HTTPBody.data(Data(count: 32 << 20))
            do {
                let response = try await transport.answer(to: HTTPRequest("POST", server.url(), body: body))
                #expect(response.status == 413)
            } catch let error as NetworkError {
                // The reset that follows may arrive before the response.
                #expect(error.kind == .connectionLost)
            }
            #expect(try await transport.get(server.url()).text == "next")
        }
    }

    /// When the expectation is refused (417), the request is sent again without it (RFC 9110 §10.1.1).
    @Test(arguments: ["continue", "refuse", "ignore"], ["bytes", "data", "chunks"])
    func bodyIsSentWhateverAnswersExpect(policy: String, kind: String) async throws {
        let server = try MockServer()
        server.expectPolicy = policy == "continue" ? .continue : policy == "refuse" ? .refuse : .ignore
        server.fallback { .text("\($0.bodyByteCount)") }
        try await withTransport { transport async throws in
            let data = MockPattern.bytes(in: 0..<(kind == "bytes" ? 10 : 200_000))
            let chunks = HTTPBody.stream {
                AsyncStream {
                    $0.yield(data)
                    $0.finish()
                }
            }
            let body = kind == "chunks" ? chunks : HTTPBody.data(data)
            for isStreamed in [false, true] {
                let request = HTTPRequest("POST", server.url(), headers: ["Expect": "100-continue"], body: body).with {
                    $0.streamsBody = isStreamed
                }
                let response = try await transport.answer(to: request)
                #expect(response.status == 200)
                #expect(try await response.body.collect(upTo: 100) == Data("\(data.count)".utf8))
                #expect(server.requests.last?.body == data)
            }
        }
    }

    @Test func unencodableValueIsRefused() async throws {
        struct Reading: Encodable { let degrees: Double }
        try await withTransport { transport async throws in
            let request = HTTPRequest("POST", "http://127.0.0.1:1/", body: .json(Reading(degrees: .nan)))
            let error = try await transport.failure(of: request)
            #expect(error.kind == .invalidRequest)
            #expect(error.message.hasSuffix("does not encode: degrees: nan is not a number in JSON"))
            // The text of Foundation's encoder has no path.
            let other = HTTPRequest(
                "POST", "http://127.0.0.1:1/", body: .json([Reading(degrees: .nan)], encoder: JSONEncoder()))
            let message = try await transport.failure(of: other).message
            #expect(message.contains("does not encode: [0].degrees: "), "\(message)")
        }
    }
}
