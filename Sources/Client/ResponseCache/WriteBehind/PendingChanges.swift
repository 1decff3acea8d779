import FoundationEssentials

/// The changes that a store still has to make, in the order in which they were requested.
///
/// Each key has at most one pending change: a later one replaces an earlier one that has not begun. Removals share the
/// queue with the changes, so that a removal never removes what is stored after it.
struct PendingChanges {
    enum Change: Sendable {
        case store(CacheEntry, Data, replacing: CacheReplacement)
        case update(CacheEntry)
        /// Writes ``CacheEntry/lastUse`` only.
        case touch(CacheEntry)
        /// Removes the entry under a key, unless it is pinned.
        case discard(CacheKey)
    }

    struct Removal: Sendable {
        let number: UInt64
        let selection: CacheSelection
        /// When it was last requested.
        var time: Date
        var isQueued = true
        /// Whether the store is making it.
        var isRunning = false
        /// Whether the store has failed to make the removal. Until it succeeds, entries from before ``time`` count as absent.
        var hasFailedRemoval = false

        func hides(_ entry: CacheEntry) -> Bool {
            selection.selects(entry) && (!hasFailedRemoval || entry.responseTime <= time)
        }
    }

    /// A change or a removal to make now.
    enum Work: Sendable {
        case change(UInt64, Change)
        case removal(UInt64, CacheSelection)
    }

    private struct Slot {
        let key: CacheKey
        let number: UInt64
        var change: Change
        var isRunning = false
        /// Whether the entry was used while it was being stored, so that the use remains to be written.
        var isTouched = false
    }

    private enum Item {
        case key(UInt64, CacheKey)
        case removal(UInt64, CacheSelection)
    }

    let byteLimit: Int64
    private(set) var byteCount: Int64 = 0
    /// The numbers of changes, removals and completed streams that the store has not tried yet.
    private(set) var unfinished: Set<UInt64> = []
    private var slots: [String: [Slot]] = [:]
    /// The queue; items before ``head`` have been taken.
    private var items: [Item] = []
    private var head = 0
    private var removals: [Removal] = []
    private var removalCount = 0
    private var streams: [String: Set<UInt64>] = [:]
    private var discardCount = 0
    private var last: UInt64 = 0
    /// The numbers of running refreshes, which change nothing before they have ended.
    private(set) var refreshes: Set<UInt64> = []

    /// The maximum number of waiting and failed removals. Beyond it, one removal of all responses replaces them.
    private static let removalLimit = 1_000
    /// The maximum number of waiting ``Change/discard(_:)``. Beyond it, all responses are removed.
    static let discardLimit = 10_000

    init(byteLimit: Int64) { self.byteLimit = byteLimit }

    /// Whether the store is up to date.
    var isEmpty: Bool { slots.isEmpty && removals.isEmpty && streams.isEmpty }

    // MARK: Adding

    /// Adds an entry with its body; returns `false` when the queue is full.
    mutating func store(_ entry: CacheEntry, _ body: Data, replacing: CacheReplacement = .anything) -> Bool {
        add(.store(entry.bare, body, replacing: replacing), entry.key)
    }

    /// Adds an update of everything in an entry except its body; returns `false` when the queue is full.
    mutating func update(_ entry: CacheEntry) -> Bool {
        let waiting = slot(of: entry.key)?.change
        // The entry waits to be removed, so it is not updated.
        if case .discard? = waiting { return true }
        if let note = entry.note as? Waiting, let body = entry.attachedBody {
            // It may have been removed since the look-up; then it stays removed.
            guard waiting != nil || note.removalCount == removalCount else { return true }
            // A newer version may have taken its place.
            if case .store(let other, _, _)? = waiting, !note.marks(other) { return true }
            return store(entry, body)
        }
        // A newer version of the entry waits to be stored.
        if case .store? = waiting { return true }
        return add(.update(entry), entry.key)
    }

    /// Adds a write of an entry's last use, unless another change of the entry waits.
    mutating func touch(_ entry: CacheEntry) -> Bool {
        switch slot(of: entry.key)?.change {
        case nil, .touch?: add(.touch(entry), entry.key)
        case .store?, .update?, .discard?: true
        }
    }

