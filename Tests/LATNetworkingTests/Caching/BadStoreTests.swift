import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

/// An app's store that blocks, throws or returns wrong data: requests continue and get the right response.
@Suite(.timeLimit(.minutes(5))) struct BadStoreTests {
    private enum Way: Sendable, CustomTestStringConvertible {
        /// Every operation blocks until the end of the test, so any response proves that it did not wait for the store.
        case held
        case throwing
        case defective(FaultyCacheStore.Defect)

        static let all: [Way] = [.held, .throwing] + FaultyCacheStore.Defect.allCases.map { .defective($0) }

        var testDescription: String { "\(self)" }
    }

    private struct Row: Sendable, CustomTestStringConvertible {
        let policy: CachePolicy
        let form: CacheUserTests.Form
        let way: Way
        var testDescription: String { "\(policy) \(form) \(way)" }

        /// Whether each request looks up the store.
        var looks: Bool {
            switch policy {
            case .cacheOnly, .cacheElseNetwork, .http: true
            default: false
            }
        }

        /// Whether the store finishes its operations.
        var isDoing: Bool { if case .held = way { false } else { true } }

        var stores: Bool { policy != .networkOnly && policy != .cacheOnly }

        /// Whether a stored response is delivered before the network request.
        var delivers: Bool { policy == .cacheThenNetwork && form == .closure }
    }

    private static let policies: [CachePolicy] = [
        .networkOnly, .writeOnly, .cacheOnly, .cacheElseNetwork(.forever), .cacheThenNetwork, .networkElseCache, .http,
    ]

    private static let rows = policies.flatMap { policy in
        [CacheUserTests.Form.async, .closure, .stream].flatMap { form in
            Way.all.map { Row(policy: policy, form: form, way: $0) }
        }
    }

    /// The body for a user: a small one is part of the entry, a large one is read separately.
    private static func answer(_ user: String) -> String { String(repeating: user, count: user == "bob" ? 10_000 : 2) }

    @Test(arguments: rows) private func faultyStoreYieldsCorrectResponses(_ row: Row) async throws {
        let server = try MockServer()
        server.fallback { request in
            .text(Self.answer(request.headers["Authorization"] ?? "nobody")).header("Cache-Control", "max-age=60")
        }
        let directory = try TemporaryDirectory()
        let clock = TestClock()
        let good = try StoreKind.disk.store(in: directory.path(of: "cache"))
        let held = AwkwardStore(.hangs, over: good)
        let bad: any CacheStore =
            switch row.way {
            case .held: held
            case .throwing: FaultyCacheStore(good, .throwing(.cache))
            case .defective(let defect): FaultyCacheStore(good, .defective(defect))
            }
        let store = SwitchedStore(good)
        let faults = Log<NetworkError>()
        let manager = try CentralRequestManager.caching(row.policy, clock) {
            $0.cacheStore = store
            $0.cacheObserver = { faults.append($0) }
            if case .held = row.way { $0.cacheLookUpTimeout = .milliseconds(5) }
        }
        func request(_ user: String, _ policy: CachePolicy) async throws -> HTTPResponse {
            try await manager.startRequest("GET", server.url("/me"), cache: policy, headers: ["Authorization": user])
        }
        // Nothing is stored for eve.
        for user in ["ada", "bob"] { _ = try await request(user, .writeOnly) }
        try await manager.cache.flush()
        store.use(bad)

        var count: Int64 = 0
        for _ in 0..<(row.policy == .cacheOnly ? 1 : 2) {
            for user in ["ada", "eve", "bob"] {
                count += 1
                do {
                    let answers = try await row.form.ask(manager, server.url("/me"), as: user)
                    #expect(!answers.isEmpty && answers.allSatisfy { $0 == Self.answer(user) })
                } catch let error as NetworkError {
                    #expect(row.policy == .cacheOnly && error.kind == .cache, "\(error)")
                }
                // Otherwise the next request may find a pending write.
                if row.isDoing { try await manager.cache.flush() }
            }
            clock.advance(by: 61)
        }
        let looked = manager.cache.statistics
        if row.looks { #expect(looked.lookups == count) }
        if case .held = row.way {
            #expect(looked.stored == 2 && (looked.lateLookups > 0) == (row.looks || row.delivers))
        }
        held.release()
        try await manager.cache.flush()
        // Each kind of operation is reported once.
        let messages = faults.elements.map(\.message)
        if case .throwing = row.way {
            let statistics = manager.cache.statistics
            #expect(messages.count == (row.looks || row.delivers ? 1 : 0) + (row.stores ? 1 : 0))
            #expect(statistics.misses == statistics.lookups && statistics.stored == 2)
            #expect((statistics.notStored > 0) == row.stores)
        } else {
            #expect(Set(messages).count == messages.count, "\(messages)")
        }

        // With a working store, each user finds their own response.
        store.use(good)
        for user in ["ada", "bob"] {
            // A look-up of a busy disk may exceed its second.
            try await eventually { (try? await request(user, .cacheOnly))?.text == Self.answer(user) }
        }
    }

    // MARK: Truncated bodies

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func truncatedCachedStreamFails(policy: CachePolicy) async throws {
        let byteCount: Int64 = 3 << 20
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: byteCount).header("Cache-Control", "max-age=60") }
        let directory = try TemporaryDirectory()
        let good = try StoreKind.disk.store(in: directory.path(of: "cache"))
        let faults = Log<NetworkError>()
        let manager = try CentralRequestManager.caching(policy) {
            $0.cacheStore = FaultyCacheStore(good, .defective(.body))
            $0.cacheObserver = { faults.append($0) }
        }
        _ = try await manager.startRequest("GET", server.url())
        try await manager.cache.flush()
        let stream = try await manager.stream("GET", server.url())
        #expect(stream.source == .diskCache)
        #expect(await failure { _ = try await stream.body.collect(upTo: .max) }?.kind == .cache)
        // A collected body is fetched from the server instead.
        let collected = try await manager.startRequest("GET", server.url())
        #expect(collected.source == .network && collected.data.count == byteCount && server.requestCount == 2)
        #expect(faults.elements.count == 1 && faults.elements.first?.message.contains("bytes") == true)
    }

    // MARK: Slow writes

    @Test(arguments: [CachePolicy.writeOnly, .http, .cacheElseNetwork(.forever), .cacheThenNetwork, .networkElseCache])
    func fullWriteQueueSkipsWrites(policy: CachePolicy) async throws {
        let byteCount: Int64 = 5 << 20
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: byteCount).header("Cache-Control", "max-age=60") }
        let good = MemoryStore(byteLimit: 1 << 30)
        let held = AwkwardStore(.hangs, over: good)
        let manager = try CentralRequestManager.caching(policy) {
            $0.cacheStore = held
            $0.cacheLookUpTimeout = .milliseconds(5)
            $0.cacheObserver = { _ in }
        }
        // At most 32 MiB of writes may be pending.
        for number in 0..<8 {
            let response = try await manager.startRequest("GET", server.url("/\(number)"))
            #expect(response.data.count == byteCount)
        }
        let waiting = manager.cache.statistics
        #expect(waiting.stored == 0 && waiting.skippedWrites == 2 && waiting.notStored == 2)
        held.release()
        try await manager.cache.flush()
        #expect(manager.cache.statistics.stored == 6)
        #expect(try await good.usage().entryCount == 6)
    }

    @Test(arguments: [CachePolicy.http, .writeOnly]) func streamIgnoresABlockedStore(policy: CachePolicy) async throws {
        let byteCount: Int64 = 40 << 20
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: byteCount).header("Cache-Control", "max-age=60") }
        let good = MemoryStore(byteLimit: 1 << 30)
        let held = AwkwardStore(.hangs, over: good)
        let manager = try CentralRequestManager.caching(policy) {
            $0.cacheStore = held
            $0.cacheLookUpTimeout = .milliseconds(5)
            $0.cacheObserver = { _ in }
        }
        var count: Int64 = 0
        for try await chunk in try await manager.stream("GET", server.url()).body { count += Int64(chunk.count) }
        #expect(count == byteCount && manager.cache.statistics.skippedWrites == 1)
        held.release()
        try await manager.cache.flush()
        #expect(try await good.usage().entryCount == 0)
    }
}

