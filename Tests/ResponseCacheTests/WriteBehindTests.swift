import Foundation
import HTTPCore
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import ResponseCache

/// Changes that are written in the background: they are found at once, block no caller and keep their order.
@Suite(.timeLimit(.minutes(2))) struct WriteBehindTests {
    private func behind(
        _ store: any CacheStore, _ change: (inout WriteBehind.Settings) -> Void = { _ in },
        report: @escaping @Sendable (any Error, String) -> Void = { _, _ in }
    ) -> WriteBehind {
        var settings = WriteBehind.Settings()
        settings.lookUpTimeout = .seconds(30)
        change(&settings)
        return WriteBehind(store, settings, now: { Make.start + 10 }, prepare: {}, report: report)
    }

    @Test func waitingEntryIsFound() async throws {
        let store = HeldStore()
        let behind = behind(store)
        #expect(await behind.store(Make.entry("a"), Data("one".utf8)))
        let entry = try #require(await behind.entries(for: "a").first)
        #expect(entry.bodyByteCount == 3)
        #expect(await behind.body(of: entry)?.data == Data("one".utf8))
        #expect(behind.waitingByteCount > 0)
        store.release()
        await behind.settle()
        #expect(behind.waitingByteCount == 0)
        #expect(try await store.memory.data("a") == Data("one".utf8))
        // The body from the look-up is still valid.
        #expect(await behind.body(of: entry)?.data == Data("one".utf8))
    }

    @Test func lastChangeOfAKeyWins() async throws {
        let store = HeldStore()
        let behind = behind(store)
        for text in ["one", "two", "three"] { _ = await behind.store(Make.entry("a"), Data(text.utf8)) }
        var entry = try #require(await behind.entries(for: "a").first)
        entry.headers["X-New"] = "1"
        await behind.update(entry)
        #expect(await behind.entries(for: "a").first?.headers["X-New"] == "1")
        store.release()
        await behind.settle()
        #expect(try await store.memory.data("a") == Data("three".utf8))
        #expect(try await store.memory.first("a")?.headers["X-New"] == "1")
    }

    @Test func variantsWaitSideBySide() async throws {
        let store = HeldStore()
        let behind = behind(store)
        try await store.memory.put(Make.entry("a", variant: "x"))
        _ = await behind.store(Make.entry("a", variant: "y"), Data("y".utf8))
        #expect(await behind.entries(for: "a").map(\.key.variant) == ["y", "x"])
        store.release()
    }

    @Test func fullQueueSkipsAndCountsWrites() async throws {
        let store = HeldStore()
        let behind = behind(store) { $0.queueByteLimit = 10_000 }
        #expect(await behind.store(Make.entry("a"), Make.body(9_000)))
        #expect(await !behind.store(Make.entry("b"), Make.body(9_000)))
        #expect(behind.ledger.counters.statistics(of: nil).skippedWrites == 1)
        #expect(await behind.entries(for: "b").isEmpty)
        store.release()
        await behind.settle()
        #expect(await behind.store(Make.entry("b"), Make.body(9_000)))
        await behind.settle()
        #expect(try await store.memory.has("b"))
    }

    @Test func fullQueueRemovesWhatIsOlder() async throws {
        let store = HeldStore()
        let behind = behind(store) { $0.queueByteLimit = 10_000 }
        try await store.memory.put(Make.entry("stored"))
        try await store.memory.put(Make.entry("other"))
        let found = try #require(await behind.entries(for: "stored").first)
        #expect(await behind.store(Make.entry("waiting"), Data("older".utf8)))
        let waiting = try #require(await behind.entries(for: "waiting").first)
        #expect(await behind.store(Make.entry("large"), Make.body(9_000)))
        for key in ["stored", "waiting"] {
            #expect(await !behind.store(Make.entry(key, at: Make.start + 5), Make.body(9_000)))
            #expect(await behind.entries(for: key).isEmpty, "\(key)")
        }
        // An update or a use of an older entry does not bring it back.
        for entry in [found, waiting] {
            await behind.update(entry)
            behind.touch(entry, interval: 0)
            #expect(await behind.entries(for: entry.key.primary).isEmpty)
        }
        store.release()
        await behind.settle()
        for key in ["stored", "waiting"] { #expect(try await !store.memory.has(key), "\(key)") }
        for key in ["large", "other"] { #expect(try await store.memory.has(key), "\(key)") }
        #expect(behind.waitingByteCount == 0)
    }

    @Test func fullQueueRemovesWhatIsOlderInMemoryAndOnDisk() async throws {
        let directory = try TemporaryDirectory()
        let disk = try DiskStore.plain(directory.path(of: "cache"))
        let behind = behind(TieredStore(memory: MemoryStore(), disk: disk)) { $0.queueByteLimit = 10_000 }
        #expect(await behind.store(Make.entry("a"), Data("older".utf8)))
        await behind.settle()
        try await eventually("the copy") { await behind.entries(for: "a").first?.tier == .memory }
        // A stream takes all the room.
        #expect(behind.reserve(10_000))
        #expect(await !behind.store(Make.entry("a", at: Make.start + 5), Data("newer".utf8)))
        #expect(await behind.entries(for: "a").isEmpty)
        await behind.settle()
        #expect(await behind.entries(for: "a").isEmpty)
        #expect(try await !disk.has("a"))
        behind.release(10_000)
        #expect(await behind.store(Make.entry("a", at: Make.start + 9), Data("newest".utf8)))
        await behind.settle()
        #expect(try await disk.data("a") == Data("newest".utf8))
        // A pinned entry stays.
        var pinned = try #require(await disk.first("a"))
        pinned.isPinned = true
        try await disk.update(pinned)
        #expect(behind.reserve(10_000))
        #expect(await !behind.store(Make.entry("a", at: Make.start + 12), Data("last".utf8)))
        await behind.settle()
        #expect(try await disk.data("a") == Data("newest".utf8))
        behind.release(10_000)
    }

    @Test(arguments: Kind.allCases, [false, true])
    func tooLargeResponseRemovesWhatIsOlder(kind: Kind, isStream: Bool) async throws {
        let directory = try TemporaryDirectory()
        let store = try kind.make(in: directory, limit: 40_000)
        let behind = behind(store)
        for isPinned in [true, false] {
            let key = isPinned ? "pinned" : "other"
            #expect(await behind.store(Make.entry(key), Data("older".utf8)))
            await behind.settle()
            var older = try #require(try await store.first(key))
            older.isPinned = isPinned
            try await store.update(older)
            let newer = Make.entry(key, at: Make.start + 5)
            if isStream {
                let stream = behind.stream(newer)
                for _ in 0..<6 { stream.append(Make.body(10_000)) }
                stream.end(isWhole: true)
            } else {
                _ = await behind.store(newer, Make.body(60_000))
            }
            await behind.settle()
            try await eventually("the removal") { try await store.has(key) == isPinned }
            #expect(await behind.entries(for: key).isEmpty != isPinned)
        }
        #expect(try await store.data("pinned") == Data("older".utf8))
    }

    /// A pinned entry leaves too little room, which the store sees only when the stream is to be stored.
    @Test func streamRefusedAtItsEndRemovesWhatIsOlder() async throws {
        let store = MemoryStore(byteLimit: 40_000)
        let behind = behind(store)
        var pinned = Make.entry("pinned")
        pinned.isPinned = true
        try await store.put(pinned, Make.body(20_000))
        try await store.put(Make.entry("s"), Data("older".utf8))
        let stream = behind.stream(Make.entry("s", at: Make.start + 5))
        stream.append(Make.body(30_000))
        stream.end(isWhole: true)
        await behind.settle()
        #expect(try await !store.has("s"))
        #expect(try await store.has("pinned"))
    }

    @Test func tooManyDiscardsRemoveAllResponses() {
        var pending = PendingChanges(byteLimit: 0)
        let count = PendingChanges.discardLimit
        for number in 0..<count { pending.discard(CacheKey(primary: "k\(number)"), at: Make.start) }
        #expect(pending.view(of: "a").removals.isEmpty)
        pending.discard(CacheKey(primary: "a"), at: Make.start)
        #expect(pending.view(of: "a").removals.map(\.selection) == [.responses])
        for _ in 0..<2 {
            for work in pending.next(.max) { pending.end(work, succeeded: true) }
        }
        #expect(pending.isEmpty && pending.unfinished.isEmpty && pending.byteCount == 0)
        // A later response replaces the discard of its key.
        for _ in 0..<2 * count {
            pending.discard(CacheKey(primary: "k"), at: Make.start)
            let isTaken = pending.store(Make.entry("k"), Data())
            #expect(isTaken)
        }
        #expect(pending.view(of: "a").removals.isEmpty)
    }

    @Test func refusedResponseUncoversNoOlderCopy() async throws {
        let upper = WatchedStore(MemoryStore())
        let lower = WatchedStore(HeldStore())
        let behind = behind(TieredStore(upper, over: lower))
        try await lower.watched.memory.put(Make.entry("a"), Data("old".utf8))
        _ = await behind.entries(for: "a")
        try await eventually("the copy") { try await upper.has("a") }
        lower.watched.findsNothing.withLock { $0 = true }
        #expect(await behind.store(Make.entry("a"), Data("new".utf8)))
        // Another response overlapped with the new one, so that neither is used from now on.
        lower.accepts.withLock { $0 = false }
        let found = Mutex<[Data?]>([])
        upper.willRemove.withLock {
            $0 = {
                let entry = await behind.entries(for: "a").first
                let data = if let entry { await behind.body(of: entry)?.data } else { nil as Data? }
                found.withLock { $0.append(data) }
            }
        }
        #expect(await behind.store(Make.entry("a"), Data("other".utf8)))
        #expect(found.withLock { $0 } == [Data("new".utf8)])
        #expect(await behind.entries(for: "a").isEmpty)
        lower.watched.release()
    }

    @Test func removalHidesAtOnceAndKeepsOrder() async throws {
        let store = HeldStore()
        let behind = behind(store)
        try await store.memory.put(Make.entry("a"))
        try await store.memory.put(Make.entry("b"))
        _ = await behind.store(Make.entry("c"), Data("c".utf8))
        await behind.remove(.urlPrefix("http://h/"))
        for key in ["a", "b", "c"] { #expect(await behind.entries(for: key).isEmpty, "\(key)") }
        _ = await behind.store(Make.entry("b"), Data("later".utf8))
        #expect(await behind.entries(for: "b").count == 1)
        store.release()
        await behind.settle()
        #expect(try await !store.memory.has("a"))
        #expect(try await !store.memory.has("c"))
        #expect(try await store.memory.data("b") == Data("later".utf8))
    }

    @Test func updateDoesNotBringBackARemovedEntry() async throws {
        let store = HeldStore()
        let behind = behind(store)
        _ = await behind.store(Make.entry("a"), Data("a".utf8))
        var entry = try #require(await behind.entries(for: "a").first)
        await behind.remove(.urlPrefix("http://h/"))
        entry.headers["X-New"] = "1"
        await behind.update(entry)
        #expect(await behind.entries(for: "a").isEmpty)
        store.release()
        await behind.settle()
        #expect(try await !store.memory.has("a"))
    }

    @Test func updateOfAnEntryThatWasStoredMeanwhileIsKept() async throws {
        let store = HeldStore()
        let behind = behind(store)
        _ = await behind.store(Make.entry("a"), Data("a".utf8))
        var entry = try #require(await behind.entries(for: "a").first)
        store.release()
        await behind.settle()
        entry.headers["X-New"] = "1"
        await behind.update(entry)
        await behind.settle()
        #expect(try await store.memory.first("a")?.headers["X-New"] == "1")
        #expect(try await store.memory.data("a") == Data("a".utf8))
    }

    @Test func updateDoesNotReplaceANewerEntryThatWaits() async throws {
        let store = HeldStore()
        let behind = behind(store)
        _ = await behind.store(Make.entry("a"), Data("old".utf8))
        var entry = try #require(await behind.entries(for: "a").first)
        _ = await behind.store(Make.entry("a", at: Make.start + 20), Data("new".utf8))
        entry.headers["X-New"] = "1"
        entry.responseTime = Make.start + 30
        await behind.update(entry)
        store.release()
        await behind.settle()
        #expect(try await store.memory.data("a") == Data("new".utf8))
        #expect(try await store.memory.first("a")?.headers["X-New"] == nil)
    }

    @Test func failedRemovalIsRetried() async throws {
        let store = HeldStore(isHeld: false)
        let reports = Reports()
        let behind = behind(store, report: { reports.add($1) })
        try await store.memory.put(Make.entry("a"))
        store.failsToRemove.withLock { $0 = true }
        await behind.remove(.url("http://h/a"))
        await behind.settle()
        #expect(await behind.entries(for: "a").isEmpty)
        #expect(try await store.memory.has("a"))
        #expect(reports.operations.contains("write"))
        // A later response is found nevertheless.
        _ = await behind.store(Make.entry("a", at: Make.start + 20), Data("new".utf8))
        #expect(await behind.entries(for: "a").count == 1)
        try await store.memory.put(Make.entry("b"))
        await behind.remove(.url("http://h/b"))
        await behind.settle()
        store.failsToRemove.withLock { $0 = false }
        await behind.settle()
        #expect(try await !store.memory.has("b"))
    }

    @Test func entryThatIsNotFoundIsRemovedToo() async throws {
        let store = HeldStore(isHeld: false)
        let reports = Reports()
        let behind = behind(store, report: { reports.add($1) })
        try await store.memory.put(Make.entry("a"))
        store.findsNothing.withLock { $0 = true }
        store.failsToRemove.withLock { $0 = true }
        await behind.remove(.primaryKey("a"))
        await behind.settle()
        #expect(reports.operations.contains("write"))
        store.failsToRemove.withLock { $0 = false }
        await behind.settle()
        #expect(try await !store.memory.has("a"))
    }

    @Test func repeatedFailedRemovalIsKeptOnce() {
        var pending = PendingChanges(byteLimit: .max)
        for second in 0..<3 {
            pending.remove(.url("http://h/a"), at: Make.start + Double(second))
            for work in pending.next() { pending.end(work, succeeded: false) }
        }
        #expect(pending.view(of: "a").removals.count == 1)
        // The last request counts.
        #expect(pending.view(of: "a").applied(to: [Make.entry("a", at: Make.start + 2)]).isEmpty)
        #expect(pending.view(of: "a").applied(to: [Make.entry("a", at: Make.start + 3)]).count == 1)
        pending.retryFailedRemovals()
        pending.remove(.url("http://h/a"), at: Make.start + 3)
        let work = pending.next()
        #expect(work.count == 1)
        // A removal that the store is carrying out may miss what was stored since it began.
        pending.remove(.url("http://h/a"), at: Make.start + 4)
        pending.retryFailedRemovals()
        #expect(pending.next().count == 1)
        for work in work { pending.end(work, succeeded: true) }
        #expect(pending.view(of: "a").removals.count == 1)
    }

    @Test func tooManyRemovalsLeaveTheAppsValues() {
        var pending = PendingChanges(byteLimit: .max)
        for number in 0...1_000 { pending.remove(.url("http://h/\(number)"), at: Make.start) }
        let selections = pending.next(.max).map { work in
            if case .removal(_, let selection) = work { selection } else { CacheSelection.all }
        }
        #expect(selections == [.responses])
        let left = pending.view(of: "a").applied(to: [Make.entry("a"), Make.entry("b", url: "value:b")])
        #expect(left.map(\.key.primary) == ["b"])
    }

    @Test func hangingLookUpIsAMiss() async throws {
        let store = HeldStore(holdsReading: true)
        let reports = Reports()
        let behind = behind(store, { $0.lookUpTimeout = .milliseconds(5) }, report: { reports.add($1) })
        for number in 0..<20 { #expect(await behind.entries(for: "k\(number)").isEmpty) }
        #expect(behind.ledger.counters.statistics(of: nil).lateLookups == 20)
        #expect(Set(reports.operations) == ["look up in time"])
        // Only a few look-ups are running.
        #expect(store.lookUpCount.load(ordering: .relaxed) <= 8)
        store.release()
    }

    @Test func completedStreamIsFound() async throws {
        let store = HeldStore(isHeld: false)
        let behind = behind(store)
        let keeper = behind.stream(Make.entry("s"))
        for _ in 0..<4 { keeper.append(Make.body(100_000)) }
        #expect(await behind.entries(for: "s").isEmpty)
        keeper.end(isWhole: true)
        #expect(await behind.entries(for: "s").first?.bodyByteCount == 400_000)
        #expect(behind.waitingByteCount == 0)
    }

    /// A server that sends single bytes while the store is slow.
    @Test(.timeLimit(.minutes(1))) func tinyChunksWaitTogether() async throws {
        let store = HeldStore()
        let behind = behind(store)
        let keeper = behind.stream(Make.entry("s"))
        let bytes = Make.body(500_000)
        for byte in bytes { keeper.append(Data([byte])) }
        keeper.end(isWhole: true)
        store.release()
        await behind.settle()
        #expect(try await store.memory.data("s") == bytes)
        #expect(behind.waitingByteCount == 0)
    }

    @Test func incompleteStreamIsNotStored() async throws {
        let store = HeldStore(isHeld: false)
        let behind = behind(store)
        let keeper = behind.stream(Make.entry("s"))
        keeper.append(Make.body(1_000))
        keeper.end(isWhole: false)
        keeper.end(isWhole: true)
        await behind.settle()
        #expect(await behind.entries(for: "s").isEmpty)
    }

    @Test func streamBeyondTheQueueIsSkipped() async throws {
        let store = HeldStore()
        let behind = behind(store) { $0.queueByteLimit = 100_000 }
        try await store.memory.put(Make.entry("s"), Data("older".utf8))
        let keeper = behind.stream(Make.entry("s"))
        keeper.append(Make.body(60_000))
        try await eventually { store.heldCount == 1 }
        for _ in 0..<3 { keeper.append(Make.body(60_000)) }
        keeper.end(isWhole: true)
        #expect(behind.ledger.counters.statistics(of: nil).skippedWrites == 1)
        // The first chunk still waits for the store.
        #expect(behind.waitingByteCount == 60_000)
        #expect(await behind.entries(for: "s").isEmpty)
        store.release()
        await behind.settle()
        try await eventually { behind.waitingByteCount == 0 }
        #expect(await behind.entries(for: "s").isEmpty)
    }

    @Test func useOfWaitingEntryIsRecorded() async throws {
        let store = HeldStore()
        let behind = behind(store)
        _ = await behind.store(Make.entry("a"), Data("a".utf8))
        behind.touch(try #require(await behind.entries(for: "a").first), interval: 600)
        #expect(await behind.entries(for: "a").first?.lastUse == Make.start + 10)
        store.release()
        await behind.settle()
        #expect(try await store.memory.first("a")?.lastUse == Make.start + 10)
    }

    @Test func useWhileAnEntryIsWrittenIsRecorded() async throws {
        let store = HeldStore()
        let behind = behind(store) { $0.queueByteLimit = 10_000 }
        _ = await behind.store(Make.entry("a"), Make.body(9_000))
        try await eventually { store.heldCount == 1 }
        // The queue has no room for the entry a second time.
        behind.touch(try #require(await behind.entries(for: "a").first), interval: 600)
        #expect(await behind.entries(for: "a").first?.lastUse == Make.start + 10)
        store.release()
        await behind.settle()
        #expect(try await store.memory.first("a")?.lastUse == Make.start + 10)
        #expect(behind.ledger.counters.statistics(of: nil).stored == 1)
        #expect(behind.waitingByteCount == 0)
    }

    @Test(.enabled(if: SmallDisk.isPermitted, SmallDisk.reason))
    func removalOnReadOnlyDiskHidesEntry() async throws {
        let disk = try #require(try SmallDisk(byteCount: 8 << 20))
        try await DiskStore.plain(disk.path + "/cache").put(Make.entry("a"))
        let view = try #require(try disk.readOnlyView())
        let store = try DiskStore.plain(view.path + "/cache")
        let reports = Reports()
        let behind = behind(TieredStore(memory: MemoryStore(), disk: store), report: { reports.add($1) })
        #expect(await behind.entries(for: "a").count == 1)
        await behind.remove(.url("http://h/a"))
        #expect(await behind.store(Make.entry("new"), Data("new".utf8)))
        await behind.settle()
        #expect(reports.operations.count { $0 == "write" } >= 2)
        #expect(await behind.entries(for: "a").isEmpty)
        #expect(try await store.has("a"))
        // Memory keeps the entries that the disk refuses.
        #expect(await behind.entries(for: "new").first?.attachedBody == Data("new".utf8))
    }

    @Test(.enabled(if: SmallDisk.isPermitted, SmallDisk.reason)) func fullDiskFailsNoRequest() async throws {
        let disk = try #require(try SmallDisk(byteCount: 6 << 20))
        let store = try DiskStore.plain(disk.path + "/cache", limit: 1 << 30)
        let reports = Reports()
        let behind = behind(TieredStore(memory: MemoryStore(), disk: store), report: { reports.add($1) })
        _ = await behind.store(Make.entry("a"), Make.body(10))
        await behind.settle()
        disk.fill()
        #expect(await behind.store(Make.entry("b"), Make.body(4 << 20)))
        await behind.settle()
        #expect(reports.operations.count { $0 == "write" } == 1)
        #expect(await behind.entries(for: "a").count == 1)
        #expect(behind.waitingByteCount == 0)
        disk.removeFiller()
        #expect(await behind.store(Make.entry("c"), Make.body(100_000)))
        await behind.settle()
        #expect(try await store.has("c"))
    }

    /// The second removal drops the entry before it is written, and the first one, which still waits, does its work.
    @Test func settleReturnsWhenTheLastChangeWasDropped() async throws {
        let store = HeldStore()
        let behind = behind(store)
        #expect(await behind.store(Make.entry("a"), Data("a".utf8)))
        try await eventually("the first write") { store.heldCount == 1 }
        await behind.remove(.url("http://h/b"))
        #expect(await behind.store(Make.entry("b"), Data("b".utf8)))
        await behind.remove(.url("http://h/b"))
        let settling = Task { await behind.settle() }
        try await eventually("the waiter") { behind.state.withLock { !$0.waiters.isEmpty } }
        store.release()
        try await eventually("the end of the wait") { behind.state.withLock { $0.waiters.isEmpty } }
        await settling.value
        #expect(try await store.memory.data("a") == Data("a".utf8))
        #expect(try await !store.has("b"))
    }

    @Test func manyChangesKeepTheirOrder() async throws {
        let directory = try TemporaryDirectory()
        let store = TieredStore(memory: MemoryStore(), disk: try DiskStore.plain(directory.path(of: "cache")))
        let behind = behind(store)
        var expected: [String: Int] = [:]
        var random = SystemRandomNumberGenerator()
        for number in 0..<2_000 {
            let key = "k\(random.next() % 50)"
            if random.next() % 5 == 0 {
                await behind.remove(.url("http://h/\(key)"))
                expected[key] = nil
            } else {
                _ = await behind.store(Make.entry(key, headers: ["X": "\(number)"]), Data("\(number)".utf8))
                expected[key] = number
            }
            let found = await behind.entries(for: key).first
            #expect(found?.headers["X"] == expected[key].map(String.init))
        }
        await behind.settle()
        for key in (0..<50).map({ "k\($0)" }) {
            #expect(try await store.data(key) == expected[key].map { Data("\($0)".utf8) })
        }
    }
}

/// The reported failures of a store.
private final class Reports: Sendable {
    private let storage = Mutex<[String]>([])

    var operations: [String] { storage.withLock { $0 } }

    func add(_ operation: String) { storage.withLock { $0.append(operation) } }
}

/// A store that several machines share, over another store. It calls a closure before it removes something.
private final class WatchedStore<Store: CacheStore>: ForwardingStore, CacheCoordinating {
    let accepts = Mutex(true)
    let willRemove = Mutex<(@Sendable () async -> Void)?>(nil)
    let leaseWait = Duration.zero
    let earlyRefreshFactor = 0.0
    let watched: Store
    var store: any CacheStore { watched }

    init(_ watched: Store) { self.watched = watched }

    func accepts(_ entry: CacheEntry) -> Bool { accepts.withLock { $0 } }

    func lease(_ name: String, for duration: Duration) async throws -> CacheLease? { nil }

    func lease(
        _ name: String, for duration: Duration, within limit: Duration
    ) async throws -> CacheLeaseOutcome { .held }

    func observe(_ statistics: @escaping @Sendable () -> CacheStatistics) -> any Sendable { 0 }

    func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        await willRemove.withLock { $0 }?()
        return try await store.remove(selection)
    }
}

/// A store in memory whose changes, and optionally look-ups, wait until ``release()``.
final class HeldStore: CacheInspecting {
    let memory = MemoryStore()
    let failsToRemove = Mutex(false)
    /// Whether look-ups find nothing, as those of a server that is away.
    let findsNothing = Mutex(false)
    let lookUpCount = Atomic(0)
    private let holdsReading: Bool
    private let waiting: Mutex<[CheckedContinuation<Void, Never>]?>

    init(isHeld: Bool = true, holdsReading: Bool = false) {
        self.holdsReading = holdsReading
        waiting = Mutex(isHeld || holdsReading ? [] : nil)
    }

    /// How many operations wait for ``release()``.
    var heldCount: Int { waiting.withLock { $0?.count ?? 0 } }

    func release() {
        let all = waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
        for continuation in all ?? [] { continuation.resume() }
    }

    private func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = waiting.withLock { waiting in
                waiting?.append(continuation)
                return waiting == nil
            }
            if isOpen { continuation.resume() }
        }
    }

    func entries(for primaryKey: String) async throws -> [CacheEntry] {
        lookUpCount.wrappingAdd(1, ordering: .relaxed)
        if holdsReading { await pass() }
        if findsNothing.withLock({ $0 }) { return [] }
        return try await memory.entries(for: primaryKey)
    }

    func body(of entry: CacheEntry) async throws -> ResponseBody? { try await memory.body(of: entry) }

    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        await pass()
        return try await memory.writer(for: entry, replacing: replacing)
    }

    func update(_ entry: CacheEntry) async throws -> Bool {
        await pass()
        return try await memory.update(entry)
    }

    func touch(_ key: CacheKey, at time: Date) async throws { try await memory.touch(key, at: time) }

    func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        await pass()
        if failsToRemove.withLock({ $0 }) { throw NetworkError(.cache, message: "it cannot be removed") }
        return try await memory.remove(selection)
    }

    func entries(_ selection: CacheSelection) async throws -> [CacheEntry] { try await memory.entries(selection) }

    func usage() async throws -> CacheUsage { try await memory.usage() }
}
