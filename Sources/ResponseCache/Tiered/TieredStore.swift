public import FoundationEssentials
public import HTTPCore
import Synchronization

/// A fast store before one that holds everything: memory before disk, or any two that keep the contract of ``CacheStore``.
///
/// ```swift
/// let store = TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: "/var/cache/app"))
/// let entry = try await store.entries(for: key).first
/// entry?.tier                                 // .memory or .disk
/// ```
///
/// All that is stored lies in the store behind, ``lower``; ``upper`` holds copies of bodies up to ``copyLimit``, put there
/// when they are stored and when they are read. Changes of this store go to both. What others change is heard of through
/// ``CacheInvalidating``: a copy goes when its key, its tag or its prefix was changed, and the other copies stay. Until what
/// is known to have been changed was dealt with, the store behind is asked. One that cannot tell of changes must not be
/// changed by others.
///
/// Where the store behind takes nothing (the disk is full, or may only be read), a commit throws, and the entry is kept
/// in the upper one all the same: requests go on with what there is. Where the upper one fails, the other does alone.
public final class TieredStore: CacheInspecting, CacheInvalidating, CacheEvictionCounting {
    /// What is asked first.
    public let upper: any CacheStore
    /// What holds all of it.
    public let lower: any CacheStore
    /// Larger bodies are not copied.
    public let copyLimit: Int64

    /// The upper store, when it is memory.
    private let memory: MemoryStore?
    private let copies: Copies
    private let follower: Task<Void, Never>?

    /// Memory before disk.
    ///
    /// - Parameters:
    ///   - memory: what is asked first. It must not be used by others.
    ///   - disk: what holds all of it.
    ///   - memoryEntryLimit: larger bodies are not copied to memory. Default, and at most: 1 MiB, or an eighth of what
    ///     the memory may hold, if that is less.
    public convenience init(memory: MemoryStore, disk: DiskStore, memoryEntryLimit: Int64? = nil) {
        self.init(memory, over: disk, copyLimit: min(memoryEntryLimit ?? .max, memory.byteLimit / 8))
    }

    /// A store of any two.
    ///
    /// - Parameters:
    ///   - upper: what is asked first. It must not be used by others.
    ///   - lower: what holds all of it.
    ///   - copyLimit: larger bodies are not copied. Default, and at most: 1 MiB.
    public init(_ upper: any CacheStore, over lower: any CacheStore, copyLimit: Int64 = 1 << 20) {
        self.upper = upper
        self.lower = lower
        self.copyLimit = min(copyLimit, FileBody.wholeByteCount)
        let feed = lower.invalidating?.invalidations()
        let copies = Copies(upper, feed)
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

    /// The entries under a primary key, one for each variant, the one stored last first.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] {
        if let found = entriesAtHand(for: primaryKey) { return found }
        let areRight = memory == nil && copies.areRight
        let kept = (try? await upper.entries(for: primaryKey)) ?? []
        if areRight, let found = copies.complete(kept) { return found }
        let stamp = copies.guards.stamp(of: primaryKey)
        let stored: [CacheEntry]
        do {
            stored = try await lower.entries(for: primaryKey)
        } catch {
            return try own(of: kept, insteadOf: error)
        }
        let finding = finding(kept, stored, stamp)
        for key in finding.gone { await copies.forget(.key(key)) }
        if !finding.copies.isEmpty {
            await copies.unlessSlow { [copies] in
                for entry in finding.copies { await copies.copy(entry, entry.attachedBody) }
            }
        }
        return finding.entries
    }

    /// The entries under a primary key, when memory has all of them: without waiting, one lock, no system call.
    func entriesAtHand(for primaryKey: String) -> [CacheEntry]? {
        guard let memory, copies.areRight else { return nil }
        return copies.complete(memory.lookUp(primaryKey))
    }

