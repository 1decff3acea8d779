import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// nghttpd on a port of its own, which it keeps across restarts.
private final class Nghttpd: Sendable {
    static let fileSize = 10 << 20

    private let reserved: ReservedPort
    private let directory: TemporaryDirectory
    private let options: [String]
    private let isSecure: Bool
    private let process: Box<ChildProcess>

    /// Serves `/file`, a pattern of 10 MiB, and by default echoes what is posted.
    init(_ options: [String] = ["--echo-upload"], isSecure: Bool = true) async throws {
        directory = try TemporaryDirectory()
        try directory.writePattern(byteCount: Int64(Self.fileSize), to: "file")
        reserved = try ReservedPort()
        self.options = options
        self.isSecure = isSecure
        process = Box(try Self.start(options, isSecure, reserved.port, directory))
        try await process.value.awaitListener(on: reserved.port)
    }

    private static func start(
        _ options: [String], _ isSecure: Bool, _ port: Int, _ directory: TemporaryDirectory
    ) throws -> ChildProcess {
        let certificates = try #require(TestCertificates.shared)
        return try ChildProcess(
            "nghttpd",
            ["--address=127.0.0.1", "--htdocs=\(directory.path)"] + options
                + (isSecure
                    ? ["\(port)", certificates.path("server.key"), certificates.path("server.crt")]
                    : ["--no-tls", "\(port)"]))
    }

    /// Kills the server at once, even while it is sending.
    func end() async throws {
        try await process.value.kill(listeningOn: reserved.port)
    }

    /// Waits until this many streams were opened, which `--verbose` prints.
    func awaitStreams(_ count: Int) async throws {
        try await process.value.awaitOutput("\(count) streams") { output in
            output.split(separator: "\n").count { $0.hasSuffix("; Open new stream") } >= count ? () : nil
        }
    }

    func startAgain() async throws {
        let next = try Self.start(options, isSecure, reserved.port, directory)
        process.change { $0 = next }
        try await next.awaitListener(on: reserved.port)
    }

    func request(_ method: String = "GET", _ path: String = "/file", body: HTTPBody? = nil) -> HTTPRequest {
        let url = (isSecure ? "https://localhost:" : "http://127.0.0.1:") + "\(reserved.port)\(path)"
        return HTTPRequest(method, url, body: body).with { if !isSecure { $0.version = .http2PriorKnowledge } }
    }
}

/// HTTP/2 against nghttpd, the server of nghttp2.
@Suite(.needs("nghttpd"), .needsOpenSSL)
struct NghttpdTests {
    private func configuration() -> EngineConfiguration {
        testConfiguration { $0.tls.caFile = TestCertificates.shared?.authority }
    }

