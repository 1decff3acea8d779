import FoundationEssentials
import HTTPCore

/// What a store can say or note without waiting, on the thread of whoever asks.
protocol QuickStore: CacheStore {
    /// Whether none of its methods ever waits, so that nothing need be done behind.
    var neverWaits: Bool { get }

    /// The entries under a primary key; `nil` when they are not known without waiting.
    func quickEntries(for primaryKey: String) -> [CacheEntry]?

    /// What ``CacheStore/entries(for:)`` gives, without a task: each change of threads costs a look-up some microseconds.
    ///
    /// - Parameter done: is called once, on any thread.
    func lookUp(_ primaryKey: String, _ done: @escaping @Sendable (Result<[CacheEntry], any Error>) -> Void)

    /// Notes a use. On disk it is written when the one that was written last is older than an interval.
    ///
    /// - Returns: `false` when that cannot be done without waiting.
    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool
}

extension MemoryStore: QuickStore {
    var neverWaits: Bool { true }

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
    var neverWaits: Bool { false }

    func quickEntries(for primaryKey: String) -> [CacheEntry]? { nil }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool {
        core.touch(entry.key, at: time, since: entry.lastUse, interval: interval)
        return true
    }
}

extension TieredStore: QuickStore {
    var neverWaits: Bool { false }

    func quickEntries(for primaryKey: String) -> [CacheEntry]? { entriesAtHand(for: primaryKey) }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) -> Bool {
        let quick = (upper as? MemoryStore, lower as? DiskStore)
        guard let memory = quick.0, let disk = quick.1 else { return false }
        memory.note(use: entry.key, at: time)
        return disk.quickTouch(entry, at: time, interval: interval)
    }
}

extension CacheStore {
    /// Stores an entry with its whole body, unless another was stored in place of what it may replace.
    func put(_ entry: CacheEntry, _ body: Data, replacing: CacheReplacement) async throws {
        let writer = try await writer(for: entry, replacing: replacing)
        if !body.isEmpty { try await writer.append(body) }
        try await writer.commit()
    }
}
