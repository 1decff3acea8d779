import Dispatch
import Foundation
import HTTPCore
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import ResponseCache

/// Changes by the app, and the end of the process, while something is stored.
@Suite(.timeLimit(.minutes(2))) struct WriteBehindRaceTests {
    private func behind(
        _ store: any CacheStore, lookUpTimeout: Duration = .seconds(30),
        report: @escaping @Sendable (any Error, String) -> Void = { _, _ in }
    ) -> WriteBehind {
        var settings = WriteBehind.Settings()
        settings.lookUpTimeout = lookUpTimeout
        return WriteBehind(store, settings, now: { Make.start + 10 }, prepare: {}, report: report)
    }

    @Test func streamIsNotStoredAfterARemoval() async throws {
        let store = HeldStore()
        let behind = behind(store)
        let keeper = behind.stream(Make.entry("s"))
        keeper.append(Make.body(1_000))
        keeper.end(isWhole: true)
        // The stream waits for the store, in which the removal finds nothing yet.
        await behind.remove(.url("http://h/s"))
        store.release()
        await behind.settle()
        #expect(try await !store.memory.has("s"))
        #expect(behind.ledger.refusals.last(of: "s")?.reason == .invalidated)
    }

    @Test func removalDuringACommitIsMadeAfterIt() async throws {
        let store = CommittingStore()
        let behind = behind(store)
        store.willCommit.withLock {
            $0 = {
                await behind.remove(.url("http://h/s"))
                await store.hasRemoved.wait()
            }
        }
        let keeper = behind.stream(Make.entry("s"))
        keeper.append(Make.body(1_000))
        keeper.end(isWhole: true)
        await behind.settle()
        await behind.settle()
        #expect(await behind.entries(for: "s").isEmpty)
        #expect(try await !store.store.has("s"))
    }

    @Test(arguments: Kind.allCases, [true, false]) func updateKeepsThePin(_ kind: Kind, isPinned: Bool) async throws {
        let directory = try TemporaryDirectory()
        let store = try kind.make(in: directory)
        let behind = behind(store)
        var entry = Make.entry("a")
        entry.isPinned = !isPinned
        try await store.put(entry)
        var confirmed = try #require(await behind.entries(for: "a").first)
        // The app changes the pin while the server confirms the response.
        var changed = confirmed
        changed.isPinned = isPinned
        try await store.update(changed)
        confirmed.headers["X-New"] = "1"
        await behind.update(confirmed)
        await behind.settle()
        let stored = try #require(try await store.first("a"))
        #expect(stored.isPinned == isPinned && stored.headers["X-New"] == "1")
    }

    @Test func requiredBodyIsWaitedFor() async throws {
        let directory = try TemporaryDirectory()
        let disk = try DiskStore.plain(directory.path(of: "cache"))
        try await disk.put(Make.entry("a"), Make.body(50_000))
        let entry = try #require(try await disk.first("a"))
        let behind = behind(FaultyCacheStore(disk, .slow(.milliseconds(200))), lookUpTimeout: .zero)
        #expect(await behind.body(of: entry) == nil)
        #expect(await behind.body(of: entry, .required)?.data == Make.body(50_000))
    }

    @Test func endOfTheProcessWaitsForRefreshes() async throws {
        let behind = behind(HeldStore(isHeld: false))
        let (log, isOver) = (Log<String>(), Event())
        let number = behind.beginRefresh()
        DispatchQueue.global().async {
            behind.processWillExit()
            log.append("exit")
            isOver.happen()
        }
        // Those who ask for the effect of their changes do not wait for the network.
        await behind.settle()
        _ = await behind.store(Make.entry("a"), Data("new".utf8))
        log.append("refreshed")
        behind.endRefresh(number)
        await isOver.wait()
        #expect(log.elements == ["refreshed", "exit"])
        #expect(try await (behind.store as? HeldStore)?.memory.has("a") == true)
    }

    @Test func endOfTheProcessReportsALostRemoval() async throws {
        let store = HeldStore()
        let reports = Log<String>()
        let behind = behind(store) { reports.append($1) }
        try await store.memory.put(Make.entry("a"))
        await behind.remove(.url("http://h/a"))
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                behind.processWillExit()
                continuation.resume()
            }
        }
        #expect(reports.elements == ["remove in time"])
        store.release()
        await behind.settle()
    }
}

/// A store that calls a closure before a commit.
private final class CommittingStore: ForwardingStore {
    let willCommit = Mutex<(@Sendable () async -> Void)?>(nil)
    let hasRemoved = Event()
    let store: any CacheStore = MemoryStore()

    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        Writer(try await store.writer(for: entry, replacing: replacing), willCommit.withLock { $0 })
    }

    func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        defer { hasRemoved.happen() }
        return try await store.remove(selection)
    }

    private final class Writer: CacheWriter {
        private let writer: any CacheWriter
        private let willCommit: (@Sendable () async -> Void)?

        init(_ writer: any CacheWriter, _ willCommit: (@Sendable () async -> Void)?) {
            (self.writer, self.willCommit) = (writer, willCommit)
        }

        func append(_ data: Data) async throws { try await writer.append(data) }

        func commit() async throws -> CacheCommit {
            await willCommit?()
            return try await writer.commit()
        }

        func discard() async { await writer.discard() }
    }
}
