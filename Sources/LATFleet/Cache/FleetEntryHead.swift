internal import ResponseCache

/// The head of an entry in Redis, without its generations, which the scripts check.
struct FleetEntryHead: Sendable {
    let version: StoredVersion
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

    /// - Returns: `nil` unless the text is a head of this format.
    init?(_ text: String) {
        // Bytes, because it is read at each look-up. The generations, which follow, are for the scripts.
        let words = text.utf8.split(separator: UInt8(ascii: " "), maxSplits: 12).map { Substring($0) }
        guard words.count >= 12, words[0] == "1", let end = Int64(words[5]), let number = UInt64(words[1]),
            let second = UInt64(words[2]), let chunkCount = Int(words[7]), (0...4_096).contains(chunkCount),
            let byteCount = Int64(words[8]), byteCount >= 0, let ruleCount = Int(words[10])
        else { return nil }
        version = StoredVersion(number, second)
        id = String(words[6])
        self.chunkCount = chunkCount
        self.byteCount = byteCount
        self.end = end
        epoch = String(words[9])
        self.ruleCount = ruleCount
        mark = String(words[11])
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
