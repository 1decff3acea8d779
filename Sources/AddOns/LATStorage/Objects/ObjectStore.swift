import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

/// A store of plain Swift values in a SQLite file, without SQL.
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
/// A type is a table, and each field is a column. Text, numbers, dates, data, URLs, UUIDs, decimals and enums with raw
/// values have column types of their own. Anything with fields or elements is stored as JSON, which queries can look
/// into (`\.address.city`, `Field("tags", 0)`). The first insert makes the table. The first value of a new field adds
/// its column. Reading changes nothing, and columns that a type does not know stay, so that versions of a program with
/// more or fewer fields can use the same file. A renamed field or one with another type is an error until the
/// store has a ``Migration``.
///
/// Calls block the thread while SQLite works, usually for microseconds; ``run(_:)`` moves longer work off the threads
/// of Swift's tasks. Any number of tasks may use a store, and any number of processes its file: one writes at a time,
/// and readers never wait (WAL). What a finished call has written survives the end of the process, even `kill -9`;
/// with `isDurable` it survives a loss of power too.
///
/// Every error is a `NetworkError` of kind `NetworkError.Kind.storage` with a `NetworkError.storageFailure`.
public final class ObjectStore: ObjectAccess, Sendable {
    /// What happens when the file is damaged or is not a database.
    public enum Corruption: Hashable, Sendable {
        /// Opening throws ``StorageFailure/Reason/corrupt``; the file stays as it is.
        case fail
        /// The file and its `-wal` and `-shm` are renamed to `<path>.corrupt-<time>`, and an empty store is opened.
        /// ``ObjectStore/asidePath`` is the new path of the damaged file.
        case setAside
    }

    /// The path of the file; `:memory:` for a store without one.
    public let path: String
    /// The path to which a damaged file was renamed when this store was opened, `nil` when the file was not damaged.
    public let asidePath: String?
    let core: StoreCore

    private static let queue = DispatchQueue(label: "lat-store", attributes: .concurrent)

