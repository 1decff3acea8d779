import Cryptography
import Dispatch
public import FoundationEssentials
import Glibc
public import HTTPCore

/// Responses in a folder: an SQLite index in WAL mode, and a file for each body over 16 KiB.
///
/// ```swift
/// var options = DiskStore.Options()
/// options.byteLimit = 1 << 30
/// let store = try DiskStore(directory: "/var/cache/app", options: options)
/// let writer = try await store.writer(for: entry)
/// for try await chunk in body { try await writer.append(chunk) }
/// try await writer.commit()                  // outlives the process when this returns
/// ```
///
/// The folder is made at the first write, for its owner only. Several processes, and several stores in one process,
/// may share it. A process that is killed leaves every entry that was acknowledged, and of the others nothing but a
/// file that is cleared away. Whatever else happens to the folder is mended: a damaged index is set aside as
/// `index-4.sqlite.damaged` and begun anew, a removed folder is made again, a damaged body is a miss.
///
/// With ``Options-swift.struct/encryptionKey`` nothing of an entry is in clear but sizes, times and flags; see there.
///
/// SQLite and the file system are called on queues of the store's own: one that writes, one that looks up, one for
/// reports, and one for bodies.
public final class DiskStore: CacheStore, CacheInspecting, CacheInvalidating, CacheLeasing, CacheEvictionCounting {
    /// How a folder is used.
    public struct Options: Sendable {
        /// The most bytes of bodies and headers. What nobody has a use for any more goes first
        /// (``CacheEntry/retainUntil``), then what was not used for the longest time. Default: 512 MiB.
        public var byteLimit: Int64 = 512 << 20
        /// The bytes that are left free on the disk: entries go for it, and when none are left nothing is stored.
        /// Default: `nil`, a twentieth of the disk, at most 1 GiB.
        public var minimumFreeBytes: Int64?
        /// 32 bytes to seal what is stored with AES-256-GCM; default: `nil`, for nothing.
        ///
        /// Bodies, headers and URLs are sealed; columns to search by equality hold HMAC-SHA256 of the text. Whoever asks
        /// for ``CacheSelection/urlPrefix(_:)`` makes the store decrypt one entry after the other. With another key
        /// entries are not found; they go when room is needed.
        public var encryptionKey: Data?
        /// How often ``DiskStore/collectGarbage()`` is done by itself; `nil` for never. Default: 10 minutes, and for the
        /// first time after one.
        public var collectionInterval: Duration? = .seconds(600)

        /// The defaults.
        public init() {}
    }

    /// The folder.
    public var directory: String { core.layout.directory }

    let core: DiskCore

    /// A store in a folder, which need not be there.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/cache`` when the key has not 32 bytes.
    public init(directory: String, options: Options = Options()) throws {
        let disk = DiskLayout(directory).diskBytes ?? .max
        let floor = options.minimumFreeBytes ?? min(1 << 30, disk / 20)
        core = try DiskCore(
            directory: directory, rule: PruneRule(byteLimit: max(0, options.byteLimit), freeFloor: max(0, floor)),
            key: options.encryptionKey)
        if let interval = options.collectionInterval, interval > .zero {
            core.scheduleCollection(after: min(interval, .seconds(60)), then: interval)
        }
    }

    deinit { core.flush() }

    /// Whether somebody has stored something in a folder, so that there may be entries.
    package static func hasEntries(_ directory: String) -> Bool { access(DiskLayout(directory).index, F_OK) == 0 }

