internal import FoundationEssentials
internal import ResponseCache

/// The head of an entry in Redis, without its generations, which the scripts check.
struct FleetEntryHead: Sendable {
    let version: StoredVersion
    /// When the fetch began at the earliest, in microseconds of Redis' clock; 0 if that is not known.
    let begin: Int64
    let id: String
    let chunkCount: Int
    let byteCount: Int64
    /// Until when it counts, in milliseconds of Redis' clock.
    let end: Int64
    /// The generation of everything, and how many removals had been made then.
    let epoch: String
    let ruleCount: Int
    /// The mark of the generations then.
    let mark: String

    /// - Returns: `nil` unless the bytes are a head of this format.
    init?(_ bytes: Data) {
        guard let head = bytes.withUnsafeBytes({ FleetEntryHead(words: $0[...]) }) else { return nil }
        self = head
    }

    /// Splits bytes and not a string, because each look-up reads heads.
    private init?(words rest: Slice<UnsafeRawBufferPointer>) {
        var rest = rest
        func word() -> Slice<UnsafeRawBufferPointer> {
            let end = rest.firstIndex(of: UInt8(ascii: " ")) ?? rest.endIndex
            defer { rest = rest[end...].dropFirst() }
            return rest[..<end]
        }
        func text() -> String? {
            let word = word()
            return word.isEmpty ? nil : String(decoding: word, as: UTF8.self)
        }
        func number() -> UInt64? { text().flatMap { UInt64($0) } }
        guard number() == 1, let version = number(), let second = number() else { return nil }
        let fetch = word()
        // The end of the fetch and the time of the origin are for the scripts, as are the generations, which follow the mark.
        _ = word()
        guard let end = number(), let id = text(), let chunkCount = number(), chunkCount <= 4_096,
            let byteCount = number(), let epoch = text(), let ruleCount = number(), let mark = text()
        else { return nil }
        self.version = StoredVersion(version, second)
        begin = Int64(String(decoding: fetch.prefix { $0 != UInt8(ascii: "-") }, as: UTF8.self)) ?? 0
        self.id = id
        self.chunkCount = Int(chunkCount)
        self.byteCount = Int64(clamping: byteCount)
        self.end = Int64(clamping: end)
        self.epoch = epoch
        self.ruleCount = Int(clamping: ruleCount)
        self.mark = mark
    }

    /// A version as in a head.
    static func text(_ version: StoredVersion) -> String { "\(version.number) \(version.second)" }
}

/// The counters of the cache tier, in ``FleetStatus/counters``.
struct FleetCacheCounts: Sendable {
    let hits, misses, writes, skipped, superseded, failed, lost, removals, won, lostLeases, waited: FleetCounter

    init(_ counters: FleetCounters) {
        hits = counters.counter("cache.hits")
        misses = counters.counter("cache.misses")
        writes = counters.counter("cache.writes")
        skipped = counters.counter("cache.writes.skipped")
        superseded = counters.counter("cache.writes.superseded")
        failed = counters.counter("cache.failures")
        lost = counters.counter("cache.bodies.lost")
        removals = counters.counter("cache.invalidations.sent")
        won = counters.counter("cache.leases.won")
        lostLeases = counters.counter("cache.leases.lost")
        waited = counters.counter("cache.leases.waited")
    }
}
