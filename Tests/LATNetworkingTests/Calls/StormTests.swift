import FoundationEssentials
import Glibc
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Calls of every form, cancelled in every way, while the server fails in every way and the table changes: 2,000 of them in the
/// suite, and any length of time with `scripts/soak`.
///
/// Run this under the thread sanitizer, too: `swift test --sanitize=thread --filter StormTests`.
@Suite(.timeLimit(.minutes(30)), .serialized) struct StormTests {
    private static let soakSeconds = ProcessInfo.processInfo.environment["LAT_SOAK_SECONDS"].flatMap { Int($0) }

    @Test func everyCallEndsOnceAndNothingLeaks() async throws {
        try await Storm(until: .calls(2_000)).run()
    }

    /// Measures the whole process, so it runs alone.
    @Test(.enabled(if: soakSeconds != nil, "run by scripts/soak")) func longStormNeedsNoMoreMemory() async throws {
        // The first calls make the runtime open the descriptors that it keeps.
        _ = try await Self.storm(seconds: 1)
        let descriptors = try Self.openDescriptors()
        let (report, residentBytes) = try await Self.storm(seconds: Self.soakSeconds ?? 15)
        let (early, late) = Self.growth(residentBytes)
        print("soak: \(report); resident memory \(early >> 20) MB early, \(late >> 20) MB late")
        #expect(late - early < max(16 << 20, early / 5), "memory grew from \(early) to \(late) bytes")
        // The kernel may close descriptors only some time after their thread ends.
        try await eventually("the end of the descriptors") { try Self.openDescriptors() <= descriptors }
    }

    /// The storm and its server are released at the end.
    private static func storm(seconds: Int) async throws -> (report: String, residentBytes: [Int]) {
        let storm = try Storm(until: .seconds(seconds))
        try await storm.run()
        return (storm.report, storm.residentBytes)
    }

    /// Returns the medians of the second and the last quarter of the samples.
    private static func growth(_ samples: [Int]) -> (early: Int, late: Int) {
        guard samples.count >= 8 else { return (samples.first ?? 0, samples.last ?? 0) }
        let quarter = samples.count / 4
        func median(_ part: ArraySlice<Int>) -> Int { part.sorted()[part.count / 2] }
        return (median(samples[quarter..<(2 * quarter)]), median(samples.suffix(quarter)))
    }

    private static func openDescriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }
}

private struct FetchItem: RequestEntity, Encodable {
    static let route = Route(server: "item")
    var id: Int
}

private struct SaveItem: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "save")
    var id: Int
}

private final class Storm: Sendable {
    enum End {
        case calls(Int)
        case seconds(Int)
    }

    /// How often each call ended, how, and what the accessory saw.
    private struct Tally {
        var started = 0
        var ends: [Int: Int] = [:]
        var endings: [String: Int] = [:]
        var willStart = 0
        var didFinish = 0
        var residentBytes: [Int] = []
    }

    private static let inFlight = 200

    /// The endings that one of the server's faults, a cancellation or a limit explains.
    private static let expected: Set<String> = [
        "success", "CancellationError", "cancelled", "connectionLost", "httpStatus", "timeout(idle)", "timeout(total)",
        "timeout(deadline)", "protocolViolation", "redirect", "decoding", "duplicate",
    ]

    private let end: End
    private let deadline: ContinuousClock.Instant?
    private let server: MockServer
    private let directory: TemporaryDirectory
    private let tally = Mutex(Tally())

    init(until end: End) throws {
        self.end = end
        deadline = if case .seconds(let seconds) = end { .now + .seconds(seconds) } else { nil }
        server = try MockServer()
        server.recordsRequests = false
        server.fallback { _ in Self.reply() }
        directory = try TemporaryDirectory()
    }

    var residentBytes: [Int] { tally.withLock(\.residentBytes) }

    var report: String {
        let (started, endings) = tally.withLock { ($0.started, $0.endings) }
        let kinds = endings.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        return "\(started) calls, each ended once: \(kinds)"
    }

