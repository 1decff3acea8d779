import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATNetworking

/// Mixed calls, for any length of time, against a server that fails in every way: `scripts/soak`.
///
/// It measures the whole process, so it runs alone, and only when `LAT_SOAK_SECONDS` is set.
@Suite(.enabled(if: Soak.seconds != nil, "run by scripts/soak"), .serialized) struct SoakTests {
    @Test(.timeLimit(.minutes(30))) func everyCallEndsOnceAndNothingLeaks() async throws {
        // The first calls make the runtime open the descriptors that it keeps.
        _ = try await Soak(seconds: 1).run()
        let descriptors = try Soak.openDescriptors()
        let (tally, samples) = try await Soak(seconds: Soak.seconds ?? 15).run()
        print(tally.report(samples))
        #expect(tally.started == tally.ended)
        #expect(tally.closureCalls == tally.terminalEvents)
        #expect(tally.willStart == tally.didFinish)
        #expect(tally.started > 100)
        #expect(tally.unexpected == [:])
        let (early, late) = Soak.growth(samples)
        #expect(late - early < max(16 << 20, early / 5), "memory grew from \(early) to \(late) bytes")
        // The kernel may close descriptors only some time after their thread ends.
        try await eventually("the end of the descriptors") { try Soak.openDescriptors() <= descriptors }
    }
}

/// The counts of a soak run.
private struct Tally: Sendable {
    var started = 0
    var ended = 0
    var closureCalls = 0
    var terminalEvents = 0
    var willStart = 0
    var didFinish = 0
    var endings: [String: Int] = [:]
    /// Endings that none of the server's faults explains.
    var unexpected: [String: Int] = [:]

    func report(_ samples: [Int]) -> String {
        let (early, late) = Soak.growth(samples)
        let kinds = endings.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        return
            "soak: \(started) calls, \(ended) ends, \(closureCalls) closure calls with \(terminalEvents) terminal events; "
            + "\(kinds); resident memory \(early >> 20) MB early, \(late >> 20) MB late"
    }
}

private final class Soak: Sendable {
    static let seconds = ProcessInfo.processInfo.environment["LAT_SOAK_SECONDS"].flatMap { Int($0) }

    private static let inFlight = 200

    private struct FetchItem: RequestEntity, Encodable {
        static let route = Route("GET", url: "/items/{id}")
        var id: Int
    }

    private final class Accessory: RequestAccessory {
        let tally: @Sendable (_ change: (inout Tally) -> Void) -> Void

        init(_ tally: @escaping @Sendable (_ change: (inout Tally) -> Void) -> Void) { self.tally = tally }

