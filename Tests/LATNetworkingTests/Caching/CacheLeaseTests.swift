import FoundationEssentials
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Managers that share a store with leases: only one of them fetches.
@Suite(.timeLimit(.minutes(2))) struct CacheLeaseTests {
    private static let policies: [CachePolicy] = [.http, .cacheElseNetwork(.forever)]
    private let directory: TemporaryDirectory
    private let transport = HeldAnswers()
    /// Raised when a lease is refused because another manager holds it.
    private let refused = Event()
    /// A gate that, once closed, makes the next request for a lease wait.
    private let gate = LeaseGate()

    init() throws { directory = try TemporaryDirectory() }

    private var folder: String { directory.path(of: "cache") }

    /// Returns a manager with its own store on the shared folder, as in another process.
    private func manager(
        _ policy: CachePolicy, _ clock: TestClock = TestClock(), patience: Duration = .seconds(30)
    ) async throws -> CentralRequestManager {
        let disk = try DiskStore(directory: folder)
        // The store creates its folder at the first write.
        let entry = CacheEntry(
            key: CacheKey(primary: "first"), method: "GET", url: "http://h/first", status: 200, headers: [:],
            requestTime: clock.now, responseTime: clock.now)
        try await disk.writer(for: entry).commit()
        return try CentralRequestManager.caching(policy, clock) {
            $0.transport = transport
            $0.cacheStore = WatchedLeases(TieredStore(memory: MemoryStore(), disk: disk), refused, gate)
            $0.cacheLookUpTimeout = patience
        }
    }

    @Test(arguments: policies) func twoMissesMakeOneRequest(_ policy: CachePolicy) async throws {
        let (first, second) = (try await manager(policy), try await manager(policy))
        let one = Task { try await first.startRequest("GET", "http://h/") }
        await transport.begun[0].wait()
        let other = Task { try await second.startRequest("GET", "http://h/") }
        await refused.wait()
        transport.mayEnd[0].happen()
        #expect(try await one.value.source == .network)
        let response = try await other.value
        #expect(response.text == "0" && response.source == .diskCache)
        #expect(!transport.begun[1].hasHappened)
    }

    @Test(arguments: policies) func slowLeaseHolderIsNotWaitedFor(_ policy: CachePolicy) async throws {
        let first = try await manager(policy)
        let second = try await manager(policy, patience: .milliseconds(20))
        let one = Task { try await first.startRequest("GET", "http://h/") }
        await transport.begun[0].wait()
        let other = Task { try await second.startRequest("GET", "http://h/") }
        // The second request is sent before the first has a response.
        await transport.begun[1].wait()
        transport.mayEnd[0].happen()
        transport.mayEnd[1].happen()
        #expect(try await one.value.source == .network)
        #expect(try await other.value.source == .network)
    }

    @Test(arguments: policies) func unstoredResponseReleasesTheLease(_ policy: CachePolicy) async throws {
        let (first, second) = (try await manager(policy), try await manager(policy))
        transport.status.withLock { $0 = 500 }
        for (number, manager) in [first, second].enumerated() {
            transport.mayEnd[number].happen()
            #expect(await failure { try await manager.startRequest("GET", "http://h/") }?.kind == .httpStatus)
        }
        let cancelled = Task { try await first.startRequest("GET", "http://h/") }
        await transport.begun[2].wait()
        cancelled.cancel()
        transport.mayEnd[2].happen()
        _ = await cancelled.result
        transport.mayEnd[3].happen()
        #expect(await failure { try await second.startRequest("GET", "http://h/") }?.kind == .httpStatus)
    }

    @Test func onlyOneManagerRefreshes() async throws {
        let clock = TestClock()
        let (first, second) = (try await manager(.http, clock), try await manager(.http, clock))
        transport.mayEnd[0].happen()
        _ = try await first.startRequest("GET", "http://h/")
        try await first.cache.flush()
        clock.advance(by: 70)
        #expect(try await first.startRequest("GET", "http://h/").source == .stale)
        // The first manager is refreshing and holds the lease until it has a response.
        await transport.begun[1].wait()
        for _ in 0..<3 { #expect(try await second.startRequest("GET", "http://h/").source == .stale) }
        transport.mayEnd[1].happen()
        var text: String?
        repeat {
            try await first.cache.flush()
            text = try await second.startRequest("GET", "http://h/").text
        } while text == "0"
        #expect(text == "1")
        #expect(!transport.begun[2].hasHappened)
    }

    @Test func requestsAfterAnIdleRefreshShareAFetch() async throws {
        let clock = TestClock()
        let (first, second) = (try await manager(.http, clock), try await manager(.http, clock))
        for number in [0, 2, 3, 4] { transport.mayEnd[number].happen() }
        _ = try await first.startRequest("GET", "http://h/")
        try await first.cache.flush()
        clock.advance(by: 70)
        // The second manager begins to refresh, but the first one gets the lease.
        gate.isClosed.withLock { $0 = true }
        #expect(try await second.startRequest("GET", "http://h/").source == .stale)
        await gate.asked.wait()
        clock.advance(by: 700)
        let one = Task { try await first.startRequest("GET", "http://h/").text }
        await transport.begun[1].wait()
        let lookUps = gate.lookUpCount.load(ordering: .relaxed)
        let others = (0..<3).map { _ in Task { try await second.startRequest("GET", "http://h/").text } }
        try await eventually("look-ups") { gate.lookUpCount.load(ordering: .relaxed) >= lookUps + 3 }
        gate.opened.happen()
        // The lease is refused to the refresh, then to the request that leads the others.
        try await eventually("two refusals") { gate.refusalCount.load(ordering: .relaxed) >= 2 }
        transport.mayEnd[1].happen()
        for request in [one] + others { #expect(try await request.value == "1") }
        #expect(!transport.begun[2].hasHappened)
    }
}

/// A transport that responds when the test allows it. Each body is the number of its request.
private final class HeldAnswers: Transport {
    let begun = (0..<5).map { _ in Event() }
    let mayEnd = (0..<5).map { _ in Event() }
    let status = Mutex(200)
    private let count = Mutex(0)

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let number = count.withLock { count in
            defer { count += 1 }
            return count
        }
        begun[number].happen()
        await mayEnd[number].wait()
        let status = status.withLock { $0 }
        return HTTPResponse(
            status: status,
            headers: [
                "Cache-Control": status == 200 ? "max-age=60, stale-while-revalidate=600" : "no-store",
                "ETag": "\"\(number)\"",
            ],
            body: ResponseBody(Data("\(number)".utf8)), url: request.url)
    }
}

private final class LeaseGate: Sendable {
    let isClosed = Mutex(false)
    let asked = Event()
    let opened = Event()
    let lookUpCount = Atomic(0)
    let refusalCount = Atomic(0)
}

/// A store that raises a signal when a lease is refused.
private final class WatchedLeases: ForwardingStore, CacheLeasing {
    let store: any CacheStore
    private let refused: Event
    private let gate: LeaseGate

    init(_ store: TieredStore, _ refused: Event, _ gate: LeaseGate) {
        self.store = store
        self.refused = refused
        self.gate = gate
    }

    func entries(for primaryKey: String) async throws -> [CacheEntry] {
        gate.lookUpCount.wrappingAdd(1, ordering: .relaxed)
        return try await store.entries(for: primaryKey)
    }

    func lease(_ name: String, for duration: Duration) async throws -> CacheLease? {
        let isClosed = gate.isClosed.withLock { isClosed in
            defer { isClosed = false }
            return isClosed
        }
        if isClosed {
            gate.asked.happen()
            await gate.opened.wait()
        }
        let lease = try await store.leasing?.lease(name, for: duration)
        if lease == nil {
            gate.refusalCount.wrappingAdd(1, ordering: .relaxed)
            refused.happen()
        }
        return lease
    }
}
