import FoundationEssentials
import HTTPCore

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
