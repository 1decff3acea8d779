import FoundationEssentials
import HTTPCore

/// What a store can say or note without waiting, on the thread of whoever asks.
protocol QuickStore: CacheStore {
    /// Whether none of its methods ever waits, so that nothing need be done behind.
    var neverWaits: Bool { get }

    /// The entries under a primary key; `nil` when they are not known without waiting.
    func quickEntries(for primaryKey: String) -> [CacheEntry]?

    /// The body of an entry; `nil` when it is not known without waiting, or gone.
    func quickBody(of entry: CacheEntry) -> ResponseBody?

    /// Notes a use. On disk it is written when the one that was written last is older than an interval.
    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval)
}

extension MemoryStore: QuickStore {
    var neverWaits: Bool { true }

    func quickEntries(for primaryKey: String) -> [CacheEntry]? { lookUp(primaryKey).entries }

    func quickBody(of entry: CacheEntry) -> ResponseBody? { data(of: entry).map { ResponseBody($0) } }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) { note(use: entry.key, at: time) }
}

extension DiskStore: QuickStore {
    var neverWaits: Bool { false }

    func quickEntries(for primaryKey: String) -> [CacheEntry]? { nil }

    func quickBody(of entry: CacheEntry) -> ResponseBody? { attachedBody(of: entry) }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) {
        core.touch(entry.key, at: time, since: entry.lastUse, interval: interval)
    }
}

extension TieredStore: QuickStore {
    var neverWaits: Bool { false }

    func quickEntries(for primaryKey: String) -> [CacheEntry]? { entriesInMemory(for: primaryKey) }

    func quickBody(of entry: CacheEntry) -> ResponseBody? { bodyAtHand(of: entry) }

    func quickTouch(_ entry: CacheEntry, at time: Date, interval: TimeInterval) {
        memory.note(use: entry.key, at: time)
        disk.quickTouch(entry, at: time, interval: interval)
    }
}

extension CacheStore {
    /// Stores an entry with its whole body.
    func put(_ entry: CacheEntry, _ body: Data) async throws {
        let writer = try await writer(for: entry)
        if !body.isEmpty { try await writer.append(body) }
        try await writer.commit()
    }
}
