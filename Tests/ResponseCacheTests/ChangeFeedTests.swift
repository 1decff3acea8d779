import Foundation
import HTTPCore
import LATTesting
import SQLite
import TestSupport
import Testing

@testable import ResponseCache

/// The feed of changes by others on disk, and how a tier follows it.
@Suite(.timeLimit(.minutes(5))) struct ChangeFeedTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func disk(key: UInt8? = nil) throws -> DiskStore {
        try .plain(directory.path(of: "cache"), key: key.map { Data(repeating: $0, count: 32) })
    }

    private func tiers(key: UInt8? = nil) throws -> TieredStore {
        TieredStore(memory: MemoryStore(), disk: try disk(key: key))
    }

    /// The primary keys of the copies in memory.
    private func copies(_ store: TieredStore) async throws -> Set<String> {
        Set(try await store.upper.inspected().entries(.all).map(\.key.primary))
    }

    private func fill(_ store: TieredStore, _ keys: [String]) async throws {
        for key in keys {
            var entry = Make.entry(key, server: key)
            entry.tags = ["tag-" + key]
            try await store.put(entry)
        }
    }

    @Test(arguments: [nil, 7] as [UInt8?]) func changeByOthersRemovesOneCopy(_ key: UInt8?) async throws {
        let (one, two) = (try tiers(key: key), try tiers(key: key))
        try await fill(one, ["a", "b", "c", "d"])
        for key in ["a", "b", "c", "d"] { try await eventually { try await two.first(key)?.tier == .memory } }
        #expect(try await copies(two) == ["a", "b", "c", "d"])
        try await one.put(Make.entry("a"), Data("new".utf8))
        // The change is seen by the very next look-up.
        #expect(try await two.data("a") == Data("new".utf8))
        try await eventually { try await two.first("b")?.tier == .memory }
        #expect(try await copies(two).isSuperset(of: ["b", "c", "d"]))
        // Removals by tag and by server row.
        try await one.remove(.tag("tag-b"))
        #expect(try await two.first("b") == nil)
        try await one.remove(.server("c"))
        #expect(try await two.first("c") == nil)
        try await eventually { try await two.first("d")?.tier == .memory }
        #expect(try await copies(two).contains("d"))
    }

    @Test func lookUpSeesEarlierCommits() async throws {
        let (one, two) = (try tiers(), try tiers())
        for number in 0..<60 {
            try await one.put(Make.entry("a"), Data("\(number)".utf8))
            #expect(try await two.data("a") == Data("\(number)".utf8))
            if number % 3 == 0 { #expect(try await two.data("a") == Data("\(number)".utf8)) }
        }
    }

    @Test func feedOmitsOwnChanges() async throws {
        let store = try disk()
        let feed = store.invalidations()
        for number in 0..<20 { try await store.put(Make.entry("k\(number)")) }
        try await store.remove(.all)
        #expect(feed.isQuiet)
        feed.finish()
        var iterator = feed.makeAsyncIterator()
        #expect(await iterator.next() == nil)
    }

    /// Another process holds the locks that a reader needs to repair the shared memory.
    @Test func busyIndexIsReadLater() async throws {
        let (one, two) = (try disk(), try disk())
        try await one.put(Make.entry("a"))
        #expect(try await two.has("a"))
        let feed = two.invalidations()
        try await eventually { feed.isQuiet }
        let index = directory.path(of: "cache/index-4.sqlite")
        let connection = try SQLiteConnection(path: index, mode: .reading, busyTimeout: .zero)
        connection.keepLogOnClose()
        _ = try connection.number("SELECT count(*) FROM entries")
        let script = """
            import fcntl, os, signal
            file = open(os.environ["INDEX"] + "-shm", "r+b")
            fcntl.lockf(file, fcntl.LOCK_EX, 3, 120)
            os.kill(os.getpid(), signal.SIGSTOP)
            """
        let locker = try ChildProcess(["/usr/bin/python3", "-c", script], environment: ["INDEX": index])
        #expect(locker.waitUntilStopped())
        // The checksum no longer agrees with that of the header's second copy.
        let header = try #require(UnsafeMutableRawPointer(mutating: connection.sharedHeader))
        header.storeBytes(of: ~SQLiteConnection.checksum(ofHeader: header), toByteOffset: 40, as: UInt64.self)
        #expect(!feed.isQuiet)
        locker.kill()
        locker.wait()
        try await eventually { feed.isQuiet }
        feed.finish()
        var iterator = feed.makeAsyncIterator()
        #expect(await iterator.next() == nil, "what is in memory is still right")
    }

    @Test func feedReportsChangesByOthers() async throws {
        let (one, two) = (try disk(), try disk())
        try await one.put(Make.entry("first"))
        #expect(try await two.has("first"))
        let feed = two.invalidations()
        #expect(feed.isQuiet)
        try await one.put(Make.entry("a"))
        try await one.remove(.urlPrefix("http://h/first"))
        try await one.remove(.tag("nobody has it"))
        #expect(!feed.isQuiet)
        var iterator = feed.makeAsyncIterator()
        #expect(await iterator.next() == .primaryKey("a"))
        #expect(await iterator.next() == .urlPrefix("http://h/first"))
        // An element counts as handled only when the next one is requested.
        #expect(!feed.isQuiet)
        feed.finish()
        #expect(await iterator.next() == nil)
    }

    @Test func feedFarBehindReportsAll() async throws {
        let (one, two) = (try disk(), try disk())
        try await one.put(Make.entry("first"))
        #expect(try await two.has("first"))
        let feed = two.invalidations()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<1_100 { group.addTask { try await one.update(Make.entry("first")) } }
            try await group.waitForAll()
        }
        #expect(!feed.isQuiet)
        var iterator = feed.makeAsyncIterator()
        #expect(await iterator.next() == .all)
    }

    @Test func changeLogStaysBounded() async throws {
        let store = try disk()
        try await store.put(Make.entry("a"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6_000 { group.addTask { _ = try await store.update(Make.entry("a")) } }
            try await group.waitForAll()
        }
        let index = try SQLiteConnection(
            path: DiskLayout(directory.path(of: "cache")).index, mode: .reading, busyTimeout: .seconds(5))
        let count = try #require(try index.number("SELECT count(*) FROM changes"))
        #expect(count <= CacheIndex.changeLimit + 1_000)
        #expect(try index.number("SELECT max(id) FROM changes") == 6_001)
    }

    @Test func sealedChangeLogHasNoPlaintext() async throws {
        let store = try disk(key: 7)
        try await store.put(Make.entry("needle-in-clear"))
        try await store.remove(.url("http://h/needle-in-clear"))
        try await store.flush()
        for name in directory.contents {
            #expect(directory.read(name)?.firstRange(of: Data("needle-in-clear".utf8)) == nil, "\(name)")
        }
    }

    @Test func removalOfAllReachesOtherKeys() async throws {
        let (one, two) = (try disk(key: 1), try tiers(key: 2))
        try await fill(two, ["a"])
        #expect(try await two.first("a")?.tier == .memory)
        try await one.remove(.all)
        #expect(try await two.first("a") == nil)
    }

    // MARK: Tiers of any two stores

    @Test func tierFollowsAnyFeed() async throws {
        let far = FeedStore()
        let store = TieredStore(MemoryStore(), over: far)
        try await fill(store, ["a", "b"])
        #expect(try await store.first("a")?.tier == .memory && far.lookUpCount == 0)
        far.feeds.send(.primaryKey("a"))
        _ = try await store.first("a")
        #expect(far.lookUpCount == 1)
        // Only the copy of "a" was removed.
        #expect(try await !store.upper.entries(for: "b").isEmpty)
        #expect(store.inspecting == nil && store.invalidating != nil)
        await #expect(throws: NetworkError.self) { try await store.usage() }
    }

    @Test func copiesOfAnEarlierTierAreIgnored() async throws {
        let near = try disk()
        let far = MemoryStore()
        try await TieredStore(near, over: far).put(Make.entry("a"), Data("old".utf8))
        #expect(try await near.has("a"))
        // No tier follows this change.
        try await far.put(Make.entry("a"), Data("new".utf8))
        #expect(try await TieredStore(near, over: far).data("a") == Data("new".utf8))
        // A copy that is made after the test would bring its folder back.
        try await eventually { try await near.data("a") == Data("new".utf8) }
    }

    @Test func largeVariantIsFoundBesideSmallOne() async throws {
        let store = TieredStore(MemoryStore(), over: MemoryStore(), copyLimit: 1_000)
        try await store.put(Make.entry("a", variant: "en"))
        try await store.put(Make.entry("a", variant: "de"), Make.body(5_000))
        #expect(Set(try await store.entries(for: "a").map(\.key.variant)) == ["en", "de"])
    }

    @Test func failingUpperStoreIsBypassed() async throws {
        let store = TieredStore(FaultyCacheStore(MemoryStore(), .throwing(.cache)), over: MemoryStore())
        try await fill(store, ["a"])
        #expect(try await store.has("a"))
        try await store.remove(.tag("tag-a"))
        #expect(try await store.first("a") == nil)
    }

    /// Readers copy while writers store; in the end the newest entry must be found.
    @Test func copiesAreCurrentAfterARace() async throws {
        let lower = MemoryStore()
        for round in 0..<40 {
            let store = TieredStore(MemoryStore(), over: lower)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in 0..<6 {
                    group.addTask {
                        for number in 0..<20 {
                            switch worker {
                            case 0, 1: try await store.put(Make.entry("a"), Data("\(worker) \(number)".utf8))
                            case 2 where number % 7 == 0: try await store.remove(.primaryKey("a"))
                            default: _ = try await store.data("a")
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await store.data("a") == lower.data("a"), "round \(round)")
        }
    }
}

/// A store like a remote one: it reports changes by others but cannot list its entries.
private final class FeedStore: ForwardingStore, CacheInvalidating {
    let feeds = CacheInvalidations.Group()
    let store: any CacheStore = MemoryStore()
    private let count = Box(0)

    var lookUpCount: Int { count.value }

    func invalidations() -> CacheInvalidations { feeds.begin() }

    func entries(for primaryKey: String) async throws -> [CacheEntry] {
        count.change { $0 += 1 }
        return try await store.entries(for: primaryKey)
    }
}
