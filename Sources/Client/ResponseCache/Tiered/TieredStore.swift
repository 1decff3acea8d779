public import FoundationEssentials
public import HTTPCore
import Synchronization

/// A fast upper store over a lower store that holds everything: memory over disk, or any two stores.
///
/// ```swift
/// let store = TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: "/var/cache/app"))
/// let entry = try await store.entries(for: "9f86d081").first
/// entry?.tier                                 // .memory or .disk
/// ```
///
/// The ``lower`` store holds every entry. The ``upper`` one holds copies of entries with bodies up to ``copyLimit``,
/// made when they are stored or read. Changes go to both. When the lower store reports changes by others
/// (``CacheInvalidating``), only the copies that these changes affect are removed, and look-ups use the lower store
/// until that is done. A lower store that is not ``CacheInvalidating`` must not be changed by others.
///
/// If the lower store cannot write (the disk is full or read-only), a commit throws, but the upper store keeps the entry and
/// look-ups find it. If the upper store fails, the lower one works alone. Methods throw the errors of the lower store.
public final class TieredStore: CacheInspecting, CacheInvalidating, CacheEvictionCounting, CacheLookUpLimiting {
    /// The store that look-ups try first.
    public let upper: any CacheStore
    /// The store that holds every entry.
    public let lower: any CacheStore
    /// The largest body that is copied, in bytes.
    public var copyLimit: Int64 { copies.limit }

    /// The upper store, when it is memory.
    private let memory: MemoryStore?
    let copies: TierCopies
    private let follower: Task<Void, Never>?

    /// Creates a store with memory over disk.
    ///
    /// - Parameters:
    ///   - memory: The upper store. It must not be used elsewhere.
    ///   - disk: The lower store.
    ///   - memoryEntryLimit: The largest body that is copied to memory, in bytes. Default, and maximum: 1 MiB or an eighth
    ///     of the memory's `byteLimit`, whichever is less.
    public convenience init(memory: MemoryStore, disk: DiskStore, memoryEntryLimit: Int64? = nil) {
        self.init(memory, over: disk, copyLimit: min(memoryEntryLimit ?? .max, memory.byteLimit / 8))
    }

    /// Creates a store with one store over another.
    ///
    /// - Parameters:
    ///   - upper: The store that look-ups try first. It must not be used elsewhere.
    ///   - lower: The store that holds every entry.
    ///   - copyLimit: The largest body that is copied, in bytes. Default, and maximum: 1 MiB.
    public init(_ upper: any CacheStore, over lower: any CacheStore, copyLimit: Int64 = 1 << 20) {
        self.upper = upper
        self.lower = lower
        let feed = lower.invalidating?.invalidations()
        let copies = TierCopies(upper, feed, limit: min(copyLimit, FileBody.wholeByteCount))
        memory = upper as? MemoryStore
        self.copies = copies
        follower = feed.map { feed in
            Task {
                for await selection in feed { await copies.change(selection) }
            }
        }
    }

    deinit { follower?.cancel() }

    // MARK: Reading