    func run() async throws {
        try replaceFile(0)
        let manager = try makeManager()
        let storm = Task {
            var turn = 0
            while !Task.isCancelled {
                turn += 1
                cancelSome(manager, turn)
                if turn.isMultiple(of: 4) { try? changeTable(manager, turn / 4) }
                if deadline != nil {
                    tally.withLock { $0.residentBytes.append(ProcessFacts.residentBytes) }
                    try? await Task.sleep(for: .milliseconds(200))
                } else {
                    for _ in 0..<20 { await Task.yield() }
                }
            }
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.inFlight {
                group.addTask { while let index = self.next() { await self.call(index, manager) } }
            }
        }
        storm.cancel()
        await storm.value
        #expect(manager.runningRequests() == 0)
        // `didFinish` of a closure call comes after its closure.
        try await eventually { tally.withLock { $0.willStart == $0.didFinish } }
        try await server.waitUntilIdle()
        server.closeIdleConnections()
        try await server.waitUntilDisconnected()
        await manager.shutdown()
        let gauges = try #require(await manager.gauges)
        #expect(gauges.easyHandles == 0 && gauges.sockets == 0)
        let (started, ends, endings) = tally.withLock { ($0.started, $0.ends, $0.endings) }
        #expect(ends.count == started && Set(ends.values) == [1], "\(endings)")
        #expect(Set(endings.keys).subtracting(Self.expected) == [], "\(endings)")
        #expect(endings["success"] ?? 0 > 0 && endings["cancelled"] ?? 0 > 0, "\(endings)")
    }

    private func makeManager() throws -> CentralRequestManager {
        try CentralRequestManager.make(
            DomainTable(contentsOf: directory.path(of: "domains.json5"), environment: nil)
        ) {
            $0.baseURL = server.url()
            $0.maxConnectionsPerHost = 100
            $0.timeout = .seconds(5)
            $0.idleTimeout = .milliseconds(500)
            $0.retries = 2
            $0.retryPolicy.firstWait = .milliseconds(2)
            $0.authenticator = Session()
            $0.cacheStorage = .memory
            $0.limits.maxConcurrentRequests = 100
            $0.headerProvider = { _ in
                await Task.yield()
                return ["X-Nonce": "n"]
            }
            $0.accessories = [Accessory(storm: self)]
            $0.domainsObserver = { _ in }
        }
    }