    /// The uploads end only when the server has seen all their heads, so they all run concurrently.
    @Test func streamsShareOneConnection() async throws {
        let server = try await Nghttpd(["--echo-upload", "--verbose"])
        let allAreOpen = Event()
        let body = HTTPBody.stream {
            AsyncStream<Data> { stream in
                stream.yield(Data("first ".utf8))
                Task {
                    await allAreOpen.wait()
                    stream.yield(Data("second".utf8))
                    stream.finish()
                }
            }
        }
        try await withTransport(configuration()) { transport async throws in
            #expect(try await transport.answer(to: server.request()).version == .http2)
            try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for _ in 0..<64 {
                    group.addTask { try await transport.answer(to: server.request("POST", "/", body: body)) }
                }
                defer { allAreOpen.happen() }
                try await server.awaitStreams(1 + 64)
                allAreOpen.happen()
                for try await response in group {
                    #expect(response.version == .http2)
                    #expect(response.text == "first second")
                }
            }
            #expect(await transport.gauges.sockets == 1)
        }
    }

    /// Padding, small windows and a missing length do not change the bodies.
    @Test(arguments: [
        [], ["--padding=255"], ["--window-bits=15", "--connection-window-bits=16"], ["--no-content-length"],
    ])
    func largeBodiesArriveInBothDirections(options: [String]) async throws {
        let server = try await Nghttpd(["--echo-upload"] + options)
        let data = MockPattern.bytes(in: 0..<Int64(Nghttpd.fileSize))
        try await withTransport(configuration()) { transport async throws in
            #expect(try await transport.answer(to: server.request()).data == data)
            let response = try await transport.answer(to: server.request("POST", "/", body: .data(data)))
            #expect(response.version == .http2)
            #expect(response.data == data)
            #expect(await transport.gauges.sockets == 1)
        }
    }

    @Test func requestsWaitForAFreeStream() async throws {
        let server = try await Nghttpd(["--max-concurrent-streams=1"])
        try await withTransport(configuration()) { transport async throws in
            try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for _ in 0..<20 {
                    group.addTask { try await transport.answer(to: server.request()) }
                }
                for try await response in group { #expect(response.data.count == Nghttpd.fileSize) }
            }
            #expect(await transport.gauges.sockets <= 5)
        }
    }

    /// Without `Content-Length`: after a body of known length, libcurl 7.88 does not wait for trailers.
    @Test func responseTrailersAreReceived() async throws {
        let server = try await Nghttpd(["--no-content-length", "--trailer=x-checksum: abc", "--trailer=x-count: 10"])
        try await withTransport(configuration()) { transport async throws in
            let response = try await transport.answer(to: server.request())
            #expect(response.trailers["X-Checksum"] == "abc")
            #expect(response.trailers["X-Count"] == "10")
            #expect(response.headers["X-Checksum"] == nil)
            #expect(response.data.count == Nghttpd.fileSize)
        }
    }

    /// The server answers after the request's head and resets the stream with NO_ERROR (RFC 9113 §8.1). libcurl 7.88
    /// may lose that response, but the connection carries the next request.
    @Test func earlyResponseIsAccepted() async throws {
        let server = try await Nghttpd(["--early-response"])
        try await withTransport(configuration()) { transport async throws in
            let post = server.request("POST", "/nothing", body: .data(Data(count: Nghttpd.fileSize)))
            do {
                #expect(try await transport.answer(to: post).status == 404)
            } catch let error as NetworkError {
                #expect(GlobalCurl.runtimeVersion < 0x08_00_00, "\(error)")
                #expect(error.kind == .connectionLost, "\(error)")
            }
            #expect(try await transport.answer(to: server.request()).data.count == Nghttpd.fileSize)
        }
    }

    @Test(arguments: [true, false]) func killedServerFailsTheRunningCall(isSecure: Bool) async throws {
        let server = try await Nghttpd(isSecure: isSecure)
        try await withTransport(configuration()) { transport async throws in
            let readsOn = Event()
            let hasBegun = Event()
            let body = try await transport.answer(to: server.request().with { $0.streamsBody = true }).body
            let reader = Task {
                for try await _ in body {
                    hasBegun.happen()
                    await readsOn.wait()
                }
            }
            await hasBegun.wait()
            try await server.end()
            readsOn.happen()
            let error = try await failure { try await reader.value }
            #expect(error.kind == .connectionLost, "\(error)")
            let refused = try await transport.failure(of: server.request())
            #expect(refused.kind == .connect, "\(refused)")
            try await server.startAgain()
            #expect(try await transport.answer(to: server.request()).data.count == Nghttpd.fileSize)
        }
    }

    /// The closed connection is still in the pool.
    @Test(arguments: ["GET", "POST"]) func restartBetweenCallsFailsNoCall(method: String) async throws {
        let server = try await Nghttpd()
        let body = method == "POST" ? HTTPBody.text("pay") : nil
        try await withTransport(configuration()) { transport async throws in
            for _ in 0..<3 {
                #expect(try await transport.answer(to: server.request(method, body: body)).status == 200)
                try await server.end()
                try await server.startAgain()
            }
        }
    }
}
