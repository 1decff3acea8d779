import Cryptography
import Dispatch
public import FoundationEssentials
import Glibc
public import HTTPCore

/// A store in a folder: an SQLite index in WAL mode, and a file for each body over 16 KiB.
///
/// ```swift
/// var options = DiskStore.Options()
/// options.byteLimit = 1 << 30
/// let store = try DiskStore(directory: "/var/cache/app", options: options)
/// let writer = try await store.writer(for: entry)
/// for try await chunk in rows { try await writer.append(chunk) }
/// try await writer.commit()                  // outlives the process when this returns
/// ```
///
/// The folder is created at the first write, for its owner only. Several processes, and several stores in one process, may
/// share it. When a process is killed, every committed entry stays; an uncommitted one leaves at most a file, which the next
/// writer of a large body removes. The store repairs damage: it sets a damaged index aside as `index-4.sqlite.damaged` and
/// starts a new one, recreates a removed folder, and treats a damaged body as a miss.
///
/// With ``Options-swift.struct/encryptionKey``, only sizes, times and flags of an entry are readable.
///
/// The store calls SQLite and the file system on queues of its own: one each for writes, look-ups and reports, and a
/// concurrent one for bodies. If they fail, its methods throw `NetworkError.Kind.cache` with the folder and the next step.
public final class DiskStore: CacheStore, CacheInspecting, CacheInvalidating, CacheLeasing, CacheEvictionCounting {
    /// The options of a store.
    public struct Options: Sendable {
        /// The maximum number of bytes of bodies and headers. Entries whose ``CacheEntry/retainUntil`` has passed are evicted
        /// first, then the least recently used ones. Default: 512 MiB.
        public var byteLimit: Int64 = 512 << 20
        /// The bytes to leave free on the disk. Entries are evicted for this. If that does not suffice, nothing is stored, and
        /// writers throw. Default: `nil`, a twentieth of the disk, at most 1 GiB.
        public var minimumFreeBytes: Int64?
        /// A key of 32 bytes that encrypts the store with AES-256-GCM. Default: `nil`, no encryption.
        ///
        /// It encrypts bodies, headers and URLs; columns that are searched by equality hold HMAC-SHA256 of the text.
        /// Selecting by ``CacheSelection/urlPrefix(_:)`` decrypts every entry. A store with another key does not find the
        /// entries, but evicts them when it needs room.
        public var encryptionKey: Data?
        /// How often the store calls ``DiskStore/collectGarbage()`` itself; `nil` for never. Default: every 10 minutes, the
        /// first time after one minute.
        public var collectionInterval: Duration? = .seconds(600)
        /// The longest wait for another process that uses the index. A look-up waits a fifth of it.
        var busyTimeout: Duration = .seconds(5)

        /// Creates options with the default values.
        public init() {}
    }

    /// The folder.
    public var directory: String { core.layout.directory }

    let core: DiskCore

    /// Creates a store in a folder, which need not exist yet.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.cache` when the directory is empty or contains a NUL, or the key
    ///   does not have 32 bytes.
    public init(directory: String, options: Options = Options()) throws {
        guard !directory.isEmpty, !directory.utf8.contains(0) else {
            throw NetworkError(
                .cache,
                message: "the directory of a cache is empty or contains a NUL; give the path of a folder as directory, "
                    + "or as cacheDirectory of the configuration")
        }
        let disk = DiskLayout(directory).diskBytes ?? .max
        let floor = options.minimumFreeBytes ?? min(1 << 30, disk / 20)
        core = try DiskCore(
            directory: directory, rule: PruneRule(byteLimit: max(0, options.byteLimit), freeFloor: max(0, floor)),
            key: options.encryptionKey, busyTimeout: options.busyTimeout)
        if let interval = options.collectionInterval, interval > .zero {
            core.scheduleCollection(after: min(interval, .seconds(60)), then: interval)
        }
    }

    deinit { core.flush() }