    private static func reply() -> MockReply {
        switch Int.random(in: 0..<26) {
        case 0: .noReply
        case 1: .status(503).header("Retry-After", "0")
        case 2: .status(500)
        case 3: .status(401)
        case 4: MockReply.pattern(byteCount: 50_000).closing(afterBytes: 20_000)
        case 5: MockReply.pattern(byteCount: 50_000).resetting(afterBytes: 20_000)
        case 6: MockReply.pattern(byteCount: 50_000).stalling(.afterBodyBytes(10_000))
        case 7: MockReply.json("{}").delayed(by: .milliseconds(20))
        case 8: MockReply.pattern(byteCount: 300_000).inChunks(of: 7_000)
        case 9: .raw("this is not HTTP\r\n\r\n")
        case 10: .redirect(to: "/elsewhere")
        case 11: MockReply.text("bye").closingConnection()
        case 12: MockReply.json("{}").stalling(.start)
        case 13: .json("[" + String(repeating: "1,", count: 30_000) + "1]")
        default: .json(#"{"id":1,"name":"Ada"}"#)
        }
    }

    // MARK: Calls

    /// The number of the next call; `nil` when the storm is over.
    private func next() -> Int? {
        tally.withLock { tally in
            if case .calls(let count) = end, tally.started == count { return nil }
            if let deadline, ContinuousClock.now >= deadline { return nil }
            tally.started += 1
            return tally.started
        }
    }

    private func ended(_ index: Int, _ error: (any Error)? = nil) {
        let ending =
            switch error {
            case nil: "success"
            case is CancellationError: "CancellationError"
            case let error as NetworkError:
                if case .decoding = error.kind { "decoding" } else { error.kind.description }
            case let error?: "\(error)"
            }
        tally.withLock { tally in
            tally.ends[index, default: 0] += 1
            tally.endings[ending, default: 0] += 1
        }
    }

    private func call(_ index: Int, _ manager: CentralRequestManager) async {
        let tag = "t\(index % 9)"
        switch index % 12 {
        case 0, 1:
            await closureCall(index) { end in
                manager.startRequest(
                    "GET", "/central/\(index % 5)", tag: tag, success: { _, _ in end(nil) },
                    failure: { _, error in end(error) })
            }
        case 2:
            await closureCall(index) { end in
                FetchItem(id: index % 7).startRequest(on: manager) { _, _, error in end(error) }
            }
        default:
            do {
                try await asyncCall(index, tag, manager)
                ended(index)
            } catch {
                ended(index, error)
            }
        }
    }

    private func closureCall(
        _ index: Int, _ start: (_ end: @escaping @Sendable (NetworkError?) -> Void) -> RequestTask
    ) async {
        let isOver = Event()
        let task = start { error in
            self.ended(index, error)
            isOver.happen()
        }
        if index.isMultiple(of: 4) { task.cancel() }
        await isOver.wait()
    }

    private func asyncCall(_ index: Int, _ tag: String, _ manager: CentralRequestManager) async throws {
        switch index % 12 {
        case 3: _ = try await manager.startRequest("GET", "/central/\(index % 5)", tag: tag)
        case 4: _ = try await FetchItem(id: index % 7).tag(tag).startRequest(on: manager)
        case 5: _ = try await SaveItem(id: index % 3).startRequest(on: manager)
        case 6:
            let response = try await manager.stream("GET", "/stream", tag: tag)
            var left = Int.random(in: 1...20)
            for try await _ in response.body {
                left -= 1
                if left == 0 { break }
            }
        case 7: _ = try await FetchItem(id: index % 3).duplicates(.coalesce).startRequest(on: manager)
        case 8: _ = try await manager.startRequest("GET", "/cached/\(index % 4)", cache: .http, tag: tag)
        case 9: _ = try await manager.startRequest("PUT", "/put", body: .text(String(repeating: "x", count: 30_000)))
        case 10:
            var request = HTTPRequest("GET", "/limited")
            request.deadline = .milliseconds(Int64.random(in: 1...300))
            _ = try await manager.send(request)
        default:
            let work = Task { try await manager.startRequest("GET", "/left", tag: tag) }
            for _ in 0..<(index % 50) { await Task.yield() }
            work.cancel()
            _ = try await work.value
        }
    }

    // MARK: What happens meanwhile

    private func cancelSome(_ manager: CentralRequestManager, _ turn: Int) {
        switch turn % 8 {
        case 0: manager.cancelRequests(.tag("t\(turn % 9)"))
        case 1: manager.cancelRequests(.url("/central/\(turn % 5)"))
        case 2: manager.cancelRequests(.entity(FetchItem.self))
        case 3: manager.cancelRequests(.entity(FetchItem(id: turn % 7)))
        case 4: manager.cancelRequests(.keys((0..<40).map { "request-\(turn * 17 + $0)" }))
        case 5: manager.cancelRequests(.entity(SaveItem(id: turn % 3)))
        case 6: manager.cancelRequests(.key("request-\(turn * 31)"))
        default: if turn.isMultiple(of: 5) { manager.cancelRequests(.all) }
        }
        _ = manager.runningRequests(.tag("t1"))
    }

    private func replaceFile(_ version: Int) throws {
        let text = DomainTable.text(
            server.url("/\(version)"), domain: #"mirrors: ["\#(server.url("/mirror"))"]"#,
            servers: #"item: { domain: "d", path: "items/{id}", method: "GET", headers: { "X-Row": "\#(version)" } }"#)
        let new = try directory.write(Data(text.utf8), to: "new.json5")
        #expect(rename(new, directory.path(of: "domains.json5")) == 0)
    }

    private func changeTable(_ manager: CentralRequestManager, _ turn: Int) throws {
        switch turn % 4 {
        case 0: try replaceFile(turn)
        case 1:
            let url = server.url("/set/\(turn)")
            try manager.updateDomains { table throws(NetworkError) in try table.setBaseURL(url, forDomain: "d") }
        case 2: try manager.updateDomains { table throws(NetworkError) in try table.setBaseURL(nil, forDomain: "d") }
        default: manager.baseURL = server.url()
        }
    }

    private final class Session: Authenticator {
        private let number = Atomic(0)

        func apply(to request: inout HTTPRequest) {
            request.headers["Authorization"] = "\(number.load(ordering: .relaxed))"
        }

        func refresh() async throws {
            await Task.yield()
            number.add(1, ordering: .relaxed)
        }

        var refreshPause: Duration { .zero }
    }

    private struct Accessory: RequestAccessory {
        let storm: Storm

        func willStart(_ call: ObservedCall) { storm.tally.withLock { $0.willStart += 1 } }

        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
            storm.tally.withLock { $0.didFinish += 1 }
        }
    }
}
