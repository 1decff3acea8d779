import FoundationEssentials

// What waits to be stored, as look-ups see it.
extension PendingChanges {
    /// Marks an entry that waits to be stored.
    struct Waiting: Sendable {
        let removalCount: Int
        let requestTime: Date
        let responseTime: Date

        /// Whether it marks this entry, and not another one under the same key.
        func marks(_ entry: CacheEntry) -> Bool {
            entry.requestTime == requestTime && entry.responseTime == responseTime
        }
    }

    struct View: Sendable {
        let changes: [Change]
        let removals: [Removal]
        let streams: Set<UInt64>
        let removalCount: Int

        /// Whether the look-up needs no store, because a waiting entry has no `Vary`.
        var isComplete: Bool {
            changes.contains { change in
                if case .store(let entry, _, _) = change { entry.key.variant.isEmpty } else { false }
            }
        }

        func applied(to entries: [CacheEntry]) -> [CacheEntry] {
            var entries = entries.filter { entry in !removals.contains { $0.hides(entry) } }
            for change in changes {
                switch change {
                case .store(var entry, let body, _):
                    entries.removeAll { $0.key == entry.key }
                    entry.attachedBody = body
                    entry.note = Waiting(
                        removalCount: removalCount, requestTime: entry.requestTime, responseTime: entry.responseTime)
                    entry.bodyByteCount = Int64(body.count)
                    entries.insert(entry, at: 0)
                case .update(let entry):
                    // Another process may have stored a newer entry.
                    let index = entries.firstIndex { $0.key == entry.key && $0.responseTime <= entry.responseTime }
                    if let index { entries[index] = entry }
                case .touch(let entry):
                    let index = entries.firstIndex { $0.key == entry.key }
                    if let index { entries[index].lastUse = entry.lastUse }
                case .discard(let key):
                    entries.removeAll { $0.key == key }
                }
            }
            return entries
        }
    }
}

extension CacheEntry {
    /// Whether the entry was waiting to be stored when it was looked up.
    var isWaiting: Bool { note is PendingChanges.Waiting }
}
