import CLibcurl
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// A server with the Python library h2 that misbehaves in one chosen way (`scripts/lib/http2_faults.py`).
private final class FaultyHTTP2Server: Sendable {
    let port: Int
    private let process: ChildProcess

    init(_ behaviour: String, address: String = "127.0.0.1", port: Int = 0) async throws {
        let certificates = try #require(TestCertificates.shared)
        process = try ChildProcess(
            "env",
            try PythonScript.command("http2_faults.py")
                + [behaviour, certificates.path("server.pem"), address, "\(port)"])
        self.port = try await process.awaitOutput("a port") { output in
            output.contains("\n") ? output.split(separator: "\n").first.flatMap { Int($0) } : nil
        }
    }

    func url(_ path: String = "/") -> String { "https://localhost:\(port)\(path)" }

    /// The lines that the server printed with this first word: `processed` or `refused`.
    func lines(_ word: String) -> [String] {
        process.output.split(separator: "\n").filter { $0.hasPrefix(word) }.map(String.init)
    }
}

private let isLibcurl7 = String(cString: curl_version()).hasPrefix("libcurl/7.")

@Suite(.needsOpenSSL, .needsPython)
struct HTTP2FaultTests {
    private func configuration(_ change: (inout EngineConfiguration) -> Void = { _ in })
        -> EngineConfiguration
    {
        testConfiguration {
            $0.tls.caFile = TestCertificates.shared?.authority
            change(&$0)
        }
    }

    private static let methods = ["GET", "POST", "PATCH"]

    private func request(_ method: String, _ url: String) -> HTTPRequest {
        HTTPRequest(method, url, body: method == "GET" ? nil : .text("pay"))
    }

    @Test(arguments: methods)
    func goAwayAfterEachRequestFailsNoRequest(method: String) async throws {
        let server = try await FaultyHTTP2Server("goaway-each")
        try await withTransport(configuration()) { transport async throws in
            for index in 0..<10 {
                let response = try await transport.answer(to: request(method, server.url("/\(index)")))
                #expect(response.text == (method == "GET" ? "GET 0" : "\(method) 3"))
            }
            #expect(server.lines("processed").count == 10)
        }
    }

