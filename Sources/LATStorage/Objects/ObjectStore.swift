import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

/// Keeps values of plain Swift types in a SQLite file, without SQL.
///
/// ```swift
/// struct User: Codable, Identifiable, Sendable { var id: Int; var name: String; var nick: String? }
///
/// let store = try ObjectStore(path: "/var/lib/app/objects.sqlite")
/// try store.insert(User(id: 7, name: "Ada", nick: nil))
/// let user = try store.fetch(User.self, id: 7)
/// let named = try store.fetch(User.self, where: \.name >= "A" && \.nick == nil, sortedBy: [.ascending(\.name)])
/// ```
///
/// A type is a table, a field a column of its own: text, numbers, dates, data, URLs, UUIDs, decimals and enums with raw
/// values as what they are, everything with fields or elements of its own as JSON that can be queried too
/// (`\.address.city`, `Field("tags", 0)`). The table is made at the first insert, and gains a column with the first
/// value of a field that is new; reading changes nothing, and columns that a type does not know are left alone, so that
/// versions of a program that know more fields or fewer can use one file in turns. What a program cannot settle by
/// itself, a field with another name or of another type, is an error until the store is given a ``Migration``.
///
/// Calls block the thread for as long as SQLite takes, microseconds mostly; ``run(_:)`` moves many of them off the
/// threads of Swift's tasks. A store may be used from any number of tasks, and its file by any number of processes:
/// one writes at a time, reading waits for nobody (WAL). What a call that returned has written survives the end of the
/// process, `kill -9` included; that it survives a loss of power is the choice `isDurable`.
///
/// Every error is a ``NetworkError`` of kind ``NetworkError/Kind/storage``; ``NetworkError/storageFailure`` says which.
public final class ObjectStore: ObjectAccess, Sendable {
    /// What happens when the file is damaged, or no database.
    public enum Corruption: Hashable, Sendable {
        /// Opening throws ``StorageFailure/Reason/corrupt``; the file stays as it is.
        case fail
        /// The file and its companions are renamed to `<path>.corrupt-<time>`, and an empty store is opened.
        /// ``ObjectStore/asidePath`` says where the old one is.
        case setAside
    }

    /// Where the file is; `:memory:` for a store without one.
    public let path: String
    /// Where a damaged file was set aside when this store was opened, `nil` when it was sound.
    public let asidePath: String?
    let core: StoreCore

    private static let queue = DispatchQueue(label: "lat-store", attributes: .concurrent)

    /// Opens a store, or makes one; folders on the way are made too.
    ///
    /// - Parameters:
    ///   - path: where the file is. Beside it lie `<path>-wal` and `<path>-shm` while it is in use.
    ///   - migrations: changes of types that the store cannot settle by itself, oldest first. Each runs once per file.
    ///   - busyTimeout: how long a call waits for another process that writes. Default: 10 s.
    ///   - isDurable: whether every commit waits for the disk (`PRAGMA synchronous = FULL`). Default `false`: a loss of
    ///     power may take the last commits, never a part of one.
    ///   - maximumByteCount: how large the file may grow; more is ``StorageFailure/Reason/full``. Default `nil`: the
    ///     disk decides.
    ///   - corruption: what to do with a damaged file. Default: fail.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage``; what a migration throws.
    public init(
        path: String, migrations: [Migration] = [], busyTimeout: Duration = .seconds(10), isDurable: Bool = false,
        maximumByteCount: Int64? = nil, corruption: Corruption = .fail
    ) throws {
        let options = StoreOptions(
            busyTimeout: busyTimeout, isDurable: isDurable, maximumByteCount: maximumByteCount)
        if path.isEmpty || path.utf8.contains(0) {
            throw NetworkError.storage(.unreadable, "open a store", "the path is empty or holds a NUL")
        }
        self.path = path
        var aside: String?
        let writer: SQLiteConnection
        do {
            try Self.makeFolder(of: path)
            writer = try SQLiteConnection(path: path, options: options)
        } catch let error as NetworkError
            where corruption == .setAside && error.storageFailure?.reason == .corrupt
        {
            aside = try Self.setAside(path)
            writer = try SQLiteConnection(path: path, options: options)
        }
        asidePath = aside
        core = StoreCore(path: path, options: options, writer: writer)
        do {
            if !migrations.isEmpty { try core.write { try Migrator.run(migrations, in: $0) } }
        } catch {
            core.close()
            throw error
        }
    }