    /// The entries under a primary key, one for each variant, newest first: the 64 newest, and the pinned ones.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] {
        try await core.lookups.run { [self] in try entriesNow(primaryKey) }
    }

    func lookUp(_ primaryKey: String, _ done: @escaping @Sendable (Result<[CacheEntry], any Error>) -> Void) {
        core.lookups.queue.async { [self] in done(Result { try entriesNow(primaryKey) }) }
    }

    /// Call only on the queue of look-ups.
    private func entriesNow(_ primaryKey: String) throws -> [CacheEntry] {
        let ticket = core.writtenTicket
        let rows = try core.readNow(core.lookupIndex) { try $0.rows(primaryKey: primaryKey) } ?? []
        var damaged: [Int64] = []
        let entries = rows.compactMap { row -> CacheEntry? in
            guard var entry = row.entry else {
                damaged.append(row.body.row)
                return nil
            }
            if let bytes = row.attached {
                guard let body = check(bytes, row.body) else {
                    damaged.append(row.body.row)
                    return nil
                }
                entry.attachedBody = body
            }
            return core.withUse(entry, since: ticket)
        }
        if !damaged.isEmpty { core.write(.drop(damaged)) }
        return entries
    }

    /// The body of an entry, checked against damage; `nil` when it was removed, replaced or damaged.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        guard let stored = entry.note as? StoredBody else {
            // The entry is not from this store, so this looks for the stored one with the same key and, if the entry has a
            // version, the same version.
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

    /// A writer that stores an entry; see ``CacheStore/writer(for:replacing:)``.
    public func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        try await explaining { try DiskWriter(entry, replacing, core) }
    }

    /// Replaces everything in an entry except its body; see ``CacheStore/update(_:)``.
    @discardableResult
    public func update(_ entry: CacheEntry) async throws -> Bool {
        try await withCheckedThrowingContinuation { core.write(.update(entry, $0)) }
    }

    /// Records the use of an entry. It is written with the next batch, within a second.
    public func touch(_ key: CacheKey, at time: Date) async throws { core.touch(key, at: time) }

    /// Removes the selected entries, pinned ones too, and returns how much was removed.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        var removed = CacheUsage()
        var portion: CacheUsage
        repeat {
            portion = try await withCheckedThrowingContinuation { core.write(.remove(selection, $0)) }
            removed += portion
        } while portion.entryCount == CacheIndex.portion
        // After a large removal, the disk gets back the room of the index and its log.
        var free = removed.entryCount >= 256 ? Int64.max : 0
        while free > 0, let left = try? await core.returnPages() { free = left < free ? left : 0 }
        if selection == .all || selection == .responses {
            try await core.bodies.run { [layout = core.layout] in _ = unlink(layout.damagedIndex) }
            removed.byteCount += (try? await core.removeOrphans()) ?? 0
        }
        return removed
    }

    /// The selected entries, in any order and without bodies.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        let rows = try await core.read(core.scans, core.scanIndex) { try $0.rows(selection) } ?? []
        return rows.compactMap { $0.entry }
    }

    /// A feed of what other processes, and other stores on the same folder, change from now on.
    ///
    /// ``CacheInvalidations/isQuiet`` detects new commits by reading the shared memory of SQLite's log, which costs a few
    /// nanoseconds.
    public func invalidations() -> CacheInvalidations {
        core.watch.feeds.begin { [watch = core.watch] in watch.check() }
    }

    /// Requests a lease among all processes on this folder. A lease ends with its process at the latest, so `duration` is
    /// ignored. Without a folder every caller gets a lease.
    public func lease(_ name: String, for duration: Duration) async throws -> CacheLease? {
        core.leases.lease(name)
    }

    /// How much the folder holds.
    public func usage() async throws -> CacheUsage {
        try await core.read(core.lookups, core.lookupIndex) { try $0.totals().usage } ?? CacheUsage()
    }

    /// What this store evicted since it was made. Other stores on the same folder count their own evictions.
    public var evicted: CacheUsage { core.evictions.usage }

    /// Returns when everything stored so far would survive a loss of power, including recorded uses.
    public func flush() async throws { try await explaining { try await core.synchronize() } }

    /// Removes entries whose ``CacheEntry/retainUntil`` has passed, evicts down to the limits, and removes unreferenced bodies.
    /// Returns how much was removed.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage { try await explaining { try await core.collectGarbage() } }

    /// Runs work and adds the folder and the next step to its errors.
    private func explaining<Result>(_ work: () async throws -> Result) async throws -> Result {
        do { return try await work() } catch { throw CacheFault.error(error, in: directory) }
    }
}

/// The rule for how much may be stored.
struct PruneRule: Hashable, Sendable {
    var byteLimit: Int64
    /// The bytes to leave free on the disk.
    var freeFloor: Int64

    /// The maximum number of bytes of entries for now. Free bytes above the floor may be used. If fewer bytes are free,
    /// the limit is below `used`, so that entries are evicted. `freeByteCount` is `nil` when the system does not say.
    func limit(used: Int64, freeByteCount: Int64?) -> Int64 {
        guard let freeByteCount else { return byteLimit }
        let (room, isHuge) = used.addingReportingOverflow(freeByteCount - freeFloor)
        return max(0, isHuge ? byteLimit : min(byteLimit, room))
    }
}

/// A dispatch queue of the store, on which it calls SQLite and the file system.
///
/// Swift's concurrent executor has only as many threads as processors, so a call that waits for a disk or another process
/// would block unrelated tasks. A switch of threads costs about ten microseconds each way. A look-up also reads small bodies,
/// so that a hit needs only one switch.
struct StoreQueue: Sendable {
    let queue: DispatchQueue

    init(_ name: String, concurrent: Bool = false) {
        queue = DispatchQueue(
            label: "LATNetworking.cache.\(name)", qos: .userInitiated, attributes: concurrent ? .concurrent : [])
    }

    func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}

/// A value that only one queue uses, or only the holder of one lock, which makes `@unchecked Sendable` true.
struct Confined<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
