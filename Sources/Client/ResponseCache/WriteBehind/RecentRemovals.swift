import FoundationEssentials

/// The latest removals. A response whose request was sent before one of them may have what the removal was for, so it is
/// not stored after it (RFC 9111 §4.4). A pure value: its methods receive the time.
struct RecentRemovals: Sendable {
    /// How many removals are known. Requests that were sent before those count as older than a removal.
    static let limit = 4_096
    /// How long a removal is known, in seconds.
    static let memory = 3_600.0

    private var removals: [(selection: CacheSelection, time: Date)] = []
    /// The number of removals at the front that are no longer counted.
    private var forgotten = 0
    /// The time of the latest one that was forgotten because there were too many.
    private var floor = Date.distantPast

    mutating func note(_ selection: CacheSelection, at now: Date) {
        removals.append((selection, now))
        while forgotten < removals.count, now.timeIntervalSince(removals[forgotten].time) > Self.memory {
            forgotten += 1
        }
        if removals.count - forgotten > Self.limit {
            floor = max(floor, removals[forgotten].time)
            forgotten += 1
        }
        guard forgotten > Self.limit else { return }
        removals.removeFirst(forgotten)
        forgotten = 0
    }

    /// Whether a removal since its request concerns an entry. After the clock was set back, removals that lie in the future
    /// concern none, because nothing would be stored until then.
    func concern(_ entry: CacheEntry, at now: Date) -> Bool {
        guard entry.requestTime >= floor || floor > now else { return true }
        return removals[forgotten...].reversed().prefix { $0.time > entry.requestTime }
            .contains { $0.time <= now && $0.selection.selects(entry) }
    }
}

extension WriteBehind {
    /// Whether entries were removed since an entry's request was sent, and it would have been one of them.
    package func hasRemoved(_ entry: CacheEntry) -> Bool {
        let now = now()
        return removals.withLock { $0.concern(entry, at: now) }
    }

    /// Records a removal that the store makes by itself.
    package func noteRemoval(_ selection: CacheSelection) { removals.withLock { $0.note(selection, at: now()) } }
}
