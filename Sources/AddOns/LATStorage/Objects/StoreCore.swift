import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization
import SQLite

/// The connections of a store and what it knows of the stored types.
///
/// `@unchecked Sendable`: ``writer`` is used only under ``writing``, each reader only by the call that took it.
final class StoreCore: @unchecked Sendable {
    let path: String
    let options: StoreOptions
    let changes: ChangeHub
    /// The file that was opened; `nil` in memory.
    private let file: FileNumber?
    private let writing = Mutex(())
    private var writer: SQLiteConnection?
    /// The thread that is in a transaction. A nested transaction on it is an error; otherwise it would deadlock.
    private let owner = Atomic<UInt>(0)
    private let readers = Mutex<[Reader]>([])
    private let isClosed = Atomic<Bool>(false)
    private let entries = Mutex<[ObjectIdentifier: TypeEntry]>([:])
    private let fields = Mutex<[PathKey: Field]>([:])
    private let names = Mutex<[String: (type: ObjectIdentifier, name: String)]>([:])

    /// `@unchecked Sendable`: used only by the call that took it out of ``StoreCore/readers``.
    private struct Reader: @unchecked Sendable {
        let connection: SQLiteConnection
    }

    /// `@unchecked Sendable`: key paths never change.
    private struct PathKey: Hashable, @unchecked Sendable {
        let path: AnyKeyPath
    }

    /// With less room on the disk, the log is empty before each transaction, so that one which is too large for the disk leaves
    /// nothing in it that needs room.
    private static let roomKept = 16 << 20

    /// Idle readers beyond this number are closed.
    private static let readerLimit = 4

    init(path: String, options: StoreOptions, writer: SQLiteConnection) {
        self.path = path
        self.options = options
        self.writer = writer
        changes = ChangeHub(path: path)
        file = path == ":memory:" ? nil : FileNumber(path)
    }

    var isInMemory: Bool { path == ":memory:" }

    private var closed: NetworkError {
        .storage(.closed, "use \(path)", "the store is closed; open another ObjectStore")
    }

