internal import FoundationEssentials
internal import ResponseCache

/// The head of an entry in Redis, without its generations, which the scripts check.
struct FleetEntryHead: Sendable {
    let version: StoredVersion
    /// The earliest start of the fetch, in microseconds of Redis' clock; 0 if not known.
    let begin: Int64
    let id: String
    let chunkCount: Int
    let byteCount: Int64
    /// The entry is valid until this time, in milliseconds of Redis' clock.
    let end: Int64
    /// The epoch and the number of removals at the time of the commit.
    let epoch: String
    let ruleCount: Int
    /// The mark at the time of the commit or of the last update.
    let mark: String

    /// - Returns: `nil` unless the bytes are a head of this format.
    init?(_ bytes: Data) {
        guard let head = bytes.withUnsafeBytes({ FleetEntryHead($0) }) else { return nil }
        self = head
    }

    private init?(_ bytes: UnsafeRawBufferPointer) {
        var words = Words(bytes: bytes)
        guard words.number() == 1, let version = words.number(), version < 1 << 53, let second = words.number()
        else { return nil }
        begin = words.number(endingAt: UInt8(ascii: "-")).map { Int64(clamping: $0) } ?? 0
        // Only the scripts use the end of the fetch, the time of the origin, and the generations after the mark.
        _ = words.next()
        guard let end = words.number(), let id = words.text(), let chunkCount = words.number(),
            chunkCount <= FleetCacheCoding.chunkLimit,
            let byteCount = words.number(), byteCount <= FleetCacheCoding.longestBody(chunkCount),
            let epoch = words.text(), let ruleCount = words.number(),
            let mark = words.text()
        else { return nil }
        self.version = StoredVersion(version, second)
        self.id = id
        self.chunkCount = Int(chunkCount)
        self.byteCount = Int64(clamping: byteCount)
        self.end = Int64(clamping: end)
        self.epoch = epoch
        self.ruleCount = Int(clamping: ruleCount)
        self.mark = mark
    }

    /// The text of a version in a head.
    static func text(_ version: StoredVersion) -> String { "\(version.number) \(version.second)" }
}

/// Reads the words of a head. Every look-up uses it, so it reads numbers without making strings.
private struct Words {
    let bytes: UnsafeRawBufferPointer
    private var place = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func next() -> Range<Int> {
        let start = place
        while place < bytes.count, bytes[place] != UInt8(ascii: " ") { place += 1 }
        defer { place = min(place + 1, bytes.count) }
        return start..<place
    }

    mutating func text() -> String? {
        let word = next()
        return word.isEmpty ? nil : String(decoding: UnsafeRawBufferPointer(rebasing: bytes[word]), as: UTF8.self)
    }

    /// - Parameter mark: A byte before which the number may end.
    mutating func number(endingAt mark: UInt8? = nil) -> UInt64? {
        let word = next()
        var number: UInt64?
        for byte in bytes[word] {
            if byte == mark { break }
            guard (48...57).contains(byte) else { return nil }
            let (shifted, isTooLarge) = (number ?? 0).multipliedReportingOverflow(by: 10)
            let (sum, isBeyond) = shifted.addingReportingOverflow(UInt64(byte - 48))
            guard !isTooLarge, !isBeyond else { return nil }
            number = sum
        }
        return number
    }
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
