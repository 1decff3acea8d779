import Foundation
import Glibc
import HTTPCore
import LATTesting
import Synchronization
import Testing

@testable import ResponseCache

/// Requests continue while another process is stopped and holds its locks.
@Suite(.timeLimit(.minutes(5))) struct StoppedProcessTests {
    enum Phase: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case writeLock, transaction, folderLock, checkpoint, recovery, body

        var testDescription: String { rawValue }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var folder: String { directory.path(of: "cache") }

    private func behind(_ store: any CacheStore, _ settings: WriteBehind.Settings = .init()) -> WriteBehind {
        WriteBehind(store, settings, now: { Make.start + 10 }, prepare: {}, report: { _, _ in })
    }

    private func tiered(busyTimeout: Duration = .seconds(5)) throws -> TieredStore {
        TieredStore(memory: MemoryStore(), disk: try DiskStore.plain(folder, busyTimeout: busyTimeout))
    }

    /// A request that waited for a lock of the stopped process would wait longer than the suite's time limit, because the
    /// process stays stopped until all requests have ended.
    @Test(arguments: Phase.allCases) func requestsContinueBesideStoppedWriter(_ phase: Phase) async throws {
        let first = try tiered(busyTimeout: .seconds(3_600))
        for name in ["old", "wrong"] { try await first.put(Make.entry(name)) }
        try await first.flush()
        let opened = behind(first)
        let neighbour = try ChildProcess.cacheWriter(folder, phase.rawValue)
        try #require(neighbour.waitUntilStopped())
        let fresh = behind(try tiered(busyTimeout: .seconds(3_600)))
        for behind in [opened, fresh] {
            // Either a hit or a miss.
            _ = await behind.entries(for: "old")
            _ = await behind.entries(for: "none")
            #expect(await behind.store(Make.entry("new"), Data("new".utf8)))
            let entry = await behind.entries(for: "new").first
            #expect(await behind.body(of: try #require(entry))?.data == Data("new".utf8))
            await behind.remove(.url("http://h/wrong"))
            #expect(await behind.entries(for: "wrong").isEmpty)
        }
        neighbour.kill()
        neighbour.wait()
        // The pending removals now succeed.
        for behind in [opened, fresh] {
            await behind.settle()
            #expect(await behind.entries(for: "wrong").isEmpty)
        }
        let other = try DiskStore.plain(folder)
        #expect(try await other.first("wrong") == nil)
        #expect(try await other.data("old") == Data("hello".utf8))
    }

    @Test func leaseEndsWithItsProcess() async throws {
        let store = try tiered()
        try await store.put(Make.entry("a"))
        let neighbour = try ChildProcess.cacheWriter(folder, "lease")
        try #require(neighbour.waitUntilStopped())
        // A long timeout, since a loaded machine must not fail the test.
        var settings = WriteBehind.Settings()
        settings.lookUpTimeout = .seconds(30)
        let behind = behind(store, settings)
        guard case .others = await behind.lead("k", for: .seconds(60), waitingSince: nil) else {
            Issue.record("a stopped process lost its lease")
            return
        }
        guard case .own(.some) = await behind.lead("other", for: .seconds(60)) else {
            Issue.record("another name got no lease")
            return
        }
        neighbour.kill()
        neighbour.wait()
        guard case .own(.some) = await behind.lead("k", for: .seconds(60)) else {
            Issue.record("the lease of an ended process was not released")
            return
        }
    }

    @Test func batchWaitsOnceForBusyIndex() async throws {
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("a"))
        let neighbour = try ChildProcess.cacheWriter(folder, Phase.writeLock.rawValue)
        try #require(neighbour.waitUntilStopped())
        // Ten waits one after another would take fifty seconds.
        let failures = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<10 {
                group.addTask {
                    do {
                        try await store.put(Make.entry("k\(number)"))
                        return false
                    } catch {
                        return (error as? NetworkError)?.message.contains("another process") ?? false
                    }
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(failures == 10)
        neighbour.resume()
        #expect(neighbour.wait() == 0)
        try await store.put(Make.entry("b"))
        #expect(try await store.has("b"))
    }
}