    func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        changes.close()
        let idle = readers.withLock { readers in
            defer { readers = [] }
            return readers
        }
        for reader in idle { reader.connection.close() }
        let close = {
            self.writer?.close()
            self.writer = nil
        }
        // Inside a transaction, this thread already holds the lock. Closing the connection rolls the transaction back.
        if owner.load(ordering: .relaxed) == Self.thread { return close() }
        writing.withLock { _ in close() }
    }

    /// Throws when the path no longer leads to the file that is open: what is written to that one would be lost.
    private func checkFile() throws {
        if isInMemory || FileNumber(path) == file { return }
        throw NetworkError.storage(
            .unreadable, "use \(path)",
            "the file was deleted, moved or replaced while it was open; close this store and open another")
    }

    private static var thread: UInt { UInt(pthread_self()) }

    // MARK: Transactions

    /// Runs a body in a transaction on the write connection.
    func write<Result>(_ body: (Transaction) throws -> Result) throws -> Result {
        try withWriter {
            try self.checkFile()
            self.emptyLog(of: $0)
            return try self.transaction(on: $0, body)
        }
    }

    /// Empties the log when the disk is almost full: to move what it has into the file may need room too, so that a full disk
    /// would stay full. Changes nothing while others read or write.
    private func emptyLog(of connection: SQLiteConnection) {
        guard !isInMemory, case let (free, log) = SQLiteConnection.room(beside: path), log > 0,
            free < max(Self.roomKept, 2 * log)
        else { return }
        connection.waiting(atMost: .zero) { _ = connection.emptyLog() }
    }

    private func withWriter<Result>(_ body: (SQLiteConnection) throws -> Result) throws -> Result {
        let thread = Self.thread
        if owner.load(ordering: .relaxed) == thread {
            throw NetworkError.storage(
                .query, "use the store", "this thread is in a transaction of it; call the functions of the transaction")
        }
        var result: Swift.Result<Result, any Error>?
        try writing.withLock { _ in
            guard let writer else { throw closed }
            owner.store(thread, ordering: .relaxed)
            defer { owner.store(0, ordering: .relaxed) }
            result = Swift.Result { try body(writer) }
        }
        guard let result else { throw closed }
        return try checked { try result.get() }
    }

    private func transaction<Result>(
        on connection: SQLiteConnection, _ body: (Transaction) throws -> Result
    ) throws -> Result {
        // Takes the write lock at once: a reader that becomes a writer cannot wait for others (SQLITE_BUSY_SNAPSHOT).
        try connection.execute("BEGIN IMMEDIATE", operation: "begin a transaction in \(path)")
        let transaction = Transaction(core: self, connection: connection, isWriting: true)
        defer { transaction.end() }
        do {
            let result = try body(transaction)
            try transaction.refuseWhenFailed()
            try connection.execute("COMMIT", operation: "commit to \(path)")
            let pending = transaction.pending
            entries.withLock { $0.merge(pending) { $1 } }
            changes.report(transaction.changed)
            return result
        } catch {
            // SQLite may have rolled back already.
            if connection.isInTransaction {
                try? connection.execute("ROLLBACK", operation: "roll back")
            }
            throw error
        }
    }

    /// Runs a body with a read connection.
    func read<Result>(inSnapshot: Bool = false, _ body: (Transaction) throws -> Result) throws -> Result {
        // Another connection would have another database.
        if isInMemory { return try withWriter { try self.read(on: $0, inSnapshot: inSnapshot, body) } }
        let connection = try takeReader()
        defer { give(back: connection) }
        return try checked { try read(on: connection, inSnapshot: inSnapshot, body) }
    }

    private func read<Result>(
        on connection: SQLiteConnection, inSnapshot: Bool, _ body: (Transaction) throws -> Result
    ) throws -> Result {
        let transaction = Transaction(core: self, connection: connection, isWriting: false)
        defer { transaction.end() }
        guard inSnapshot else { return try body(transaction) }
        try connection.execute("BEGIN", operation: "begin to read \(path)")
        defer { try? connection.execute("COMMIT", operation: "end reading") }
        return try body(transaction)
    }

    private func takeReader() throws -> SQLiteConnection {
        if isClosed.load(ordering: .acquiring) { throw closed }
        try checkFile()
        if let reader = readers.withLock({ $0.popLast() }) { return reader.connection }
        let reader = try SQLiteConnection.opening(path, options, mode: .reading)
        try checkFile()
        return reader
    }

    private func give(back connection: SQLiteConnection) {
        let reader = Reader(connection: connection)
        let isKept = readers.withLock { readers in
            if isClosed.load(ordering: .acquiring) || readers.count >= Self.readerLimit { return false }
            readers.append(reader)
            return true
        }
        if !isKept { connection.close() }
    }

    /// Forgets the known tables when the work fails because of its query: another process may have changed the tables.
    /// They are then read again.
    private func checked<Result>(_ work: () throws -> Result) throws -> Result {
        do { return try work() } catch let error as NetworkError {
            if error.storageFailure?.reason == .query { entries.withLock { $0 = [:] } }
            throw error
        }
    }

    /// Calls a body with the write connection once no other call uses it. Does nothing inside a transaction of this
    /// thread.
    func withIdleWriter(_ body: (SQLiteConnection) -> Void) {
        if owner.load(ordering: .relaxed) == Self.thread { return }
        writing.withLock { _ in
            if let writer { body(writer) }
        }
    }

    // MARK: Types

    func entry(of type: ObjectIdentifier) -> TypeEntry? { entries.withLock { $0[type] } }

    func keep(_ entry: TypeEntry, for type: ObjectIdentifier) { entries.withLock { $0[type] = entry } }

    /// Returns the field that a key path leads to, and remembers it.
    func field(of path: AnyKeyPath, or find: () throws -> Field) throws -> Field {
        let key = PathKey(path: path)
        if let field = fields.withLock({ $0[key] }) { return field }
        let field = try find()
        fields.withLock { $0[key] = field }
        return field
    }

    /// Returns the table of a type.
    ///
    /// - Throws: when another type of this program uses the name, or the name cannot be that of a table.
    func table(of type: Any.Type) throws -> String {
        let table = TableLayout.table(of: type)
        if table.isEmpty || table.utf8.contains(0) || table.lowercased().hasPrefix(TableLayout.ownPrefix)
            || table.lowercased().hasPrefix("sqlite_")
        {
            throw NetworkError.storage(
                .schema, "store \(type)",
                "its storedName \(Identifier.shown(table)) is empty, contains a NUL or begins with a reserved prefix")
        }
        let identifier = ObjectIdentifier(type)
        let name = String(reflecting: type)
        let other = names.withLock { names in
            // SQLite compares table names without regard to ASCII case.
            let key = String(decoding: table.utf8.map { (65...90).contains($0) ? $0 + 32 : $0 }, as: UTF8.self)
            if let known = names[key] { return known }
            names[key] = (identifier, name)
            return (identifier, name)
        }
        guard other.0 == identifier else {
            throw NetworkError.storage(
                .schema, "store \(name)",
                "\(other.1) is stored as \(Identifier.shown(table)) already; give one of them another storedName")
        }
        return table
    }
}