/// A store that a test can replace.
private final class SwitchedStore: ForwardingStore {
    private let current: Mutex<any CacheStore>

    init(_ store: any CacheStore) { current = Mutex(store) }

    func use(_ other: any CacheStore) { current.withLock { $0 = other } }

    var store: any CacheStore { current.withLock { $0 } }
}

/// A misbehaving store.
final class AwkwardStore: CacheStore {
    enum Way: Sendable {
        /// Every operation waits for `release()`.
        case hangs
        /// Every look-up returns entries of another request, without a body.
        case lies
    }

    private let way: Way
    private let store: any CacheStore
    private let end = Event()

    init(_ way: Way, over store: any CacheStore = MemoryStore()) {
        self.way = way
        self.store = store
    }

    func release() { end.happen() }

    private func act() async {
        if way == .hangs { await end.wait() }
    }

    func entries(for primaryKey: String) async throws -> [CacheEntry] {
        await act()
        guard way == .lies else { return try await store.entries(for: primaryKey) }
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        var entry = CacheEntry(
            key: CacheKey(primary: primaryKey), method: "GET", url: "http://other/", status: 200,
            headers: ["Cache-Control": "max-age=600"], requestTime: now, responseTime: now)
        entry.bodyByteCount = 3
        var other = entry
        other.key.variant = "another's"
        return [other, entry]
    }

    func body(of entry: CacheEntry) async throws -> ResponseBody? {
        await act()
        return way == .lies ? nil : try await store.body(of: entry)
    }

    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        await act()
        return try await store.writer(for: entry, replacing: replacing)
    }

    func update(_ entry: CacheEntry) async throws -> Bool {
        await act()
        return try await store.update(entry)
    }

    func touch(_ key: CacheKey, at time: Date) async throws {
        await act()
        try await store.touch(key, at: time)
    }

    func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        await act()
        return try await store.remove(selection)
    }
}
