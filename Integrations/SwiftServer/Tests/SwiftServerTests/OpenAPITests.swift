import FoundationEssentials
import HTTPTypes
import LATInspect
import LATNetworking
import LATOpenAPITransport
import LATTesting
@_spi(Generated) import OpenAPIRuntime
import Synchronization
import Testing

/// A client in the shape of swift-openapi-generator's, for four operations of httpbin.
struct Client: Sendable {
    let client: UniversalClient

    init(serverURL: URL, transport: any ClientTransport) {
        client = UniversalClient(serverURL: serverURL, configuration: .init(), transport: transport)
    }

    init(_ manager: CentralRequestManager, _ base: String) throws {
        self.init(serverURL: try #require(URL(string: base)), transport: ManagerTransport(manager))
    }

    enum Answer: Sendable {
        case ok(OpenAPIRuntime.HTTPBody?)
        case undocumented(statusCode: Int, UndocumentedPayload)
    }

    private func call(
        _ id: String, _ method: HTTPTypes.HTTPRequest.Method, _ path: String, body: OpenAPIRuntime.HTTPBody? = nil
    ) async throws -> Answer {
        try await client.send(
            input: body, forOperation: id,
            serializer: { input in
                var request = HTTPTypes.HTTPRequest(soar_path: path, method: method)
                guard let input else { return (request, nil) }
                let body = try client.converter.setRequiredRequestBodyAsBinary(
                    input, headerFields: &request.headerFields, contentType: "application/octet-stream")
                return (request, body)
            },
            deserializer: { response, body in
                guard response.status.code == 200 else {
                    return .undocumented(
                        statusCode: response.status.code, .init(headerFields: response.headerFields, body: body))
                }
                return .ok(body)
            })
    }

    func status(_ code: Int) async throws -> Answer { try await call("getStatus", .get, "/status/\(code)") }
    func stream(_ count: Int) async throws -> Answer { try await call("stream", .get, "/stream/\(count)") }
    func cached(_ seconds: Int) async throws -> Answer { try await call("getCache", .get, "/cache/\(seconds)") }
    func post(_ body: OpenAPIRuntime.HTTPBody) async throws -> Answer {
        try await call("postAnything", .post, "/post", body: body)
    }
    func path(_ path: String) async throws -> Answer { try await call("get", .get, path) }
}

extension Client.Answer {
    func bytes() async throws -> [UInt8] {
        guard case .ok(let body?) = self else { return [] }
        return try await [UInt8](collecting: body, upTo: 16 << 20)
    }
}

@Suite(.timeLimit(.minutes(1))) struct OpenAPITests {
    @Test(.enabled(if: httpbin != nil, "needs LAT_TEST_HTTPBIN")) func httpbinGetsAndSendsStreams() async throws {
        let client = try Client(.make { _ in }, httpbin ?? "")
        let chunks = (0..<64).map { [UInt8](repeating: UInt8(ascii: "a") + UInt8($0 % 26), count: 1_024) }
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        for chunk in chunks { continuation.yield(chunk) }
        continuation.finish()
        let body = OpenAPIRuntime.HTTPBody(stream, length: .known(65_536), iterationBehavior: .single)
        let echo = try JSONValue(parsing: Data(try await client.post(body).bytes()))
        #expect(echo["data"].string == String(decoding: chunks.joined(), as: UTF8.self))
        #expect(echo["headers"]["Content-Type"].string == "application/octet-stream")
        #expect(echo["headers"]["Content-Length"].string == "65536")
        guard case .ok(let body?) = try await client.stream(20) else { throw CancellationError() }
        var lines = 0
        for try await chunk in body { lines += chunk.count { $0 == 10 } }
        #expect(lines == 20)
    }

    @Test(.enabled(if: httpbin != nil, "needs LAT_TEST_HTTPBIN")) func everyStatusReachesTheClient() async throws {
        let client = try Client(.make { $0.retryPolicy.retries = 0 }, httpbin ?? "")
        for code in [201, 404, 418, 500] {
            guard case .undocumented(let status, _) = try await client.status(code) else { throw CancellationError() }
            #expect(status == code)
        }
    }

    @Test(.enabled(if: httpbin != nil, "needs LAT_TEST_HTTPBIN")) func cacheOfTheManagerAnswers() async throws {
        let sources = Sources()
        let client = try Client(
            .make {
                $0.cachePolicy = .http
                $0.cacheStorage = .memory
                $0.accessories = [sources]
            }, httpbin ?? "")
        let first = try await client.cached(60).bytes()
        #expect(!first.isEmpty)
        // A streamed response is stored after it was read.
        try await eventually {
            let next = try? await client.cached(60).bytes()
            return next == first && sources.all.last == .memoryCache
        }
    }

    @Test func bodyOfUnknownLengthIsChunked() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("early") }
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        let client = try Client(.make { _ in }, server.baseURL)
        let answer = Task {
            try await client.post(
                OpenAPIRuntime.HTTPBody(stream, length: .unknown, iterationBehavior: .single)
            ).bytes()
        }
        for _ in 0..<4 { continuation.yield([1, 2, 3]) }
        continuation.finish()
        #expect(try await answer.value == Array("early".utf8))
        #expect(server.requests.first?.body == Data([1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]))
        #expect(server.requests.first?.headers["Transfer-Encoding"] == "chunked")
    }

    @Test func repeatableBodyIsSentAgain() async throws {
        let server = try MockServer()
        server.enqueue(.redirect(to: "/again", status: 307))
        server.fallback { _ in .text("done") }
        let client = try Client(.make { _ in }, server.baseURL)
        #expect(try await client.post(OpenAPIRuntime.HTTPBody([1, 2, 3])).bytes() == Array("done".utf8))
        #expect(server.requests.map(\.body) == [Data([1, 2, 3]), Data([1, 2, 3])])
    }

    @Test func limitsAndRetriesApply() async throws {
        let server = try MockServer()
        server.enqueue(.status(503))
        server.fallback { _ in .text("a") }
        let client = try Client(.make { $0.limits.maxConcurrentRequests = 1 }, server.url("/v1/"))
        #expect(try await client.path("/a").bytes() == Array("a".utf8))
        #expect(server.requests.map(\.path) == ["/v1/a", "/v1/a"])
    }

    @Test func cassetteReplaysTheClient() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"a":1}"#) }
        let folder = FileManager.default.temporaryDirectory.appending(path: "lat-\(UInt64.random(in: 0 ... .max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "openapi.yaml").path
        for mode in [Cassette.Mode.new, .none] {
            let cassette = try Cassette(path, mode: mode)
            let client = try Client(.make { $0.transport = cassette }, server.baseURL)
            #expect(try await client.path("/a").bytes() == Array(#"{"a":1}"#.utf8))
            try cassette.eject()
            server.stop()
        }
    }
}

private final class Sources: RequestAccessory {
    private let list = Mutex<[LATNetworking.HTTPResponse.Source]>([])
    var all: [LATNetworking.HTTPResponse.Source] { list.withLock { $0 } }

    func willFinish(_ call: ObservedCall, _ result: Result<LATNetworking.HTTPResponse, NetworkError>) {
        if case .success(let response) = result { list.withLock { $0.append(response.source) } }
    }
}
