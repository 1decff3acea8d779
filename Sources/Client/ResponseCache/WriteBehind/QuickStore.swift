import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// A store that can answer some calls on the caller's thread, without waiting.
protocol QuickStore: CacheStore {
    /// The entries under a primary key; `nil` when the call would have to wait for them.
    func quickEntries(for primaryKey: String) -> [CacheEntry]?

    /// Looks up the entries like ``CacheStore/entries(for:)``, but without a task, since each switch of threads costs a few
    /// microseconds. Calls `done` once, on any thread.
    func lookUp(_ primaryKey: String, _ done: @escaping @Sendable (Result<[CacheEntry], any Error>) -> Void)

    /// Records a use. On disk it is written only when the last written one is older than `interval`. Returns `false`, and
    /// records nothing, when the call would have to wait.
    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool
}

extension MemoryStore: QuickStore {
    func quickEntries(for primaryKey: String) -> [CacheEntry]? { lookUp(primaryKey) }

    func lookUp(_ primaryKey: String, _ done: @escaping @Sendable (Result<[CacheEntry], any Error>) -> Void) {
        done(.success(lookUp(primaryKey)))
    }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool {
        note(use: entry.key, at: time)
        return true
    }
}

extension DiskStore: QuickStore {
    func quickEntries(for primaryKey: String) -> [CacheEntry]? { nil }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool {
        core.touch(entry.key, at: time, since: entry.lastUse, interval: interval)
        return true
    }
}

extension TieredStore: QuickStore {
    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool {
        guard let memory = upper as? MemoryStore, let disk = lower as? DiskStore else { return false }
        memory.note(use: entry.key, at: time)
        return disk.quickTouch(entry, at: time, interval: interval)
    }
}

extension CacheStore {
    /// Stores an entry with its complete body, unless the stored entry may not be replaced.
    func put(_ entry: CacheEntry, _ body: Data, replacing: CacheReplacement) async throws {
        let writer = try await writer(for: entry, replacing: replacing)
        if !body.isEmpty { try await writer.append(body) }
        try await writer.commit()
    }
}

/// A store whose leases cover several machines, and whose entries may be refreshed early.
package protocol CacheCoordinating: CacheLeasing {
    /// How long a request waits for the response that another process fetches, before it fetches it itself.
    var leaseWait: Duration { get }

    /// The factor β of ``EarlyRefresh``; 0 for no early refresh.
    var earlyRefreshFactor: Double { get }

    /// Requests a lease, and waits up to a limit while another caller holds it; with zero it returns at once.
    func lease(_ name: String, for duration: Duration, within limit: Duration) async throws -> CacheLeaseOutcome

    /// Whether a response that was just fetched may be stored. If not, the caller drops it and also its own copies of the
    /// entry, because it is unknown which of them is older.
    func accepts(_ entry: CacheEntry) -> Bool

    /// Gives the store the counters of a manager that uses it, for its reports, until the result is released.
    func observe(_ statistics: @escaping @Sendable () -> CacheStatistics) -> any Sendable
}

/// The result of a request for a lease.
package enum CacheLeaseOutcome: Sendable {
    case granted(CacheLease)
    /// Another caller had it and has ended it: its response may be stored now.
    case ended
    /// Another caller still has it.
    case held
}

/// Runs work with a time limit. Work that takes longer continues, but its result is dropped. A store that hangs occupies
/// only a few tasks: while ``lateLimit`` of them are late, no new work begins.
final class TimeLimiter: Sendable {
    private static let lateLimit = 8

    private let limits = TimeLimits()
    private let lateCount = Atomic<Int>(0)

    /// Runs work in a task and returns its result; `nil` when the work is late or did not begin.
    func run<Value: Sendable>(
        within limit: Duration, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        try await run(within: limit) { done in
            Task {
                do { done(.success(try await work())) } catch { done(.failure(error)) }
            }
        }
    }

    /// Runs work without a task: `begin` begins it, and it calls `done` with its result, once and on any thread.
    func run<Value: Sendable>(
        within limit: Duration, begin: (_ done: @escaping @Sendable (Result<Value, any Error>) -> Void) -> Void
    ) async throws -> Value? {
        guard lateCount.load(ordering: .relaxed) < Self.lateLimit else { return nil }
        let waiter = Waiter<Value?>()
        let ticket = limits.schedule(at: limits.clock.now() + limit) { [weak self] in
            // The task counts as late before the waiter continues, so that the limit holds for the next work of the waiter.
            self?.lateCount.wrappingAdd(1, ordering: .relaxed)
            if !waiter.end(.success(nil)) { self?.lateCount.wrappingSubtract(1, ordering: .relaxed) }
        }
        begin { [self] result in
            if waiter.end(result.map { $0 }) {
                limits.cancel(ticket)
            } else {
                lateCount.wrappingSubtract(1, ordering: .relaxed)
            }
        }
        return try await waiter.uncancelledValue()
    }
}