        func willStart(_ call: ObservedCall) { tally { $0.willStart += 1 } }

        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
            tally { $0.didFinish += 1 }
        }
    }

    private final class Session: Authenticator {
        private let token = Atomic(0)

        func apply(to request: inout HTTPRequest) {
            request.headers["Authorization"] = "\(token.load(ordering: .relaxed))"
        }

        func refresh() async throws {
            await Task.yield()
            token.add(1, ordering: .relaxed)
        }

        var refreshPause: Duration { .zero }
    }

    private let end: ContinuousClock.Instant
    private let tally = Mutex(Tally())

    init(seconds: Int) { end = .now + .seconds(seconds) }

    func run() async throws -> (Tally, [Int]) {
        let server = try MockServer()
        server.recordsRequests = false
        server.fallback { _ in Self.reply() }
        let accessory = Accessory { change in self.tally.withLock { change(&$0) } }
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.maxConnectionsPerHost = 100
            $0.timeout = .seconds(5)
            $0.idleTimeout = .milliseconds(500)
            $0.retries = 2
            $0.retryPolicy.firstWait = .milliseconds(5)
            $0.authenticator = Session()
            $0.accessories = [accessory]
            $0.limits.maxConcurrentRequests = 150
        }
        let samples = try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.inFlight {
                group.addTask { while ContinuousClock.now < self.end { await self.call(manager) } }
            }
            var samples: [Int] = []
            while ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(200))
                samples.append(ProcessFacts.residentBytes)
                if samples.count.isMultiple(of: 7) { manager.cancelRequests(.tag("t\(samples.count % 5)")) }
                if samples.count.isMultiple(of: 50) { manager.cancelRequests(.all) }
            }
            try await group.waitForAll()
            return samples
        }
        // `didFinish` of a closure call comes after its closure.
        try await eventually { tally.withLock { $0.willStart == $0.didFinish } }
        #expect(manager.runningRequests() == 0)
        await manager.shutdown()
        // Releases the server without `stop()`, which would keep its port.
        _ = consume server
        return (tally.withLock { $0 }, samples)
    }

    private static func reply() -> MockReply {
        switch Int.random(in: 0..<24) {
        case 0: .noReply
        case 1: .status(503).header("Retry-After", "0")
        case 2: .status(500)
        case 3: .status(401)
        case 4: MockReply.pattern(byteCount: 50_000).closing(afterBytes: 20_000)
        case 5: MockReply.pattern(byteCount: 50_000).resetting(afterBytes: 20_000)
        case 6: MockReply.pattern(byteCount: 50_000).stalling(.afterBodyBytes(10_000))
        case 7: MockReply.text("slow").delayed(by: .milliseconds(20))
        case 8: MockReply.pattern(byteCount: 300_000).inChunks(of: 7_000)
        case 9: .raw("this is not HTTP\r\n\r\n")
        case 10: .status(302).header("Location", "/elsewhere")
        case 11: MockReply.text("bye").closingConnection()
        default: .json(#"{"id":1,"name":"Ada"}"#)
        }
    }

    private func call(_ manager: CentralRequestManager) async {
        let tag = "t\(Int.random(in: 0..<5))"
        tally.withLock { $0.started += 1 }
        let ending = await Self.ending { try await self.perform(Int.random(in: 0..<9), manager, tag) }
        tally.withLock { tally in
            tally.ended += 1
            tally.endings[ending, default: 0] += 1
            if !Self.expected.contains(ending) { tally.unexpected[ending, default: 0] += 1 }
        }
    }

    private static let expected: Set<String> = [
        "success", "CancellationError", "cancelled", "connectionLost", "httpStatus", "timeout(idle)", "timeout(total)",
        "timeout(deadline)", "protocolViolation", "redirect", "decoding", "duplicate",
    ]

    private func perform(_ kind: Int, _ manager: CentralRequestManager, _ tag: String) async throws {
        switch kind {
        case 0: _ = try await manager.startRequest("GET", "/plain")
        case 1: _ = try await manager.startRequest("GET", "/tagged", tag: tag)
        case 2: _ = try await FetchItem(id: .random(in: 0..<9)).tag(tag).startRequest(on: manager)
        case 3: _ = try await FetchItem(id: .random(in: 0..<3)).duplicates(.coalesce).startRequest(on: manager)
        case 4: try await closureCall(manager, tag)
        case 5:
            let response = try await manager.stream("GET", "/stream", tag: tag)
            var left = Int.random(in: 1...20)
            for try await _ in response.body {
                left -= 1
                if left == 0 { break }
            }
        case 6: _ = try await manager.startRequest("PUT", "/put", body: .text(String(repeating: "x", count: 30_000)))
        case 7:
            var request = HTTPRequest("GET", "/limited")
            request.deadline = .milliseconds(Int64.random(in: 1...300))
            _ = try await manager.send(request)
        default:
            let work = Task { try await manager.startRequest("GET", "/cancelled") }
            for _ in 0..<Int.random(in: 0..<20) { await Task.yield() }
            work.cancel()
            _ = try await work.value
        }
    }

    private func closureCall(_ manager: CentralRequestManager, _ tag: String) async throws {
        tally.withLock { $0.closureCalls += 1 }
        let recorder = CallRecorder()
        let count = { @Sendable in self.tally.withLock { $0.terminalEvents += 1 } }
        let task = manager.startRequest(
            "GET", "/closure", tag: tag,
            success: { task, response in
                count()
                recorder.onSuccess(task, response)
            },
            failure: { task, error in
                count()
                recorder.onFailure(task, error)
            })
        if Int.random(in: 0..<4) == 0 { task.cancel() }
        await recorder.end()
        if let error = recorder.error { throw error }
    }

    private static func ending(_ call: () async throws -> Void) async -> String {
        do {
            try await call()
            return "success"
        } catch is CancellationError {
            return "CancellationError"
        } catch let error as NetworkError {
            if case .decoding = error.kind { return "decoding" }
            return error.kind.description
        } catch {
            return "\(error)"
        }
    }

    /// Returns the medians of the second and the last quarter of the samples.
    static func growth(_ samples: [Int]) -> (early: Int, late: Int) {
        guard samples.count >= 8 else { return (samples.first ?? 0, samples.last ?? 0) }
        let quarter = samples.count / 4
        func median(_ part: ArraySlice<Int>) -> Int { part.sorted()[part.count / 2] }
        return (median(samples[quarter..<(2 * quarter)]), median(samples.suffix(quarter)))
    }

    static func openDescriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }
}