    /// Opens a store. Makes the file and the folders above it when they do not exist.
    ///
    /// - Parameters:
    ///   - path: the path of the file. SQLite keeps `<path>-wal` and `<path>-shm` beside it while it is in use. The
    ///     empty `<path>.lock` stays beside it: it keeps a damaged file from being replaced while others open it.
    ///   - migrations: changes of types that the store cannot make by itself, oldest first. Each runs once per file.
    ///   - busyTimeout: how long a call waits for another process that writes. Default: 10 s.
    ///   - isDurable: whether every commit waits for the disk (`PRAGMA synchronous = FULL`). Default `false`: a loss of
    ///     power may lose the last commits, never a part of one.
    ///   - maximumByteCount: the largest size of the file. A write beyond it fails with ``StorageFailure/Reason/full``.
    ///     Default `nil`: no limit.
    ///   - corruption: what to do with a damaged file. Default: fail.
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage`; what a migration throws.
    public init(
        path: String, migrations: [Migration] = [], busyTimeout: Duration = .seconds(10), isDurable: Bool = false,
        maximumByteCount: Int64? = nil, corruption: Corruption = .fail
    ) throws {
        let options = StoreOptions(
            busyTimeout: busyTimeout, isDurable: isDurable, maximumByteCount: maximumByteCount)
        if path.isEmpty || path.utf8.contains(0) {
            throw NetworkError.storage(.unreadable, "open a store", "the path is empty or contains a NUL")
        }
        self.path = path
        let path = path == ":memory:" ? path : PathParts.absolute(path)
        var aside: String?
        let writer: SQLiteConnection
        do {
            try Self.makeFolder(of: path)
            writer = try SQLiteConnection.opening(path, options)
        } catch let error as NetworkError
            where corruption == .setAside && error.storageFailure?.reason == .corrupt
        {
            (writer, aside) = try Self.replaceDamaged(path, options)
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

    /// Opens a store without a file, for tests. Its content is lost when the last reference is released.
    public static func inMemory() throws -> ObjectStore { try ObjectStore(path: ":memory:") }

    deinit { core.close() }

    /// Closes the file. Later calls throw ``StorageFailure/Reason/closed``; calls that are running finish.
    ///
    /// Releasing the last reference does the same.
    public func close() { core.close() }

    /// Checks the whole file for damage, which takes as long as reading it.
    ///
    /// - Throws: ``StorageFailure/Reason/corrupt`` with the first damage found.
    public func verify() throws {
        try core.read { transaction in
            let operation = "verify \(path)"
            try transaction.connection.run("PRAGMA integrity_check(1)", operation: operation) { row in
                guard let found = row.value(0).text, found != "ok" else { return }
                throw NetworkError.storage(
                    .corrupt, operation,
                    "\(found); restore the file, or open it with corruption: .setAside to start with an empty one")
            }
        }
    }

    // MARK: Transactions

    /// Runs a body in a transaction, or with a read connection.
    public func access<Result>(isWriting: Bool, _ body: (Transaction) throws -> Result) throws -> Result {
        try isWriting ? core.write(body) : core.read(body)
    }

    /// Runs changes in a transaction: all of them are kept, or none.
    ///
    /// - Parameter body: makes the changes with the functions of the transaction. Do not use those of the store here:
    ///   they throw when they write, because they would wait for the transaction to end, and they read without its
    ///   changes. Those of a store in memory throw when they read, too.
    /// - Throws: what the body throws, after all changes were rolled back; `NetworkError` of kind
    ///   `NetworkError.Kind.storage`.
    @discardableResult
    public func transaction<Result>(_ body: (Transaction) throws -> Result) throws -> Result {
        try core.write(body)
    }

    /// Runs reads that all see the same state, whatever others write at the same time.
    ///
    /// - Throws: what the body throws; `NetworkError` of kind `NetworkError.Kind.storage`, also when the body tries
    ///   to write.
    public func snapshot<Result>(_ body: (Transaction) throws -> Result) throws -> Result {
        try core.read(inSnapshot: true, body)
    }

    /// Runs work on a thread of the store, so that the disk does not block the threads of Swift's tasks.
    ///
    /// ```swift
    /// let users = try await store.run { try $0.fetch(User.self, sortedBy: [.ascending(\.name)]) }
    /// ```
    ///
    /// - Throws: what the body throws; `CancellationError` when the task was cancelled before. Work that has begun cannot
    ///   be cancelled.
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
                .unreadable, "open \(path)",
                "its folder cannot be made: \(NetworkError.reason(of: error)); check the permissions of \(folder)")
        }
    }

    /// Opens a new file in the place of a damaged one, unless another process or thread has just done so.
    private static func replaceDamaged(
        _ path: String, _ options: StoreOptions
    ) throws -> (SQLiteConnection, aside: String?) {
        let lock: FileLock
        do throws(SystemError) {
            lock = try FileLock(beside: path, patience: options.busyTimeout)
        } catch {
            throw FileLock.busy(error, "set \(path) aside", path)
                ?? .storage(.unreadable, "set \(path) aside", "\(error.text); check the permissions of its folder")
        }
        return try withExtendedLifetime(lock) {
            do {
                return (try SQLiteConnection(path: path, options: options), nil)
            } catch let error as NetworkError where error.storageFailure?.reason == .corrupt {}
            let aside = try setAside(path)
            return (try SQLiteConnection(path: path, options: options), aside)
        }
    }

    private static func setAside(_ path: String) throws -> String {
        let time = Int64(Date().timeIntervalSince1970 * 1_000)
        let aside = "\(path).corrupt-\(time)"
        // The log belongs to the file: recovery tools may need it. It is renamed first: once the file itself is away, others
        // make a new one with a log of its own.
        for companion in ["-wal", "-shm"] { _ = rename(path + companion, aside + companion) }
        guard rename(path, aside) == 0 else {
            let reason = SystemError().text
            throw NetworkError.storage(
                .unreadable, "set \(path) aside", "\(reason); check the permissions of its folder")
        }
        return aside
    }
}
