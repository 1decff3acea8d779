import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct RequestStreamTests {
    private struct Broken: Error {}

    private func stream(_ chunks: [Data], throwing error: (any Error)? = nil) -> AsyncThrowingStream<Data, any Error> {
        AsyncThrowingStream { continuation in
            for chunk in chunks { continuation.yield(chunk) }
            continuation.finish(throwing: error)
        }
    }

    @Test(
        arguments: [[], [1], [0, 1, 0], [5, 70_000, 1], [3_000_000], [Int](repeating: 1, count: 40)], [false, true])
    func chunksArriveInOrder(sizes: [Int], isLengthKnown: Bool) async throws {
        let total = Int64(sizes.reduce(0, +))
        var offset: Int64 = 0
        let chunks = sizes.map { size in
            defer { offset += Int64(size) }
            return MockPattern.bytes(in: offset..<(offset + Int64(size)))
        }
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let body = HTTPBody.stream(stream(chunks), length: isLengthKnown ? total : nil, contentType: "a/b")
            _ = try await transport.answer(to: HTTPRequest("POST", server.url(), body: body))
            let request = try #require(server.requests.first)
            #expect(request.body == MockPattern.bytes(in: 0..<total))
            #expect(request.headers["Content-Length"] == (isLengthKnown ? "\(total)" : nil))
            #expect(request.headers["Transfer-Encoding"] == (isLengthKnown ? nil : "chunked"))
            #expect(request.headers["Content-Type"] == "a/b")
            #expect(request.headers["Expect"] == nil)
        }
    }

    @Test(arguments: [nil, 1000] as [Int64?], [0, 1, 3])
    func throwingStreamFailsTheRequest(length: Int64?, chunkCount: Int) async throws {
        let chunks = (0..<chunkCount).map { _ in Data(count: 100) }
        let server = try MockServer()
        try await withTransport { transport async throws in
            let body = HTTPBody.stream(stream(chunks, throwing: Broken()), length: length)
            let error = try await transport.failure(of: HTTPRequest("POST", server.url(), body: body))
            #expect(error.kind == .requestBody)
            #expect(error.underlying is Broken)
            #expect(server.requestCount == 0)
        }
    }

    @Test(arguments: [(0, 1), (999, 1000), (1001, 1000), (5_000_000, 1000), (2000, 1000)])
    func streamOfWrongLengthFailsTheRequest(given: Int, announced: Int64) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        for chunkSize in [1 << 30, 1000] {
            let chunks = stride(from: 0, to: given, by: chunkSize).map { Data(count: min(chunkSize, given - $0)) }
            try await withTransport { transport async throws in
                let body = HTTPBody.stream(stream(chunks), length: announced)
                let error = try await transport.failure(of: HTTPRequest("PUT", server.url(), body: body))
                #expect(error.kind == .requestBody)
                #expect(error.message.contains("\(announced)"))
            }
        }
        #expect(server.requestCount == 0)
    }

    @Test func streamIsReadNoFasterThanSent() async throws {
        let server = try MockServer()
        server.bodyReadRate = 0
        server.bodyLimit = 0
        server.fallback { .text("\($0.bodyByteCount)") }
        let produced = Box(0)
        let chunk = Data(count: 1 << 20)
        try await withTransport { transport async throws in
            let body = HTTPBody.stream(
                AsyncStream<Data>(unfolding: {
                    guard produced.value < 64 else { return nil }
                    produced.change { $0 += 1 }
                    return chunk
                }))
            // The other requests count towards its time.
            let request = HTTPRequest("POST", server.url(), body: body).with { $0.timeout = .seconds(120) }
            let task = Task { try await transport.send(request) }
            try await server.waitForConnections(1)
            // The many other requests give the stream time to read ahead.
            let other = try MockServer()
            other.fallback { _ in .text("x") }
            for _ in 0..<100 { _ = try await transport.get(other.url()) }
            #expect(produced.value < 32)
            server.bodyReadRate = nil
            #expect(try await within { try await task.value }.text == "\(64 << 20)")
        }
    }

    @Test(arguments: ["cancelled", "refused", "answered early"])
    func endedRequestTerminatesItsStream(why: String) async throws {
        let server = try MockServer()
        let closed = try ClosedPort()
        let isTold = Event()
        if why == "answered early" { server.enqueue(.text("no", status: 413).beforeRequestBody().closingConnection()) }
        try await withTransport { transport async throws in
            let url = why == "refused" ? closed.url() : server.url()
            let task = Task {
                // Only the request retains the stream, which terminates when its reader is cancelled or it is released.
                let stream = AsyncStream<Data> { continuation in
                    continuation.onTermination = { _ in isTold.happen() }
                    continuation.yield(Data(count: 10))
                }
                return (try? await transport.send(HTTPRequest("POST", url, body: .stream(stream))))?.status
            }
            if why == "cancelled" {
                try await server.waitForBodyBytes(10)
                task.cancel()
            }
            _ = try await within { await task.value }
            try await within(.seconds(30), "the end of the stream") { await isTold.wait() }
        }
    }

    @Test func replayableStreamIsResentAfterChallenge() async throws {
        let server = try MockServer()
        let challenge = "Digest realm=\"r\", nonce=\"n\", qop=\"auth\""
        server.fallback { request in
            request.headers["Authorization"]?.contains("response=") == true
                ? .text("\(request.bodyByteCount)") : .status(401).header("WWW-Authenticate", challenge)
        }
        try await withTransport { transport async throws in
            let chunk = MockPattern.bytes(in: 0..<100_000)
            let authentication = Authentication.digest(user: "u", password: "p")
            let again = HTTPRequest(
                "POST", server.url(),
                body: .stream {
                    AsyncStream {
                        $0.yield(chunk); $0.yield(chunk); $0.finish()
                    }
                }
            ).with { $0.authentication = authentication }
            #expect(try await transport.answer(to: again).text == "200000")
            #expect(server.requests.last?.body == chunk + chunk)
        }
    }

    @Test func requestAndResponseStreamConcurrently() async throws {
        let server = try MockServer()
        server.enqueue(MockReply.pattern(byteCount: 1 << 20).beforeRequestBody())
        let mayFinish = Event()
        try await withTransport { transport async throws in
            let body = HTTPBody.stream(
                AsyncStream<Data> { continuation in
                    continuation.yield(Data("begin".utf8))
                    Task {
                        await mayFinish.wait()
                        continuation.yield(Data("end".utf8))
                        continuation.finish()
                    }
                })
            let request = HTTPRequest("POST", server.url(), body: body).with { $0.streamsBody = true }
            let response = try await transport.answer(to: request)
            #expect(response.status == 200)
            mayFinish.happen()
            #expect(try await response.body.collect(upTo: 1 << 21).count == 1 << 20)
        }
    }

    /// A refusal ends the upload, even if its stream never ends.
    @Test(arguments: [true, false], [nil, 1000] as [Int64?])
    func refusalEndsAnEndlessUpload(closes: Bool, length: Int64?) async throws {
        let server = try MockServer()
        try await withTransport { transport async throws in
            for _ in 0..<20 {
                let refusal = MockReply.text("no", status: 413).beforeRequestBody()
                server.enqueue(closes ? refusal.closingConnection() : refusal)
                let body = HTTPBody.stream(AsyncStream<Data> { $0.yield(Data(count: 10)) }, length: length)
                let request = HTTPRequest("POST", server.url(), body: body)
                let isRefused = Box(false)
                try await within(.seconds(30), "the end of a refused upload") {
                    do {
                        let response = try await transport.send(request)
                        isRefused.change { $0 = response.status == 413 }
                    } catch let error as NetworkError {
                        // The reset that follows may arrive before the response.
                        isRefused.change { $0 = error.kind == .connectionLost }
                    }
                }
                #expect(isRefused.value)
            }
        }
    }
}
