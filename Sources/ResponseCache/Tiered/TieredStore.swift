public import FoundationEssentials
public import HTTPCore

/// Memory before disk: what is asked for often costs no look at the disk but for whether somebody else changed it.
///
/// ```swift
/// let store = TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: "/var/cache/app"))
/// let entry = try await store.entries(for: key).first
/// entry?.tier                                 // .memory or .disk
/// ```
///
/// All that is stored lies on disk; memory holds copies of bodies up to ``memoryEntryLimit``, put there when they are
/// stored and when they are read. An entry of memory is given only while its row on disk is the one it was copied
/// from: changes of this store go to both, and changes of other processes, or of other stores on the same folder, are
/// seen through SQLite's `PRAGMA data_version` before each answer.
///
/// Where the disk takes nothing (it is full, or may only be read), a commit throws, and the entry is kept in memory
/// all the same: requests go on with what there is.
public final class TieredStore: CacheStore {
    /// What is asked first.
    public let memory: MemoryStore
    /// What holds all of it.
    public let disk: DiskStore
    /// Larger bodies are not copied to memory. At most 1 MiB.
    public let memoryEntryLimit: Int64

    /// A store of two.
    ///
    /// - Parameters:
    ///   - memory: what is asked first. It must not be used by others.
    ///   - disk: what holds all of it.
    ///   - memoryEntryLimit: larger bodies are not copied to memory. Default, and at most: 1 MiB, or an eighth of what
    ///     the memory may hold, if that is less.
    public init(memory: MemoryStore, disk: DiskStore, memoryEntryLimit: Int64? = nil) {
        self.memory = memory
        self.disk = disk
        self.memoryEntryLimit = min(memoryEntryLimit ?? .max, memory.byteLimit / 8, FileBody.wholeByteCount)
    }

    /// The entries under a primary key, one for each variant, the one stored last first.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] {
        let epoch = disk.core.watch.epoch()
        let found = memory.lookUp(primaryKey)
        if found.isComplete, found.epoch == epoch { return found.entries }
        let ticket = memory.ticket(for: primaryKey)
        let stored: [CacheEntry]
        do {
            stored = try await disk.entries(for: primaryKey)
        } catch {
            // What is only in memory is still good.
            let own = found.entries.filter { $0.mark.row == 0 }
            if own.isEmpty { throw error }
            return own
        }
        return merge(
            found.entries, stored, StorageMark.Lookup(ticket: ticket, epoch: epoch, variantCount: stored.count))
    }

    /// The entries under a primary key when memory is known to hold all of them; else `nil`.
    func entriesInMemory(for primaryKey: String) -> [CacheEntry]? {
        let epoch = disk.core.watch.epoch()
        let found = memory.lookUp(primaryKey)
        return found.isComplete && found.epoch == epoch ? found.entries : nil
    }

    /// A body that is in memory, or came with the look-up.
    func bodyAtHand(of entry: CacheEntry) -> ResponseBody? {
        if entry.tier == .memory, entry.mark.memoryRevision != 0 {
            return memory.data(of: entry).map { ResponseBody($0) }
        }
        return disk.attachedBody(of: entry).map { copied($0, of: entry) }
    }

    private func copied(_ body: ResponseBody, of entry: CacheEntry) -> ResponseBody {
        if let lookup = entry.mark.lookup, let data = body.data, Int64(data.count) <= memoryEntryLimit {
            // One that is refused lies on disk all the same.
            try? memory.insert(entry, data, copiedBy: lookup)
        }
        return body
    }

    /// The entries of both: those of memory where the disk has the same storing, or could not take it.
    private func merge(_ kept: [CacheEntry], _ stored: [CacheEntry], _ lookup: StorageMark.Lookup) -> [CacheEntry] {
        var rest = kept
        var lookup = lookup
        // What the disk did not take, unless another process has stored a later answer since.
        let own = kept.filter { entry in
            entry.mark.row == 0
                && !stored.contains { $0.key == entry.key && $0.responseTime > entry.responseTime }
        }
        rest.removeAll { entry in own.contains { $0.key == entry.key } }
        var merged = own
        let others = stored.filter { entry in !own.contains { $0.key == entry.key } }
        lookup.variantCount = own.count + others.count
        for var entry in others {
            let index = rest.firstIndex { $0.mark.row == entry.mark.row && $0.mark.version == entry.mark.version }
            if let index {
                memory.note(epoch: lookup.epoch, of: entry.key)
                merged.append(rest.remove(at: index))
            } else {
                entry.mark.lookup = lookup
                merged.append(entry)
            }
        }
        // Of the rest another storing is on disk, or none.
        for entry in rest { memory.removeAll(.key(entry.key)) }
        for entry in own { memory.note(epoch: lookup.epoch, of: entry.key) }
        if let primaryKey = merged.first?.key.primary {
            memory.note(variantCount: lookup.variantCount, of: primaryKey)
        }
        return merged
    }

    /// The body of an entry, checked; `nil` when it is gone, damaged, or was stored anew since.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if entry.tier == .memory, entry.mark.memoryRevision != 0 {
            if let data = memory.data(of: entry) { return ResponseBody(data) }
            guard entry.mark.row != 0 else { return nil }
        }
        return try await disk.body(of: entry).map { copied($0, of: entry) }
    }

    /// Begins to store a response; see ``CacheStore/writer(for:)``.
    public func writer(for entry: CacheEntry) async throws -> any CacheWriter {
        TieredWriter(entry, try disk.diskWriter(for: entry), self)
    }

    /// Replaces what is kept of an entry besides its body, unless it was stored anew since.
    public func update(_ entry: CacheEntry) async throws {
        guard entry.mark.row != 0 || entry.mark.memoryRevision == 0 else {
            // It is in memory only.
            return memory.update(entry, mark: nil)
        }
        do {
            if let mark = try await disk.updateForMark(entry) {
                memory.update(entry, mark: mark)
            } else {
                memory.removeAll(.key(entry.key))
            }
        } catch {
            memory.update(entry, mark: nil)
            throw error
        }
    }

    /// Notes that an entry was used.
    public func touch(_ key: CacheKey, at time: Date) async throws {
        try await memory.touch(key, at: time)
        disk.core.touch(key, at: time)
    }

    /// Removes what is selected, pinned entries too, and says how much that was.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        // Also when the disk cannot be written; and after it, so that nothing is copied from it in between.
        defer { memory.removeAll(selection) }
        return try await disk.remove(selection)
    }

    /// The entries that are selected, without an order.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        let stored = try await disk.entries(selection)
        let keys = Set(stored.map(\.key))
        let own = try await memory.entries(selection).filter { $0.mark.row == 0 && !keys.contains($0.key) }
        return stored + own
    }

    /// How much is stored.
    public func usage() async throws -> CacheUsage { try await disk.usage() }

    /// Returns when all that was stored would survive a loss of power.
    public func flush() async throws { try await disk.flush() }

    /// Makes room down to the limits and clears away what nobody refers to; says how much went.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage { try await disk.collectGarbage() }
}