    /// The entries under a primary key, one for each variant, newest first.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] {
        let areCurrent = copies.areCurrent
        let kept =
            if let memory { memory.lookUp(primaryKey) } else { (try? await upper.entries(for: primaryKey)) ?? [] }
        if areCurrent, let found = copies.complete(kept) { return found }
        let stamp = copies.guards.stamp(of: primaryKey)
        let stored: [CacheEntry]
        do {
            stored = try await lower.entries(for: primaryKey)
        } catch {
            return try own(of: kept, insteadOf: error)
        }
        if let memory { return found(kept, stored, stamp, in: memory) }
        let finding = finding(kept, stored, stamp)
        for key in finding.gone { await copies.forget(.key(key)) }
        if !finding.copies.isEmpty {
            await copies.runWithoutDelay { [copies] in
                for entry in finding.copies { await copies.copy(entry, entry.attachedBody) }
            }
        }
        return finding.entries
    }

    /// The entries under a primary key if memory has all of them, usually with one lock and no system call.
    func quickEntries(for primaryKey: String) -> [CacheEntry]? {
        guard let memory, copies.areCurrent else { return nil }
        return copies.complete(memory.lookUp(primaryKey))
    }

    /// Looks up like ``entries(for:)``. With memory over disk, it starts no task and calls `done` on a queue of the disk store.
    func lookUp(_ primaryKey: String, _ done: @escaping @Sendable (Result<[CacheEntry], any Error>) -> Void) {
        guard let memory, let disk = lower as? DiskStore else {
            Task {
                do { done(.success(try await entries(for: primaryKey))) } catch { done(.failure(error)) }
            }
            return
        }
        let kept = memory.lookUp(primaryKey)
        let stamp = copies.guards.stamp(of: primaryKey)
        disk.lookUp(primaryKey) { [self] result in
            done(
                Result {
                    do {
                        return found(kept, try result.get(), stamp, in: memory)
                    } catch {
                        return try own(of: kept, insteadOf: error)
                    }
                })
        }
    }

    /// The limit of the lower store, if the upper one is memory, which never waits; else `nil`.
    package var lookUpLimit: Duration? { memory == nil ? nil : (lower as? any CacheLookUpLimiting)?.lookUpLimit }

    /// Combines what both stores have, and copies it to memory.
    private func found(
        _ kept: [CacheEntry], _ stored: [CacheEntry], _ stamp: UInt64?, in memory: MemoryStore
    ) -> [CacheEntry] {
        let finding = finding(kept, stored, stamp)
        for key in finding.gone { memory.discard(key) }
        for entry in finding.copies { copies.copy(entry, to: memory) }
        return finding.entries
    }

    /// The entries that only the upper store has, for when the lower one fails.
    private func own(of kept: [CacheEntry], insteadOf error: any Error) throws -> [CacheEntry] {
        let own = kept.filter(TierCopies.isOwn)
        if own.isEmpty { throw error }
        return own
    }

    private struct Finding {
        var entries: [CacheEntry]
        /// The keys of copies to remove, because the lower store no longer has the entry.
        var gone: [CacheKey]
        /// The entries to copy, newest last.
        var copies: [CacheEntry]
    }

    /// Combines the entries of the lower store with those that it did not take.
    private func finding(_ kept: [CacheEntry], _ stored: [CacheEntry], _ stamp: UInt64?) -> Finding {
        // A newer entry in the lower store takes precedence.
        let own = kept.filter { entry in
            TierCopies.isOwn(entry) && !stored.contains { $0.key == entry.key && $0.isNewer(than: entry) }
        }
        var found = stored.filter { entry in !own.contains { $0.key == entry.key } }
        for index in found.indices {
            var origin = CacheOrigin(
                version: found[index].version, variantCount: own.isEmpty ? found.count : 0, epoch: copies.epoch)
            origin.stamp = stamp
            found[index].origin = origin
        }
        let areSmall = found.allSatisfy { $0.bodyByteCount <= copyLimit }
        return Finding(
            entries: own + found,
            gone: kept.map(\.key).filter { key in
                !own.contains { $0.key == key } && !stored.contains { $0.key == key }
            },
            copies: stamp != nil && areSmall ? found.reversed() : [])
    }

    /// The body of an entry, checked against damage; `nil` when it was removed, replaced or damaged.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        if let copy = await copies.copy(of: entry), let body = try? await upper.body(of: copy) { return body }
        guard entry.origin?.version != nil || entry.origin == nil else { return nil }
        guard let body = try await lower.body(of: entry) else { return nil }
        if let data = body.data, Int64(data.count) <= copyLimit {
            await copies.runWithoutDelay { [copies] in await copies.copy(entry, data) }
        }
        return body
    }

    // MARK: Writing

    /// A writer that stores an entry; see ``CacheStore/writer(for:replacing:)``.
    public func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        var entry = entry.bare
        entry.origin = nil
        return TieredWriter(entry, try await lower.writer(for: entry, replacing: replacing), copies)
    }

    /// Replaces everything in an entry except its body; see ``CacheStore/update(_:)``.
    @discardableResult
    public func update(_ entry: CacheEntry) async throws -> Bool {
        var plain = entry
        plain.origin = nil
        let selection = CacheSelection.key(entry.key)
        let begun = copies.guards.begin(selection)
        var isThere = false
        var fault: (any Error)?
        do { isThere = try await lower.update(plain) } catch { fault = error }
        if let copy = await copies.copy(of: entry) {
            let isOwn = TierCopies.isOwn(copy)
            if isThere || isOwn || fault != nil {
                plain.origin = copy.origin
                plain.version = copy.version
                let isUpdated = (try? await upper.update(plain)) ?? false
                if !isUpdated { await copies.forget(selection) }
                isThere = isThere || isOwn && isUpdated
                if isOwn { fault = nil }
            } else {
                await copies.forget(selection)
            }
        }
        if !copies.guards.end(selection, begun) { await copies.forget(selection) }
        if let fault { throw fault }
        return isThere
    }

    /// Records the use of an entry in both stores.
    public func touch(_ key: CacheKey, at time: Date) async throws {
        try? await upper.touch(key, at: time)
        try await lower.touch(key, at: time)
    }

    /// Removes the selected entries, pinned ones too, and returns how much the lower store removed.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        // The copies are removed even if the lower store fails.
        let result: Result<CacheUsage, any Error>
        let begun = copies.guards.begin(selection)
        do { result = .success(try await lower.remove(selection)) } catch { result = .failure(error) }
        await copies.forget(selection)
        _ = copies.guards.end(selection, begun)
        return try result.get()
    }

    /// Removes copies, not what they are copies of.
    func forgetCopies(_ selection: CacheSelection) async {
        await copies.change(selection)
        await (lower as? TieredStore)?.forgetCopies(selection)
    }

    /// What the lower store evicted; zero if it does not conform to ``CacheEvictionCounting``. Evicted copies do not count.
    public var evicted: CacheUsage { (lower as? any CacheEvictionCounting)?.evicted ?? CacheUsage() }

    /// Returns when everything stored so far would survive a loss of power.
    public func flush() async throws { try await lower.flush() }

    /// Collects the garbage of both stores, and returns how much the lower one removed.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage {
        _ = try? await upper.collectGarbage()
        return try await lower.collectGarbage()
    }

    // MARK: Capabilities

    /// The store itself, if the lower store is ``CacheInspecting``.
    public var inspecting: (any CacheInspecting)? { lower.inspecting == nil ? nil : self }

    /// The store itself, if the lower store is ``CacheInvalidating``.
    public var invalidating: (any CacheInvalidating)? { lower.invalidating == nil ? nil : self }

    /// The lower store, if it is ``CacheLeasing``.
    public var leasing: (any CacheLeasing)? { lower.leasing }

    /// The selected entries, in any order and without bodies.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        let stored = try await lower.inspected().entries(selection)
        let keys = Set(stored.map(\.key))
        let kept = try await upper.inspecting?.entries(selection) ?? []
        return stored + kept.filter { TierCopies.isOwn($0) && !keys.contains($0.key) }
    }

    /// How much the lower store holds.
    public func usage() async throws -> CacheUsage { try await lower.inspected().usage() }

    /// A feed of what others change in the lower store from now on.
    public func invalidations() -> CacheInvalidations {
        lower.invalidating?.invalidations() ?? CacheInvalidations.Group().begin()
    }
}
