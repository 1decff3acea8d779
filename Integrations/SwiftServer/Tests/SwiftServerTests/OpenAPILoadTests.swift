import FoundationEssentials
import LATNetworking
import LATOpenAPITransport
import LATTesting
import OpenAPIRuntime
import Synchronization
import Testing

/// Many requests at once, both directions at once, and what holds a limit.
@Suite(.timeLimit(.minutes(1))) struct OpenAPILoadTests {
    private struct Broken: Error {}

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private func single(
        _ stream: AsyncStream<[UInt8]>, length: OpenAPIRuntime.HTTPBody.Length = .unknown
    ) -> OpenAPIRuntime.HTTPBody { OpenAPIRuntime.HTTPBody(stream, length: length, iterationBehavior: .single) }

    private func body(_ answer: Client.Answer) throws -> OpenAPIRuntime.HTTPBody {
        guard case .ok(let body?) = answer else { throw Broken() }
        return body
    }

    /// The error of the manager inside the client's.
    private func failure(_ answer: () async throws -> some Any) async -> NetworkError? {
        do {
            _ = try await answer()
            return nil
        } catch {
            return (error as? ClientError)?.underlyingError as? NetworkError ?? error as? NetworkError
        }
    }

    @Test func manyRequestsGetTheirOwnAnswers() async throws {
        let server = try MockServer()
        server.fallback { .data($0.body) }
        let running = Running()
        let manager = try CentralRequestManager.make {
            $0.limits.maxConcurrentRequests = 8
            $0.maxConnectionsPerHost = 100
            $0.networkInterceptors = [running]
        }
        let client = try Client(manager, server.baseURL)
        let answers = try await withThrowingTaskGroup(of: (Int, [UInt8]).self) { group in
            for index in 0..<400 {
                group.addTask {
                    let chunks = (0..<4).map { Array("\(index).\($0) ".utf8) }
                    let stream = AsyncStream { continuation in
                        for chunk in chunks { continuation.yield(chunk) }
                        continuation.finish()
                    }
                    let isSingle = index.isMultiple(of: 2)
                    let body =
                        isSingle
                        ? OpenAPIRuntime.HTTPBody(stream, length: .unknown, iterationBehavior: .single)
                        : OpenAPIRuntime.HTTPBody(Array(chunks.joined()))
                    return (index, try await client.post(body).bytes())
                }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        #expect(answers.count == 400)
        #expect(answers.allSatisfy { index, bytes in Self.text(bytes) == (0..<4).map { "\(index).\($0) " }.joined() })
        #expect((2...8).contains(running.peak))
        try await eventually { await manager.load.calls == 0 }
    }

    @Test func bodiesGoUpAndDownInTurns() async throws {
        let server = EchoServer()
        let client = try Client(.make { _ in }, server.baseURL)
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        var answer = try body(await client.post(single(stream))).makeAsyncIterator()
        for turn in 1...50 {
            // Each piece is sent when the one before has come back.
            let piece = [UInt8](repeating: UInt8(ascii: "a") + UInt8(turn % 26), count: turn)
            continuation.yield(piece)
            var back: [UInt8] = []
            while back.count < turn { back += try #require(try await answer.next()) }
            #expect(back == piece)
        }
        continuation.finish()
        #expect(try await answer.next() == nil)
    }

    @Test func largeBodiesGoUpAndDownAtOnce() async throws {
        let server = EchoServer()
        let client = try Client(.make { _ in }, server.baseURL)
        let (count, size) = (256, 65_536)
        let made = Atomic(0)
        let stream = AsyncStream<[UInt8]> {
            let index = made.add(1, ordering: .relaxed).oldValue
            return index < count ? [UInt8](repeating: UInt8(ascii: "a") + UInt8(index % 26), count: size) : nil
        }
        let answer = try body(await client.post(single(stream)))
        // Until somebody reads, little is sent.
        var (received, wrong) = (0, 0)
        for try await piece in answer {
            for byte in piece {
                if byte != UInt8(ascii: "a") + UInt8(received / size % 26) { wrong += 1 }
                received += 1
            }
        }
        #expect(received == count * size && wrong == 0)
    }

    @Test func unreadBodyIsSentNoFasterThanItIsRead() async throws {
        let server = EchoServer()
        let client = try Client(.make { _ in }, server.baseURL)
        let made = Atomic(0)
        let stream = AsyncStream<[UInt8]> {
            // It ends, so that a body that nothing holds back fails the test and does not fill the memory.
            guard made.add(1, ordering: .relaxed).newValue <= 1_000 else { return nil }
            return [UInt8](repeating: UInt8(ascii: "a"), count: 65_536)
        }
        let call = Task {
            var answer = try body(await client.post(single(stream))).makeAsyncIterator()
            _ = try await answer.next()
            // Long in both directions: all of it would be made if one of them were not held back.
            var known = -1
            while known != made.load(ordering: .relaxed) {
                known = made.load(ordering: .relaxed)
                try await Task.sleep(for: .milliseconds(300))
            }
            return known
        }
        let pieces = try await call.value
        #expect(pieces < 1_000)
    }

    @Test(arguments: [1, 3]) func droppedBodiesGiveTheirPlaceBack(_ limit: Int) async throws {
        let server = try MockServer()
        server.fallback {
            $0.path == "/last" ? .text("done") : MockReply(status: 404, body: .pattern(byteCount: 8 << 20))
        }
        let manager = try CentralRequestManager.make {
            $0.limits.maxConcurrentRequests = limit
            $0.maxConnectionsPerHost = limit
        }
        let client = try Client(manager, server.baseURL)
        // An undocumented status, whose body a caller does not read.
        for _ in 0..<2 * limit {
            guard case .undocumented(404, _) = try await client.path("/missing") else { throw Broken() }
        }
        #expect(Self.text(try await client.path("/last").bytes()) == "done")
    }

    @Test func halfReadBodyGivesItsPlaceBack() async throws {
        let server = try MockServer()
        server.fallback { $0.path == "/last" ? .text("done") : .pattern(byteCount: 64 << 20) }
        let client = try Client(.make { $0.limits.maxConcurrentRequests = 1 }, server.baseURL)
        for try await _ in try body(await client.path("/big")) { break }
        #expect(Self.text(try await client.path("/last").bytes()) == "done")
        let collected = try body(await client.path("/big"))
        await #expect(throws: (any Error).self) { try await [UInt8](collecting: collected, upTo: 1_000) }
        #expect(Self.text(try await client.path("/last").bytes()) == "done")
    }

    @Test func limitOfTheBodyEndsIt() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.pattern(byteCount: 1 << 20).inChunks() }
        let transport = try ManagerTransport(.make { _ in }) { request, _ in request.maxBodySize = 100_000 }
        let client = Client(serverURL: try #require(URL(string: server.baseURL)), transport: transport)
        let error = await failure { try await client.path("/big").bytes() }
        #expect(error?.kind == .bodyTooLarge, "\(error as Any)")
    }

    @Test func brokenBodyOfARequestIsItsError() async throws {
        let server = try MockServer()
        server.fallback { .data($0.body) }
        let client = try Client(.make { _ in }, server.baseURL)
        let stream = AsyncThrowingStream<[UInt8], any Error> { continuation in
            continuation.yield([1, 2, 3])
            continuation.finish(throwing: Broken())
        }
        let broken = OpenAPIRuntime.HTTPBody(stream, length: .unknown, iterationBehavior: .single)
        let error = await failure { try await client.post(broken).bytes() }
        #expect(error?.kind == .requestBody && error?.underlying is Broken, "\(error as Any)")
        for (length, kind) in [(Int64(2), NetworkError.Kind.requestBody), (4, .requestBody)] {
            let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
            continuation.yield([1, 2, 3])
            continuation.finish()
            let error = await failure { try await client.post(single(stream, length: .known(length))).bytes() }
            #expect(error?.kind == kind, "\(error as Any)")
        }
        #expect(server.requests.isEmpty)
    }

    @Test func earlyRefusalEndsTheBodyOfTheRequest() async throws {
        let server = try MockServer()
        server.enqueue(.text("no", status: 413).beforeRequestBody().closingConnection())
        let client = try Client(.make { _ in }, server.baseURL)
        let ended = Gate()
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        continuation.onTermination = { _ in ended.open() }
        continuation.yield([1, 2, 3])
        guard case .undocumented(413, let payload) = try await client.post(single(stream)) else { throw Broken() }
        #expect(Self.text(try await [UInt8](collecting: try #require(payload.body), upTo: 100)) == "no")
        await ended.wait()
    }

    @Test func cancelledReaderEndsTheTransfer() async throws {
        let server = EchoServer()
        let manager = try CentralRequestManager.make { _ in }
        let client = try Client(manager, server.baseURL)
        let ended = Gate()
        let (stream, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        continuation.onTermination = { _ in ended.open() }
        let reading = Gate()
        let call = Task {
            var answer = try body(await client.post(single(stream))).makeAsyncIterator()
            continuation.yield([UInt8(ascii: "a")])
            _ = try await answer.next()
            reading.open()
            return try await answer.next()
        }
        await reading.wait()
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        // The request body is released too.
        await ended.wait()
        try await eventually { await manager.load.transfers == 0 }
    }
}

/// Counts the requests that run at once.
private final class Running: Interceptor {
    private let counts = Mutex((now: 0, peak: 0))
    var peak: Int { counts.withLock(\.peak) }

    func intercept(
        _ request: LATNetworking.HTTPRequest,
        next: @Sendable (LATNetworking.HTTPRequest) async throws -> LATNetworking.HTTPResponse
    ) async throws -> LATNetworking.HTTPResponse {
        counts.withLock {
            $0.now += 1
            $0.peak = max($0.peak, $0.now)
        }
        defer { counts.withLock { $0.now -= 1 } }
        return try await next(request)
    }
}
