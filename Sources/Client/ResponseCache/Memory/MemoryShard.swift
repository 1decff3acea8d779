import FoundationEssentials
import HTTPCore

/// One part of the memory store: entries by key, in order of use.
struct MemoryShard {
    /// The cost of an entry and its place in the order of use.
    private struct Node {
        var cost: Int64 = 0
        var isPinned = false
        /// The store's counter at the last use.
        var use: UInt64 = 0
        /// The neighbours in the order of use; -1 for none. Pinned nodes are not linked.
        var older = -1
        var newer = -1
    }

    /// A number of entries and their cost, or the difference that a change makes.
    struct Change: Hashable {
        var count = 0
        var cost: Int64 = 0
        var pinnedCost: Int64 = 0

        static func - (a: Change, b: Change) -> Change {
            Change(count: a.count - b.count, cost: a.cost - b.cost, pinnedCost: a.pinnedCost - b.pinnedCost)
        }

        var removed: CacheUsage { CacheUsage(entryCount: -count, byteCount: -cost) }
    }

    /// The entries with their bodies; `nil` at free indexes.
    private var entries: [CacheEntry?] = []
    /// The nodes of ``entries``, kept apart so that a use copies no entry.
    private var nodes: [Node] = []
    private var free: [Int] = []
    /// The variants under each primary key, newest last.
    private var buckets: [ExactText: [Int]] = [:]
    private var oldest = -1
    private var newest = -1
    /// The unpinned entries by the minute of their ``CacheEntry/retainUntil``.
    private var ends: [Int64: Set<Int>] = [:]
    /// No unpinned entry has a `retainUntil` before this minute. Initially `max`; only ``removeEnded(before:)`` raises it.
    private(set) var firstEnd: Int64 = .max
    private(set) var total = Change()

    /// The last use of the entry to evict next; `max` when there is none.
    var oldestUse: UInt64 { oldest < 0 ? .max : nodes[oldest].use }

    // MARK: Looking

    func indexes(of primary: String) -> [Int] { buckets[ExactText(primary)] ?? [] }

    func entry(_ index: Int) -> CacheEntry? { entries[index] }

    func index(of key: CacheKey) -> Int? {
        indexes(of: key.primary).first { entries[$0]?.key == key }
    }

    func indexes(of selection: CacheSelection) -> [Int] {
        switch selection {
        case .key(let key): index(of: key).map { [$0] } ?? []
        case .primaryKey(let key): indexes(of: key)
        default: entries.indices.filter { entries[$0].map(selection.selects) ?? false }
        }
    }

    // MARK: Changing

    /// Inserts an entry. An entry with the same key is replaced, and if it was pinned, the new one is too.
    mutating func insert(_ entry: CacheEntry, cost: Int64, at moment: UInt64) {
        var entry = entry
        if let before = self.index(of: entry.key) {
            if nodes[before].isPinned { entry.isPinned = true }
            remove(before)
        }
        let index = free.popLast() ?? entries.count
        if index == entries.count {
            entries.append(nil)
            nodes.append(Node())
        }
        entries[index] = entry
        nodes[index] = Node(cost: cost, isPinned: entry.isPinned, use: moment)
        count(index, 1)
        if !entry.isPinned { link(index) }
        noteEnd(index)
        buckets[ExactText(entry.key.primary), default: []].append(index)
        let variants = indexes(of: entry.key.primary)
        guard variants.count > CacheEntry.variantLimit else { return }
        for old in variants.filter({ !nodes[$0].isPinned }).dropLast(CacheEntry.variantLimit) { remove(old) }
    }

    /// Replaces everything in an entry except its body. Unpinning counts as a use.
    mutating func replace(_ index: Int, with entry: CacheEntry, cost: Int64, at moment: UInt64) {
        guard let body = entries[index]?.attachedBody else { return }
        let wasPinned = nodes[index].isPinned
        count(index, -1)
        forgetEnd(index)
        if entry.isPinned, !wasPinned { unlink(index) }
        entries[index] = entry
        entries[index]?.attachedBody = body
        nodes[index].cost = cost
        nodes[index].isPinned = entry.isPinned
        if wasPinned, !entry.isPinned {
            nodes[index].use = moment
            link(index)
        }
        noteEnd(index)
        count(index, 1)
    }

    mutating func remove(_ index: Int) {
        guard let primary = entries[index]?.key.primary else { return }
        count(index, -1)
        forgetEnd(index)
        if !nodes[index].isPinned { unlink(index) }
        entries[index] = nil
        free.append(index)
        let key = ExactText(primary)
        buckets[key]?.removeAll { $0 == index }
        if buckets[key]?.isEmpty == true { buckets[key] = nil }
    }

    mutating func use(_ index: Int, at moment: UInt64, time: Date? = nil) {
        nodes[index].use = moment
        if let time { entries[index]?.lastUse = time }
        if !nodes[index].isPinned, newest != index {
            unlink(index)
            link(index)
        }
    }

    mutating func removeOldest() {
        if oldest >= 0 { remove(oldest) }
    }

    /// Removes the unpinned entries whose `retainUntil` is before a minute.
    mutating func removeEnded(before minute: Int64) {
        guard firstEnd < minute else { return }
        for (end, indexes) in ends where end < minute {
            for index in indexes { remove(index) }
        }
        firstEnd = ends.keys.min() ?? .max
    }

    /// The minute of a time; `nil` when it does not fit in an `Int64`.
    static func minute(of time: Date) -> Int64? {
        Int64(exactly: (time.timeIntervalSinceReferenceDate / 60).rounded(.down))
    }

    // MARK: Bookkeeping

    /// The minute of an unpinned entry's `retainUntil`.
    private func end(of index: Int) -> Int64? {
        guard let entry = entries[index], !entry.isPinned else { return nil }
        return entry.retainUntil.flatMap(Self.minute)
    }

    private mutating func noteEnd(_ index: Int) {
        guard let end = end(of: index) else { return }
        ends[end, default: []].insert(index)
        firstEnd = min(firstEnd, end)
    }

    private mutating func forgetEnd(_ index: Int) {
        guard let end = end(of: index) else { return }
        ends[end]?.remove(index)
        if ends[end]?.isEmpty == true { ends[end] = nil }
    }

    private mutating func count(_ index: Int, _ sign: Int) {
        total.count += sign
        total.cost += Int64(sign) * nodes[index].cost
        if nodes[index].isPinned { total.pinnedCost += Int64(sign) * nodes[index].cost }
    }

    /// Makes a node the most recently used one.
    private mutating func link(_ index: Int) {
        nodes[index].older = newest
        nodes[index].newer = -1
        if newest >= 0 { nodes[newest].newer = index }
        newest = index
        if oldest < 0 { oldest = index }
    }

    private mutating func unlink(_ index: Int) {
        let (older, newer) = (nodes[index].older, nodes[index].newer)
        if older >= 0 { nodes[older].newer = newer } else if oldest == index { oldest = newer }
        if newer >= 0 { nodes[newer].older = older } else if newest == index { newest = older }
        nodes[index].older = -1
        nodes[index].newer = -1
    }
}
