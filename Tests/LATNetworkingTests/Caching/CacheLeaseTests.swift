import FoundationEssentials
import LATTesting
import ResponseCache
import Synchronization
import Testing

@testable import LATNetworking

/// Of managers that share a store one fetches, where the store gives leases.
@Suite(.timeLimit(.minutes(2))) struct CacheLeaseTests {
    private static let policies: [CachePolicy] = [.http, .cacheElseNetwork(.forever)]
    private let directory: TemporaryDirectory
    private let transport = HeldAnswers()
    /// Raised when somebody asks for a lease that another has.
    private let refused = Signal()

    init() throws { directory = try TemporaryDirectory() }

    private var folder: String { directory.path(of: "cache") }

    /// A manager with a store of its own on the folder, as another process has.
    private func manager(
        _ policy: CachePolicy, _ clock: TestClock = TestClock(), patience: Duration = .seconds(30)
    ) async throws -> CentralRequestManager {
        let disk = try DiskStore(directory: folder)
        // The folder is made when something is stored.
        let entry = CacheEntry(
            key: CacheKey(primary: "first"), method: "GET", url: "http://h/first", status: 200, headers: [:],
            requestTime: clock.now, responseTime: clock.now)
        try await disk.writer(for: entry).commit()
        return try CentralRequestManager.caching(policy, clock) {
            $0.transport = transport
            $0.cacheStore = WatchedLeases(TieredStore(memory: MemoryStore(), disk: disk), refused)
            $0.cacheLookUpTimeout = patience
        }
    }

    @Test(arguments: policies) func twoThatMissMakeOneRequest(_ policy: CachePolicy) async throws {
        let (first, second) = (try await manager(policy), try await manager(policy))
        let one = Task { try await first.startRequest("GET", "http://h/") }
        await transport.begun[0].wait()
        let other = Task { try await second.startRequest("GET", "http://h/") }
        await refused.wait()
        transport.mayEnd[0].raise()
        #expect(try await one.value.source == .network)
        let response = try await other.value
        #expect(response.text == "0" && response.source == .diskCache)
        #expect(!transport.begun[1].isRaised)
    }

    @Test(arguments: policies) func aSlowHolderIsNotWaitedFor(_ policy: CachePolicy) async throws {
        let first = try await manager(policy)
        let second = try await manager(policy, patience: .milliseconds(20))
        let one = Task { try await first.startRequest("GET", "http://h/") }
        await transport.begun[0].wait()
        let other = Task { try await second.startRequest("GET", "http://h/") }
        // The other one is on its way while the first has no answer.
        await transport.begun[1].wait()
        transport.mayEnd[0].raise()
        transport.mayEnd[1].raise()
        #expect(try await one.value.source == .network)
        #expect(try await other.value.source == .network)
    }

    @Test(arguments: policies) func whatIsNotStoredFreesTheLease(_ policy: CachePolicy) async throws {
        let (first, second) = (try await manager(policy), try await manager(policy))
        transport.status.withLock { $0 = 500 }
        for (number, manager) in [first, second].enumerated() {
            transport.mayEnd[number].raise()
            #expect(await failure { try await manager.startRequest("GET", "http://h/") }?.kind == .httpStatus)
        }
        let cancelled = Task { try await first.startRequest("GET", "http://h/") }
        await transport.begun[2].wait()
        cancelled.cancel()
        transport.mayEnd[2].raise()
        _ = await cancelled.result
        transport.mayEnd[3].raise()
        #expect(await failure { try await second.startRequest("GET", "http://h/") }?.kind == .httpStatus)
    }

    @Test func oneOfTwoRefreshes() async throws {
        let clock = TestClock()
        let (first, second) = (try await manager(.http, clock), try await manager(.http, clock))
        transport.mayEnd[0].raise()
        _ = try await first.startRequest("GET", "http://h/")
        try await first.cache.flush()
        clock.advance(by: 70)
        #expect(try await first.startRequest("GET", "http://h/").source == .stale)
        // The first is at it, and has the lease until it has an answer.
        await transport.begun[1].wait()
        for _ in 0..<3 { #expect(try await second.startRequest("GET", "http://h/").source == .stale) }
        transport.mayEnd[1].raise()
        var text: String?
        repeat {
            try await first.cache.flush()
            text = try await second.startRequest("GET", "http://h/").text
        } while text == "0"
        #expect(text == "1")
        #expect(!transport.begun[2].isRaised)
    }
}

/// A network whose answers wait for the test. Each says which one it is.
private final class HeldAnswers: Transport {
    let begun = (0..<5).map { _ in Signal() }
    let mayEnd = (0..<5).map { _ in Signal() }
    let status = Mutex(200)
    private let count = Mutex(0)

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let number = count.withLock { count in
            defer { count += 1 }
            return count
        }
        begun[number].raise()
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

/// A store that tells when a lease was refused.
private final class WatchedLeases: ForwardingStore, CacheLeasing {
    let store: any CacheStore
    private let refused: Signal

    init(_ store: TieredStore, _ refused: Signal) {
        self.store = store
        self.refused = refused
    }

    func lease(_ name: String, for duration: Duration) async throws -> CacheLease? {
        let lease = try await store.leasing?.lease(name, for: duration)
        if lease == nil { refused.raise() }
        return lease
    }
}
