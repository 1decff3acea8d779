import CSQLite
public import HTTPCore
import SQLite

/// Why a store could not do what it was asked: the ``NetworkError/underlying`` error of every ``NetworkError`` of kind
/// ``NetworkError/Kind/storage`` that an ``ObjectStore`` throws.
///
/// ```swift
/// do {
///     try store.insert(user)
/// } catch let error as NetworkError where error.storageFailure?.reason == .duplicate {
///     try store.update(user)
/// }
/// ```
public struct StorageFailure: Error, Hashable, Sendable {
    /// What it comes down to.
    public enum Reason: String, Hashable, Sendable {
        /// The file is no database, or damaged (`SQLITE_CORRUPT`, `SQLITE_NOTADB`).
        case corrupt
        /// No space is left, or the size allowed is reached (`SQLITE_FULL`).
        case full
        /// Another process held the file for longer than the busy timeout (`SQLITE_BUSY`).
        case busy
        /// The file, its folder or the disk may not be written (`SQLITE_READONLY`).
        case readOnly
        /// The file cannot be opened, read or written (`SQLITE_CANTOPEN`, `SQLITE_IOERR`).
        case unreadable
        /// There is a value with this id already.
        case duplicate
        /// There is no value with this id.
        case missing
        /// A type and what was stored of it do not fit each other.
        case schema
        /// A value cannot be stored, or a stored one not be read as the type.
        case value
        /// The query cannot be answered as it is.
        case query
        /// The store is closed, or the transaction over.
        case closed
        /// Anything else that SQLite reports.
        case other
    }

    /// What it comes down to.
    public let reason: Reason
    /// What was attempted: `insert into "User"`, `open /var/lib/app/objects.sqlite`.
    public let operation: String
    /// SQLite's extended result code; 0 when SQLite has not been asked.
    public let code: Int
    /// The statement, with its parameters as `?`: values are never in it.
    public let sql: String?

    init(_ reason: Reason, _ operation: String, code: Int32 = 0, sql: String? = nil) {
        self.reason = reason
        self.operation = operation
        self.code = Int(code)
        self.sql = sql
    }
}

extension NetworkError {
    /// What a store says of a failure of kind ``NetworkError/Kind/storage``.
    public var storageFailure: StorageFailure? { underlying as? StorageFailure }

    static func storage(
        _ reason: StorageFailure.Reason, _ operation: String, _ message: String, code: Int32 = 0, sql: String? = nil
    ) -> NetworkError {
        NetworkError(
            .storage, message: "cannot \(operation): \(message)",
            underlying: StorageFailure(reason, operation, code: code, sql: sql))
    }

    /// What SQLite reported, with the next step.
    static func sqlite(_ error: SQLiteError, path: String, operation: String, sql: String? = nil) -> NetworkError {
        let reason: StorageFailure.Reason
        let advice: String
        switch error.primaryCode {
        case SQLITE_CORRUPT, SQLITE_NOTADB:
            reason = .corrupt
            advice =
                "\(path) is damaged or no database; restore it, or open it with corruption: .setAside to begin anew"
        case SQLITE_FULL:
            reason = .full
            advice = "the disk is full or the size allowed is reached; nothing of the transaction was kept, make room"
        case SQLITE_BUSY, SQLITE_LOCKED:
            reason = .busy
            advice = "another process holds \(path); try again, or raise busyTimeout"
        case SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH:
            reason = .readOnly
            advice = "\(path) may not be written; look at the rights of the file and its folder"
        case SQLITE_CANTOPEN, SQLITE_IOERR:
            reason = .unreadable
            advice = "\(path) cannot be opened, read or written; look at its folder, its rights and the disk"
        case SQLITE_TOOBIG:
            reason = .value
            advice = "a value is larger than SQLite holds, a billion bytes; keep it in a file and store its path"
        case SQLITE_ERROR:
            reason = .query
            advice = "look at the names of the fields and the statement in storageFailure.sql"
        default:
            reason = .other
            advice = "SQLite's code is \(error.code)"
        }
        return .storage(reason, operation, "\(error.message); \(advice)", code: error.code, sql: sql)
    }
}