    /// Requests that wait for their timeout keep the connection to a silent server busy; libcurl would put the next ones there.
    @Test func requestsLeaveTheConnectionToASilentAddress() async throws {
        let addresses = ["127.0.0.1", "127.0.0.2"]
        let reserved = try AddressServers([:], refusing: addresses)
        var servers: [FaultyHTTP2Server] = []
        for address in addresses {
            servers.append(try await FaultyHTTP2Server("bodies", address: address, port: reserved.port))
        }
        let configuration = configuration {
            $0.resolve = ["a.example.org:\(reserved.port)": addresses.joined(separator: ",")]
            $0.addresses = .roundRobin
        }
        try await withTransport(configuration) { [servers] transport async throws in
            let url = "https://a.example.org:\(reserved.port)/"
            #expect(try await transport.get(url).text == "GET 0")
            let isFirst = !servers[0].lines("processed").isEmpty
            let (silent, other) = isFirst ? (servers[0], servers[1]) : (servers[1], servers[0])
            let waiting = Task { try await transport.send(HTTPRequest("GET", url + "never")) }
            try await eventually("a request that waits") { silent.lines("processed GET /never").count == 1 }
            for _ in 0..<3 {
                let request = HTTPRequest("GET", url + "never").with { $0.timeout = .seconds(1) }
                #expect(try await transport.failure(of: request).kind == .timeout(.total))
            }
            #expect(other.lines("processed").isEmpty)
            #expect(try await transport.get(url).text == "GET 0")
            #expect(other.lines("processed GET / 1").count == 1)
            waiting.cancel()
            _ = await waiting.result
            // The connection is not used either when nothing waits any more.
            for _ in 0..<2 { #expect(try await transport.get(url).text == "GET 0") }
            #expect(silent.lines("processed GET / 1").count == 1)
        }
    }

    /// On a pooled connection, libcurl 7.88 does not tell a refused stream from a broken one. A request that is not
    /// idempotent then fails.
    @Test func uncertainPostIsNotRetried() async throws {
        let server = try await FaultyHTTP2Server("refuse-second")
        try await withTransport(configuration()) { transport async throws in
            for index in 0..<10 {
                let path = "/\(index)"
                do {
                    #expect(try await transport.answer(to: request("POST", server.url(path))).status == 200)
                } catch let error as NetworkError {
                    #expect(error.kind == .connectionLost && isLibcurl7)
                }
                #expect(server.lines("processed POST \(path) ").count <= 1)
            }
        }
    }

    @Test(arguments: isLibcurl7 ? ["GET"] : methods)
    func refusedStreamIsRetried(method: String) async throws {
        let server = try await FaultyHTTP2Server("refuse-second")
        try await withTransport(configuration()) { transport async throws in
            for index in 0..<10 {
                let response = try await transport.answer(to: request(method, server.url("/\(index)")))
                #expect(response.status == 200)
            }
            #expect(server.lines("processed").count == 10)
            #expect(server.lines("refused").count >= 9)
        }
    }

    /// libcurl 7.88 remembers a refused stream after its request has ended.
    @Test func earlierRefusalDoesNotRetryPost() async throws {
        let refusing = try await FaultyHTTP2Server("refuse-second")
        let received = Box(0)
        let server = try RawServer { connection in
            if !connection.read().isEmpty { received.change { $0 += 1 } }
        }
        try await withTransport(configuration()) { transport async throws in
            for index in 0..<6 {
                #expect(try await transport.get(refusing.url("/\(index)")).status == 200)
                let error = try await transport.failure(of: request("POST", server.url()))
                #expect(error.kind == .connectionLost)
                #expect(received.value == index + 1)
            }
        }
    }

    @Test(arguments: methods)
    func streamBeyondGoAwayIsRetried(method: String) async throws {
        let server = try await FaultyHTTP2Server("goaway-second")
        try await withTransport(configuration()) { transport async throws in
            for index in 0..<3 {
                let response = try await transport.answer(to: request(method, server.url("/\(index)")))
                #expect(response.status == 200)
            }
            #expect(server.lines("processed").count == 3)
            #expect(server.lines("refused").count == 1)
        }
    }

    @Test(arguments: methods)
    func requestIsRetriedAfterGoAwayWithError(method: String) async throws {
        let server = try await FaultyHTTP2Server("goaway-error")
        try await withTransport(configuration()) { transport async throws in
            let response = try await transport.answer(to: request(method, server.url()))
            #expect(response.status == 200)
            #expect(server.lines("processed").count == 1)
        }
    }

    /// libcurl takes a connection that another request has joined for a pooled one, and repeats both requests.
    @Test func postsThatShareALostConnectionAreNotRetried() async throws {
        // Which request libcurl ends first is chance.
        for _ in 0..<4 {
            let server = try await FaultyHTTP2Server("lost-after-2")
            try await withTransport(configuration()) { transport async throws in
                async let first = transport.failure(of: request("POST", server.url("/first")))
                async let second = transport.failure(of: request("POST", server.url("/second")))
                #expect(try await [first.kind, second.kind] == [.connectionLost, .connectionLost])
                #expect(server.lines("processed").count == 2)
            }
        }
    }

    @Test(arguments: methods)
    func requestThatNeedsHTTP1IsRetried(method: String) async throws {
        let server = try await FaultyHTTP2Server("needs-http1")
        try await withTransport(configuration()) { transport async throws in
            let response = try await transport.answer(to: request(method, server.url()))
            #expect(response.text == (method == "GET" ? "GET 0" : "\(method) 3") && response.version == .http1_1)
            #expect(server.lines("processed").count == 1)
        }
    }

    /// libcurl would send the request again, and its response would follow the part of the first one.
    @Test(arguments: methods, [false, true])
    func responseThatNeedsHTTP1IsLost(method: String, isStreamed: Bool) async throws {
        let server = try await FaultyHTTP2Server("needs-http1-late")
        try await withTransport(configuration()) { transport async throws in
            let request = request(method, server.url()).with { $0.streamsBody = isStreamed }
            let error = await #expect(throws: NetworkError.self) {
                try await transport.answer(to: request).body.collect(upTo: 100)
            }
            #expect(error?.kind == .connectionLost)
            #expect(error?.message.contains("HTTP_1_1_REQUIRED, after 8 bytes of the body") == true, "\(error as Any)")
            #expect(server.lines("processed").count == 1)
        }
    }

    @Test func processedPostIsNotRetried() async throws {
        let server = try await FaultyHTTP2Server("goaway-after-effect")
        try await withTransport(configuration { $0.idleTimeout = .seconds(2) }) { transport async throws in
            let error = try await transport.failure(of: request("POST", server.url()))
            #expect([.connectionLost, .protocolViolation, .timeout(.idle)].contains(error.kind))
            #expect(server.lines("processed").count == 1)
        }
    }