    /// The entries under a primary key, one for each variant, the one stored last first.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] {
        try await core.lookups.run { [self] in try entriesNow(primaryKey) }
    }

    func lookUp(_ primaryKey: String, _ done: @escaping @Sendable (Result<[CacheEntry], any Error>) -> Void) {
        core.lookups.queue.async { [self] in done(Result { try entriesNow(primaryKey) }) }
    }

    /// Only on the queue of the look-ups.
    private func entriesNow(_ primaryKey: String) throws -> [CacheEntry] {
        let ticket = core.writtenTicket
        let rows = try core.readNow(core.lookupIndex) { try $0.rows(primaryKey: primaryKey) } ?? []
        var damaged: [Int64] = []
        let entries = rows.compactMap { row -> CacheEntry? in
            guard var entry = row.entry else {
                damaged.append(row.id)
                return nil
            }
            if let bytes = row.attached {
                guard let body = check(bytes, row.body) else {
                    damaged.append(row.id)
                    return nil
                }
                entry.attachedBody = body
            }
            return core.withUse(entry, since: ticket)
        }
        if !damaged.isEmpty { core.write(.drop(damaged)) }
        return entries
    }

    /// The body of an entry, checked; `nil` when it is gone, damaged, or was stored anew since.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        guard let stored = entry.note as? StoredBody else {
            // Not from here: what is stored under the key is meant, or that storing of it.
            let found = try await entries(for: entry.key.primary).first {
                $0.key == entry.key && (entry.version == nil || $0.version == entry.version)
            }
            guard let found, found.attachedBody != nil || found.note is StoredBody else { return nil }
            return try await body(of: found)
        }
        let body: ResponseBody?
        if let name = stored.file {
            do {
                body = try await FileBody.open(name, stored, core)
            } catch {
                throw CacheFault.error(error, in: directory)
            }
        } else {
            let bytes = try await core.read(core.lookups, core.lookupIndex) { try $0.inlineBody(stored.row) } ?? nil
            body = bytes.flatMap { check($0, stored) }.map { ResponseBody($0) }
        }
        if body == nil { core.write(.drop([stored.row])) }
        return body
    }

    private func check(_ bytes: Data, _ stored: StoredBody) -> Data? {
        guard let digest = try? MessageDigest.of(bytes, .sha256), digest == stored.checksum else { return nil }
        guard let cipher = try? core.sealer.bodyCipher(salt: stored.salt) else {
            return core.sealer.isSealing ? nil : bytes
        }
        return try? cipher.open(bytes)
    }

    /// Begins to store a response; see ``CacheStore/writer(for:replacing:)``.
    public func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        do {
            return try DiskWriter(entry, replacing, core)
        } catch {
            throw CacheFault.error(error, in: directory)
        }
    }

    /// Replaces what is kept of an entry besides its body, unless it was stored anew since.
    @discardableResult
    public func update(_ entry: CacheEntry) async throws -> Bool {
        try await withCheckedThrowingContinuation { core.write(.update(entry, $0)) }
    }

    /// Notes that an entry was used. Written with the next batch, after a second at the latest.
    public func touch(_ key: CacheKey, at time: Date) async throws { core.touch(key, at: time) }

    /// Removes what is selected, pinned entries too, and says how much that was.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        let removed = try await withCheckedThrowingContinuation { core.write(.remove(selection, $0)) }
        if selection == .all || selection == .responses {
            try await core.bodies.run { [layout = core.layout] in _ = unlink(layout.damagedIndex) }
        }
        return removed
    }

    /// The entries that are selected, without an order.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        let rows = try await core.read(core.scans, core.scanIndex) { try $0.rows(selection) } ?? []
        return rows.compactMap { $0.entry }
    }

    /// What other processes, and other stores on the same folder, change from now on.
    ///
    /// It is known at the next ``CacheInvalidations/isQuiet``: what each commit writes into the shared memory of SQLite's log
    /// is looked at, which costs some nanoseconds.
    public func invalidations() -> CacheInvalidations {
        core.watch.feeds.begin { [watch = core.watch] in watch.look() }
    }

    /// Asks to be the one of all processes on this folder that fetches. A lease ends at the latest with its process, so that
    /// none lasts too long, whatever `duration` says. Where no folder is yet, nobody shares it.
    public func lease(_ name: String, for duration: Duration) async throws -> CacheLease? {
        core.leases.lease(name)
    }

    /// How much is stored.
    public func usage() async throws -> CacheUsage {
        try await core.read(core.lookups, core.lookupIndex) { try $0.totals().usage } ?? CacheUsage()
    }

    /// What this store let go to make room; other stores on the same folder count their own.
    public var evicted: CacheUsage { core.evictions.usage }

    /// Returns when all that was stored would survive a loss of power, uses included.
    public func flush() async throws { try await core.synchronize() }

    /// Removes what nobody has a use for (``CacheEntry/retainUntil``), makes room down to the limits, and clears away bodies
    /// that nobody refers to; says how much went.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage { try await core.collectGarbage() }
}