    /// Sets the last use of an entry that waits to be stored, and returns whether it still waits.
    mutating func touchStored(_ key: CacheKey, at time: Date) -> Bool {
        guard let list = slots[key.primary], let index = list.firstIndex(where: { $0.key == key }),
            case .store(var entry, let body, let replacing) = list[index].change
        else { return false }
        entry.lastUse = time
        slots[key.primary]?[index].change = .store(entry, body, replacing: replacing)
        slots[key.primary]?[index].isTouched = list[index].isRunning
        return true
    }

    /// Removes the entry under a key whose newer response is not stored, so that look-ups do not find the older one. This
    /// needs no room in the queue.
    mutating func discard(_ key: CacheKey, at time: Date) {
        guard discardCount < Self.discardLimit else { return remove(.responses, at: time) }
        removalCount += 1
        _ = add(.discard(key), key)
    }

    private mutating func add(_ change: Change, _ key: CacheKey) -> Bool {
        var list = slots[key.primary] ?? []
        let index = list.firstIndex { $0.key == key }
        // The change replaces a waiting one for the same key.
        let waiting = index.flatMap { list[$0].isRunning ? nil : $0 }
        let freed = waiting.map { Self.size(list[$0].change) } ?? 0
        if case .discard = change {
            byteCount -= freed
            discardCount += 1
        } else if !reserve(Self.size(change), freed: freed) {
            return false
        }
        if let waiting {
            if case .discard = list[waiting].change { discardCount -= 1 }
            list[waiting].change = change
        } else {
            let number = begin()
            items.append(.key(number, key))
            if let index { list.remove(at: index) }
            list.append(Slot(key: key, number: number, change: change))
        }
        slots[key.primary] = list
        return true
    }

    /// Adds a removal and drops the waiting changes that it selects.
    mutating func remove(_ selection: CacheSelection, at time: Date) {
        removalCount += 1
        for primary in selection.primaryKey.map({ [$0] }) ?? Array(slots.keys) {
            guard let list = slots[primary] else { continue }
            let rest = list.filter { slot in
                guard let entry = Self.entry(slot.change), selection.selects(entry) else { return true }
                if !slot.isRunning { byteCount -= Self.size(slot.change) }
                return false
            }
            if rest.count < list.count { slots[primary] = rest.isEmpty ? nil : rest }
        }
        if let index = removals.firstIndex(where: { $0.selection == selection && !$0.isRunning }) {
            removals[index].time = max(removals[index].time, time)
            return
        }
        if removals.count >= Self.removalLimit {
            // Too many removals wait, so all responses are removed instead. The app's values stay.
            items.removeFirst(head)
            head = 0
            for case .removal(let number, _) in items { unfinished.remove(number) }
            items.removeAll { if case .removal = $0 { true } else { false } }
            removals = []
            return remove(.responses, at: time)
        }
        let number = begin()
        items.append(.removal(number, selection))
        removals.append(Removal(number: number, selection: selection, time: time))
    }

    /// Drops the waiting change of a key, or hides the running one.
    mutating func forget(_ key: CacheKey, requestedBefore time: Date) {
        removalCount += 1
        guard let slot = slot(of: key), let entry = Self.entry(slot.change), entry.requestTime < time else { return }
        if !slot.isRunning { byteCount -= Self.size(slot.change) }
        slots[key.primary]?.removeAll { $0.key == key }
        if slots[key.primary]?.isEmpty == true { slots[key.primary] = nil }
    }

    /// Reserves room for bytes of a change or a stream; returns `false` when the queue is full. `freed` are the bytes of the
    /// waiting change that it replaces.
    mutating func reserve(_ count: Int64, freed: Int64 = 0) -> Bool {
        // A change that is larger than the limit is accepted when nothing else waits.
        guard byteCount - freed <= 0 || byteCount - freed + count <= byteLimit else { return false }
        byteCount += count - freed
        return true
    }

    mutating func release(_ count: Int64) { byteCount -= count }

    /// Records that a stream was read to its end and is being stored.
    mutating func beginStream(_ primaryKey: String) -> UInt64 {
        let number = begin()
        streams[primaryKey, default: []].insert(number)
        return number
    }

    mutating func endStream(_ number: UInt64, _ primaryKey: String) {
        unfinished.remove(number)
        streams[primaryKey]?.remove(number)
        if streams[primaryKey]?.isEmpty == true { streams[primaryKey] = nil }
    }