    /// A store without a file, for tests: it is gone with its last reference.
    public static func inMemory() throws -> ObjectStore { try ObjectStore(path: ":memory:") }

    deinit { core.close() }

    /// Closes the file. Later calls throw ``StorageFailure/Reason/closed``; calls that run are let finish.
    ///
    /// Letting go of the last reference does the same.
    public func close() { core.close() }

    /// Looks through the whole file for damage, which takes as long as reading it.
    ///
    /// - Throws: ``StorageFailure/Reason/corrupt`` with the first that was found.
    public func verify() throws {
        try core.read { transaction in
            let operation = "verify \(path)"
            try transaction.connection.run("PRAGMA integrity_check(1)", operation: operation) { row in
                guard let found = row.value(0).text, found != "ok" else { return }
                throw NetworkError.storage(
                    .corrupt, operation,
                    "\(found); restore the file, or open it with corruption: .setAside to begin anew")
            }
        }
    }

    // MARK: Turns

    /// Runs a body in a transaction, or with a connection that reads.
    public func access<Result>(isWriting: Bool, _ body: (Transaction) throws -> Result) throws -> Result {
        try isWriting ? core.write(body) : core.read(body)
    }

    /// Runs changes that are kept together or not at all.
    ///
    /// - Parameter body: what to do, with the functions of the transaction; those of the store would wait for it, and
    ///   throw instead.
    /// - Throws: what the body throws, after everything was undone; ``NetworkError`` of kind
    ///   ``NetworkError/Kind/storage``.
    @discardableResult
    public func transaction<Result>(_ body: (Transaction) throws -> Result) throws -> Result {
        try core.write(body)
    }

    /// Runs reads that all see the same state, whatever is written meanwhile.
    ///
    /// - Throws: what the body throws; ``NetworkError`` of kind ``NetworkError/Kind/storage``, also for an attempt to
    ///   write.
    public func snapshot<Result>(_ body: (Transaction) throws -> Result) throws -> Result {
        try core.read(inSnapshot: true, body)
    }

    /// Runs work on a thread of the store's own, so that none of Swift's tasks is held up by the disk.
    ///
    /// ```swift
    /// let users = try await store.run { try $0.fetch(User.self, sortedBy: [.ascending(\.name)]) }
    /// ```
    ///
    /// - Throws: what the body throws. Work that has begun is not cancelled.
    public func run<Result: Sendable>(
        _ body: @escaping @Sendable (ObjectStore) throws -> Result
    ) async throws -> Result {
        try Task.checkCancellation()
        return try await withCheckedThrowingContinuation { continuation in
            Self.queue.async { continuation.resume(with: Swift.Result { try body(self) }) }
        }
    }

    // MARK: Files

    private static func makeFolder(of path: String) throws {
        guard path != ":memory:", let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return }
        let folder = String(path[..<slash])
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw NetworkError.storage(
                .unreadable, "open \(path)", "its folder cannot be made: \(error); look at the rights of \(folder)")
        }
    }

    private static func setAside(_ path: String) throws -> String {
        let time = Int64(Date().timeIntervalSince1970 * 1_000)
        let aside = "\(path).corrupt-\(time)"
        guard rename(path, aside) == 0 else {
            let reason = SystemError().text
            throw NetworkError.storage(
                .unreadable, "set \(path) aside", "\(reason); look at the rights of its folder")
        }
        // The log belongs to the file: with it a tool may still save something.
        for companion in ["-wal", "-shm"] { _ = rename(path + companion, aside + companion) }
        return aside
    }
}