    @Test(arguments: ["refuse-all", "goaway-all"], methods)
    func retriesStopWhenAllStreamsAreRefused(behaviour: String, method: String) async throws {
        let server = try await FaultyHTTP2Server(behaviour)
        try await withTransport(configuration()) { transport async throws in
            let error = try await transport.failure(of: request(method, server.url()))
            #expect([.connectionLost, .protocolViolation].contains(error.kind))
            #expect(server.lines("processed").isEmpty)
            #expect((2...25).contains(server.lines("refused").count))
            #expect(error.attempts == server.lines("refused").count)
        }
    }

    @Test func streamLimitOfOneIsRespected() async throws {
        let server = try await FaultyHTTP2Server("one-stream")
        try await withTransport(configuration()) { transport async throws in
            #expect(try await transport.get(server.url("/first")).status == 200)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for index in 0..<40 { group.addTask { try await transport.get(server.url("/\(index)")).status } }
                for try await status in group { #expect(status == 200) }
            }
            #expect(Set(server.lines("processed")).count == server.lines("processed").count)
        }
    }

    /// The heads are larger than libcurl's buffer. libcurl 7.88 accepts up to 128 KiB.
    @Test(arguments: [20_000, 60_000, 125_000])
    func largeHeadArrivesWhole(size: Int) async throws {
        let server = try await FaultyHTTP2Server("head-\(size)")
        try await withTransport(configuration()) { transport async throws in
            for path in ["/first", "/again"] {
                let response = try await transport.get(server.url(path))
                #expect(response.text == "GET 0")
                let fields = response.headers.filter { $0.name.hasPrefix("x-") }
                #expect(fields.count == (size + 15_999) / 16_000)
            }
        }
    }

