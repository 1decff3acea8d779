import FoundationEssentials

/// A part of what is kept in memory: entries by key, and the order in which they were used. A pure value.
struct MemoryShard {
    /// Of an entry: what it costs, and its place in the order of use.
    private struct Node {
        var cost: Int64 = 0
        var isPinned = false
        /// The moment of the last use, as the store counts.
        var use: UInt64 = 0
        /// Neighbours in the order of use; -1 for none. A pinned node is not in it.
        var older = -1
        var newer = -1
    }

    private struct PrimaryKey: Hashable {
        let text: String

        static func == (a: PrimaryKey, b: PrimaryKey) -> Bool { a.text.hasSameBytes(as: b.text) }

        func hash(into hasher: inout Hasher) { text.hashBytes(into: &hasher) }
    }

    /// What went, or came, with a change.
    struct Change: Hashable {
        var count = 0
        var cost: Int64 = 0
        var pinnedCost: Int64 = 0

        static func - (a: Change, b: Change) -> Change {
            Change(count: a.count - b.count, cost: a.cost - b.cost, pinnedCost: a.pinnedCost - b.pinnedCost)
        }
    }

    /// With their bodies; `nil` where one was removed.
    private var entries: [CacheEntry?] = []
    /// For each of ``entries``. Apart from them, so that a use copies no entry.
    private var nodes: [Node] = []
    private var free: [Int] = []
    /// The variants under a primary key, the one stored last at the end.
    private var buckets: [PrimaryKey: [Int]] = [:]
    private var oldest = -1
    private var newest = -1
    /// What may go, by the minute in which the last use for it ends (``CacheEntry/retainUntil``).
    private var ends: [Int64: Set<Int>] = [:]
    /// Nothing that may go ends before this minute; `max` when nothing ends.
    private(set) var firstEnd: Int64 = .max
    /// All that is here.
    private(set) var total = Change()

    /// When the entry was used that is the next to go; `max` when none may.
    var oldestUse: UInt64 { oldest < 0 ? .max : nodes[oldest].use }

    // MARK: Looking

    /// The variants under a primary key, the one stored last at the end.
    func indexes(of primary: String) -> [Int] { buckets[PrimaryKey(text: primary)] ?? [] }

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

    /// Puts an entry in place of any under its key. A pin outlives that.
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
        buckets[PrimaryKey(text: entry.key.primary), default: []].append(index)
    }

    /// Replaces what is kept of an entry besides its body. One that is pinned no more counts as used now.
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
        let key = PrimaryKey(text: primary)
        buckets[key]?.removeAll { $0 == index }
        if buckets[key]?.isEmpty == true { buckets[key] = nil }
    }

    /// Notes a use.
    mutating func use(_ index: Int, at moment: UInt64, time: Date? = nil) {
        nodes[index].use = moment
        if let time { entries[index]?.lastUse = time }
        if !nodes[index].isPinned, newest != index {
            unlink(index)
            link(index)
        }
    }

    /// Removes the entry that was not used for the longest time.
    mutating func removeOldest() {
        if oldest >= 0 { remove(oldest) }
    }

    /// Removes what nobody has a use for any more since before a minute.
    mutating func removeEnded(before minute: Int64) {
        guard firstEnd < minute else { return }
        for (end, indexes) in ends where end < minute {
            for index in indexes { remove(index) }
        }
        firstEnd = ends.keys.min() ?? .max
    }

    /// The minute that a time lies in; `nil` for none that can be counted.
    static func minute(of time: Date) -> Int64? {
        Int64(exactly: (time.timeIntervalSinceReferenceDate / 60).rounded(.down))
    }

    // MARK: Bookkeeping

    /// When the last use for a node that may go ends.
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

    /// Puts a node at the newest end.
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