    mutating func beginRefresh() -> UInt64 {
        last += 1
        refreshes.insert(last)
        return last
    }

    mutating func endRefresh(_ number: UInt64) { refreshes.remove(number) }

    private mutating func begin() -> UInt64 {
        last += 1
        unfinished.insert(last)
        return last
    }

    // MARK: Working

    /// The oldest items that can run concurrently: either changes of different keys or removals.
    mutating func next(_ limit: Int = 64) -> [Work] {
        var work: [Work] = []
        var count = 0
        scan: for item in items[head...].prefix(limit) {
            switch (item, work.last) {
            case (.key, .removal?), (.removal, .change?): break scan
            case (.key(let number, let key), _):
                if let index = slots[key.primary]?.firstIndex(where: { $0.number == number }),
                    let change = slots[key.primary]?[index].change
                {
                    slots[key.primary]?[index].isRunning = true
                    work.append(.change(number, change))
                } else {
                    // The change was dropped before it began.
                    unfinished.remove(number)
                }
            case (.removal(let number, let selection), _):
                if let index = index(number) {
                    removals[index].isQueued = false
                    removals[index].isRunning = true
                }
                work.append(.removal(number, selection))
            }
            count += 1
        }
        head += count
        if head == items.count || head > 4_096 {
            items.removeFirst(head)
            head = 0
        }
        return work.isEmpty && head < items.count ? next(limit) : work
    }

    /// Records that the store has tried a change or removal.
    mutating func end(_ work: Work, succeeded: Bool) {
        switch work {
        case .change(let number, let change):
            byteCount -= Self.size(change)
            if case .discard = change { discardCount -= 1 }
            let primary = Self.key(change).primary
            if succeeded, let index = slots[primary]?.firstIndex(where: { $0.number == number && $0.isTouched }),
                let slot = slots[primary]?[index], let entry = Self.entry(slot.change)
            {
                // The queue has room for the use, which is smaller than the entry.
                slots[primary]?[index] = Slot(key: slot.key, number: number, change: .touch(entry))
                byteCount += Self.size(.touch(entry))
                items.append(.key(number, slot.key))
                return
            }
            unfinished.remove(number)
            slots[primary]?.removeAll { $0.number == number }
            if slots[primary]?.isEmpty == true { slots[primary] = nil }
        case .removal(let number, _):
            unfinished.remove(number)
            guard let index = index(number) else { return }
            if succeeded {
                removals.remove(at: index)
            } else {
                removals[index].isRunning = false
                removals[index].hasFailedRemoval = true
            }
        }
    }

    private func index(_ removal: UInt64) -> Int? { removals.firstIndex { $0.number == removal } }

    var hasRemovals: Bool { !removals.isEmpty }

    var hasFailedRemovals: Bool { removals.contains(where: \.hasFailedRemoval) }

    mutating func retryFailedRemovals() {
        for (index, removal) in removals.enumerated()
        where removal.hasFailedRemoval && !removal.isQueued && !removal.isRunning {
            removals[index].isQueued = true
            unfinished.insert(removal.number)
            items.append(.removal(removal.number, removal.selection))
        }
    }

    // MARK: Reading

    func view(of primaryKey: String) -> View {
        View(
            changes: slots[primaryKey]?.map(\.change) ?? [], removals: removals, streams: streams[primaryKey] ?? [],
            removalCount: removalCount)
    }

    private func slot(of key: CacheKey) -> Slot? { slots[key.primary]?.first { $0.key == key } }

    /// The entry of a change; `nil` for one that removes an entry.
    private static func entry(_ change: Change) -> CacheEntry? {
        switch change {
        case .store(let entry, _, _), .update(let entry), .touch(let entry): entry
        case .discard: nil
        }
    }

    private static func key(_ change: Change) -> CacheKey {
        switch change {
        case .store(let entry, _, _), .update(let entry), .touch(let entry): entry.key
        case .discard(let key): key
        }
    }

    /// The approximate memory of a change, in bytes.
    private static func size(_ change: Change) -> Int64 {
        switch change {
        case .store(let entry, let body, _): entry.headByteCount + Int64(body.count) + 256
        case .update(let entry), .touch(let entry): entry.headByteCount + 256
        // Their number is limited instead.
        case .discard: 0
        }
    }
}