    /// The bodies have many sizes and share one connection; some have slow readers.
    @Test func concurrentBodiesArriveWhole() async throws {
        let server = try await FaultyHTTP2Server("bodies")
        let sizes = [0, 1, 16_000, 16_300, 16_384, 16_385, 32_768, 33_000, 65_536, 100_000, 300_000, 1 << 20, 4 << 20]
        try await withTransport(configuration()) { transport async throws in
            _ = try await transport.get(server.url())
            for round in 0..<3 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for index in 0..<24 {
                        let size = sizes[(index * 7 + round * 5) % sizes.count]
                        let request = HTTPRequest("GET", server.url("/b/\(size)")).with {
                            $0.streamsBody = index % 3 == 0
                        }
                        group.addTask {
                            var count = 0
                            for try await chunk in try await transport.answer(to: request).body {
                                count += chunk.count
                                await Task.yield()
                            }
                            #expect(count == size)
                        }
                    }
                    try await group.waitForAll()
                }
            }
        }
    }

    /// libcurl 7.88 leaves bytes that arrived during a pause in the handle.
    /// A transfer pauses because its reader falls behind, or because of a rate limit.
    @Test(arguments: [false, true]) func bodyHasNoBytesOfAbandonedTransfer(isThrottled: Bool) async throws {
        let server = try await FaultyHTTP2Server("bodies")
        let other = try MockServer()
        other.fallback { _ in .text("x") }
        try await withTransport(configuration()) { transport async throws in
            _ = try await transport.get(server.url())
            let never = Task { try await transport.get(server.url("/never")) }
            if isThrottled {
                let slow = HTTPRequest("GET", server.url("/a/3000000")).with { $0.maxReceiveRate = 20_000 }
                let throttled = Task { try await transport.answer(to: slow) }
                for _ in 0..<50 { _ = try await transport.get(other.url()) }
                throttled.cancel()
                _ = await throttled.result
            }
            for letter in isThrottled ? ["b", "c", "d"] : ["a", "b", "c", "d"] {
                let request = HTTPRequest("GET", server.url("/\(letter)/3000000")).with { $0.streamsBody = true }
                let body = try await transport.answer(to: request).body
                // These requests give the reader time to fall behind.
                for _ in 0..<20 { _ = try await transport.get(other.url()) }
                guard letter != "a" else { continue }
                let bytes = try await body.collect(upTo: 4_000_000)
                #expect(bytes.count == 3_000_000)
                #expect(bytes.allSatisfy { $0 == letter.utf8.first })
            }
            never.cancel()
            _ = await never.result
        }
    }

    /// With libcurl 7.88, buffered bytes of a paused stream may delay the connection's other streams, but not forever.
    @Test func pausedStreamDoesNotBlockOthers() async throws {
        let server = try await FaultyHTTP2Server("bodies")
        let other = try MockServer()
        other.fallback { _ in .text("x") }
        try await withTransport(configuration()) { transport async throws in
            _ = try await transport.get(server.url())
            for _ in 0..<5 {
                let request = HTTPRequest("GET", server.url("/p/6000000")).with { $0.streamsBody = true }
                let paused = try await transport.answer(to: request).body
                async let others = withThrowingTaskGroup(of: Int.self) { group in
                    for size in [0, 10, 20_000, 400_000, 1_000_000] {
                        group.addTask { try await transport.get(server.url("/o/\(size)")).data.count }
                    }
                    return try await group.reduce(0) { $0 + $1 }
                }
                for _ in 0..<20 { _ = try await transport.get(other.url()) }
                #expect(try await paused.collect(upTo: 10_000_000).count == 6_000_000)
                #expect(try await others == 1_420_010)
            }
        }
    }

    /// A response before `RST_STREAM(NO_ERROR)`: /CODE/SIZE/LENGTH/END, where END says whether the last frame ends the stream.
    private struct ResetCase: Sendable, CustomStringConvertible {
        var behaviour: String
        var path: String
        /// Whether libcurl 7.88 loses the response, or cannot tell whether it is whole.
        var isLostBefore8 = false
        var isStreamed = false
        var description: String { "\(behaviour)\(path)\(isStreamed ? " streamed" : "")" }
    }

    /// libcurl 7.88 may wait until the timeout when a stream is reset while it sends.
    private static let resets =
        ["reset", "reset-split", "reset-early"] + (isLibcurl7 ? [] : ["reset-early-split"])

    private static let resetCases: [ResetCase] = resets.flatMap {
        behaviour in
        ["0/0/end", "10/10/end", "40000/40000/end", "10/-/end", "10/10/open", "40000/40000/open"].flatMap { shape in
            let isEarly = behaviour.hasPrefix("reset-early")
            let isTogether = !behaviour.hasSuffix("split")
            let isLost = isTogether && (isEarly || shape.hasSuffix("open")) || isEarly && shape.contains("-")
            return [false, true].map { isStreamed in
                ResetCase(
                    behaviour: behaviour, path: "/NO_ERROR/\(shape)", isLostBefore8: isLost, isStreamed: isStreamed)
            }
        }
    }

    /// With the behaviours `reset-early`, the server does not read the request's body.
    @Test(arguments: resetCases) private func wholeResponseBeforeResetIsKept(_ reset: ResetCase) async throws {
        let server = try await FaultyHTTP2Server(reset.behaviour)
        let size = try #require(Int(reset.path.split(separator: "/")[1]))
        let request = HTTPRequest("POST", server.url(reset.path), body: .data(Data(count: 1 << 20))).with {
            $0.streamsBody = reset.isStreamed
        }
        try await withTransport(configuration()) { transport async throws in
            do {
                let response = try await transport.answer(to: request)
                #expect(response.status == 200)
                #expect(try await response.body.collect(upTo: 1 << 20).count == size)
            } catch let error as NetworkError {
                #expect(isLibcurl7 && reset.isLostBefore8 && error.kind == .connectionLost, "\(error)")
            }
            #expect(server.lines("processed").count == 1)
        }
    }

    @Test(
        arguments: resets,
        ["/NO_ERROR/10/20/open", "/NO_ERROR/40000/40001/open", "/CANCEL/10/20/open", "/INTERNAL_ERROR/10/-/open"])
    func partOfResponseBeforeResetFails(behaviour: String, path: String) async throws {
        let server = try await FaultyHTTP2Server(behaviour)
        try await withTransport(configuration()) { transport async throws in
            let request = HTTPRequest("POST", server.url(path), body: .data(Data(count: 1 << 20)))
            let error = try await transport.failure(of: request)
            #expect(error.kind == .connectionLost, "\(error)")
            #expect(server.lines("processed").count == 1)
        }
    }

    /// libcurl 7.88 and 8.23 take such a stream for a complete one, and tell nothing by which it could be noticed; those between
    /// do not. With a length, every one fails: see above.
    @Test(arguments: ["reset", "reset-split"])
    func streamWithoutLengthThatIsResetWithoutErrorFailsOrCounts(behaviour: String) async throws {
        let server = try await FaultyHTTP2Server(behaviour)
        try await withTransport(configuration()) { transport async throws in
            do {
                let response = try await transport.answer(to: HTTPRequest("GET", server.url("/NO_ERROR/10/-/open")))
                #expect(response.body.data?.count == 10)
            } catch let error as NetworkError {
                #expect(error.kind == .connectionLost, "\(error)")
            }
        }
    }

    /// libcurl 7.88 reads no window for the upload after the whole response, and may not notice the end of a stream that was
    /// answered before the upload was over.
    @Test(arguments: ["answer-early", "answer-before-window"], ["/200/3", "/204/-", "/200/-"])
    func answerBeforeTheUploadIsDelivered(behaviour: String, path: String) async throws {
        let server = try await FaultyHTTP2Server(behaviour)
        try await withTransport(configuration()) { transport async throws in
            #expect(try await transport.get(server.url()).text == "GET 0")
            for (size, isStream) in [(20_000, false), (20_010, true), (500_000, false), (500_010, true), (1, false)] {
                let body: HTTPBody =
                    isStream
                    ? .stream {
                        AsyncStream<Data> { continuation in
                            for _ in 0..<10 { continuation.yield(Data(count: size / 10)) }
                            continuation.finish()
                        }
                    } : .data(Data(count: size))
                let response = try await transport.answer(to: HTTPRequest("POST", server.url(path), body: body))
                #expect("\(response.status)" == path.split(separator: "/")[0])
                #expect(response.text == (response.status == 204 ? "" : "yes"))
                try await eventually("the whole upload") {
                    server.lines("processed POST \(path) 1 \(size)").count == 1
                }
            }
        }
    }

    /// A producer that is slow is waited for, so that an upload that is answered early is whole.
    @Test(arguments: ["/200/3", "/200/-"]) func slowUploadIsSentAfterAnEarlyAnswer(path: String) async throws {
        let server = try await FaultyHTTP2Server("answer-early")
        let (stream, continuation) = AsyncStream.makeStream(of: Data.self)
        let body = HTTPBody.stream(stream)
        try await withTransport(configuration()) { transport async throws in
            continuation.yield(Data(count: 100))
            let request = HTTPRequest("POST", server.url(path), body: body).with { $0.streamsBody = true }
            let response = try await transport.answer(to: request)
            continuation.yield(Data(count: 100))
            continuation.finish()
            #expect(try await response.body.collect(upTo: 100) == Data("yes".utf8))
            try await eventually("the whole upload") { server.lines("processed POST \(path) 1 200").count == 1 }
        }
    }

    /// libcurl 7.88 reads on as long as frames arrive that carry nothing.
    @Test(arguments: ["/data", "/priority"]) func floodDoesNotStopTheEngine(path: String) async throws {
        let server = try await FaultyHTTP2Server("flood")
        let other = try MockServer()
        other.fallback { _ in .text("x") }
        try await withTransport(configuration { $0.timeout = .seconds(10) }) { transport async throws in
            async let flooded = transport.failure(of: HTTPRequest("GET", server.url(path)))
            try await eventually("the flood") { !server.lines("floods").isEmpty }
            #expect(try await transport.get(other.url()).text == "x")
            // The timeout, if the server is too slow, or libcurl returns often enough.
            let error = try await flooded
            #expect([.protocolViolation, .timeout(.total)].contains(error.kind), "\(error)")
        }
    }

    @Test func errorNamesLibcurlsHeadLimit() async throws {
        let server = try await FaultyHTTP2Server("head-200000")
        try await withTransport(configuration()) { transport async throws in
            guard isLibcurl7 else {
                return #expect(try await transport.get(server.url()).headers["x-0"] != nil)
            }
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .protocolViolation)
            #expect(error.message.contains("128 KiB"))
            #expect(server.lines("processed").count == 1)
        }
    }

    @Test func oversizedHeadFails() async throws {
        let huge = try await FaultyHTTP2Server("head-1200000")
        try await withTransport(configuration()) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", huge.url()))
            #expect([.protocolViolation, .connectionLost].contains(error.kind))
        }
    }

    /// The connection's flow-control window is exhausted too, so uploads wait; requests without a body are not affected.
    @Test func uploadWithoutWindowTimesOut() async throws {
        let server = try await FaultyHTTP2Server("no-window")
        try await withTransport(configuration { $0.idleTimeout = .seconds(2) }) { transport async throws in
            #expect(try await transport.get(server.url("/first")).status == 200)
            async let stalled = transport.failure(
                of: HTTPRequest("POST", server.url("/upload"), body: .data(Data(count: 1 << 20))))
            for index in 0..<20 { #expect(try await transport.get(server.url("/\(index)")).status == 200) }
            #expect(try await stalled.kind == .timeout(.idle))
            #expect(try await transport.get(server.url("/last")).status == 200)
        }
    }
}