    /// ``entries(for:)`` for memory before disk, on the disk's thread.
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
                    let stored: [CacheEntry]
                    do { stored = try result.get() } catch { return try own(of: kept, insteadOf: error) }
                    let finding = finding(kept, stored, stamp)
                    for key in finding.gone { memory.discard(key) }
                    for entry in finding.copies { copies.copy(entry, to: memory) }
                    return finding.entries
                })
        }
    }

    /// What is only in the upper store, and good although the one behind fails.
    private func own(of kept: [CacheEntry], insteadOf error: any Error) throws -> [CacheEntry] {
        let own = kept.filter(Copies.isOwn)
        if own.isEmpty { throw error }
        return own
    }

    /// What a look-up in both stores comes to.
    private struct Finding {
        var entries: [CacheEntry]
        /// Whose copies are to go: of what is not there any more, they would make it look as if something was missing.
        var gone: [CacheKey]
        /// Of what copies are to be made, the one stored last at the end.
        var copies: [CacheEntry]
    }

    /// The entries of both stores: those of the one behind, and what that could not take.
    private func finding(_ kept: [CacheEntry], _ stored: [CacheEntry], _ stamp: UInt64?) -> Finding {
        // Unless somebody else has stored a later answer since.
        let own = kept.filter { entry in
            Copies.isOwn(entry) && !stored.contains { $0.key == entry.key && $0.responseTime > entry.responseTime }
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

    /// The body of an entry, checked; `nil` when it is gone, damaged, or was stored anew since.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        if let copy = await copies.copy(of: entry), let body = try? await upper.body(of: copy) { return body }
        guard entry.origin?.version != nil || entry.origin == nil else { return nil }
        guard let body = try await lower.body(of: entry) else { return nil }
        if let data = body.data, Int64(data.count) <= copyLimit {
            await copies.unlessSlow { [copies] in await copies.copy(entry, data) }
        }
        return body
    }

    // MARK: Writing

    /// Begins to store a response; see ``CacheStore/writer(for:replacing:)``.
    public func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        var entry = entry.bare
        entry.origin = nil
        return TieredWriter(
            entry, try await lower.writer(for: entry, replacing: replacing), copies, copyLimit: copyLimit)
    }

    /// Replaces what is kept of an entry besides its body, unless it was stored anew since.
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
            let isOwn = Copies.isOwn(copy)
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

    /// Notes that an entry was used.
    public func touch(_ key: CacheKey, at time: Date) async throws {
        try? await upper.touch(key, at: time)
        try await lower.touch(key, at: time)
    }

    /// Removes what is selected, pinned entries too, and says how much that was.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        // Also when the store behind cannot be written.
        let result: Result<CacheUsage, any Error>
        let begun = copies.guards.begin(selection)
        do { result = .success(try await lower.remove(selection)) } catch { result = .failure(error) }
        await copies.forget(selection)
        _ = copies.guards.end(selection, begun)
        return try result.get()
    }

    /// What went from the store behind to make room, if it counts that; copies come back.
    public var evicted: CacheUsage { (lower as? any CacheEvictionCounting)?.evicted ?? CacheUsage() }

    /// Returns when all that was stored would survive a loss of power.
    public func flush() async throws { try await lower.flush() }

    /// Collects the garbage of both; says how much went from the store behind.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage {
        _ = try? await upper.collectGarbage()
        return try await lower.collectGarbage()
    }

    // MARK: Capabilities

    /// The store as one that lists what it holds, if the store behind can.
    public var inspecting: (any CacheInspecting)? { lower.inspecting == nil ? nil : self }

    /// The store as one that tells of changes by others, if the store behind can.
    public var invalidating: (any CacheInvalidating)? { lower.invalidating == nil ? nil : self }

    /// The store behind, if that gives leases.
    public var leasing: (any CacheLeasing)? { lower.leasing }

    /// The entries that are selected, without an order.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        let stored = try await lower.inspected().entries(selection)
        let keys = Set(stored.map(\.key))
        let kept = try await upper.inspecting?.entries(selection) ?? []
        return stored + kept.filter { Copies.isOwn($0) && !keys.contains($0.key) }
    }

    /// How much is stored.
    public func usage() async throws -> CacheUsage { try await lower.inspected().usage() }

    /// What others change in the store behind, from now on.
    public func invalidations() -> CacheInvalidations {
        lower.invalidating?.invalidations() ?? CacheInvalidations.Group().begin()
    }
}
