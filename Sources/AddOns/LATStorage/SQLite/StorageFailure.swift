public import FoundationEssentials
import CSQLite
public import HTTPCore
import Platform
import SQLite

/// The reason of a storage error: the `NetworkError.underlying` error of every `NetworkError` of kind
/// `NetworkError.Kind.storage` that an ``ObjectStore``, ``Preferences`` or a ``Digest`` throws.
///
/// ```swift
/// do {
///     try store.insert(user)
/// } catch let error as NetworkError where error.storageFailure?.reason == .duplicate {
///     try store.update(user)
/// }
/// ```
public struct StorageFailure: Error, Hashable, Sendable {
    /// The reasons of failures.
    public enum Reason: String, Hashable, Sendable {
        /// The file is not a database, or is damaged (`SQLITE_CORRUPT`, `SQLITE_NOTADB`).
        case corrupt
        /// The disk is full, or the file has reached its size limit (`SQLITE_FULL`).
        case full
        /// Another process held the file for longer than the busy timeout (`SQLITE_BUSY`).
        case busy
        /// The file, its folder or the disk may not be written (`SQLITE_READONLY`).
        case readOnly
        /// The file cannot be opened, read or written (`SQLITE_CANTOPEN`, `SQLITE_IOERR`).
        case unreadable
        /// A value with this id exists.
        case duplicate
        /// No value has this id.
        case missing
        /// The type does not fit the table that holds its values.
        case schema
        /// A value cannot be stored, or a stored one cannot be read as the type.
        case value
        /// The query is not valid for the type.
        case query
        /// The store is closed, or the transaction has ended.
        case closed
        /// Anything else that SQLite reports.
        case other
    }

    /// The reason of this failure.
    public let reason: Reason
    /// What was attempted: `insert into "User"`, `open /var/lib/app/objects.sqlite`.
    public let operation: String
    /// SQLite's extended result code; 0 when the error did not come from SQLite.
    public let code: Int
    /// The statement with its parameters as `?`, never with values; `nil` without one.
    public let sql: String?

    init(_ reason: Reason, _ operation: String, code: Int32 = 0, sql: String? = nil) {
        self.reason = reason
        self.operation = operation
        self.code = Int(code)
        self.sql = sql
    }
}

extension NetworkError {
    /// The details of an error of kind `NetworkError.Kind.storage` that this module threw; `nil` for other errors.
    public var storageFailure: StorageFailure? { underlying as? StorageFailure }

    static func storage(
        _ reason: StorageFailure.Reason, _ operation: String, _ message: String, code: Int32 = 0, sql: String? = nil
    ) -> NetworkError {
        NetworkError(
            .storage, message: "cannot \(operation): \(message)",
            underlying: StorageFailure(reason, operation, code: code, sql: sql))
    }

    /// Maps an SQLite error, and adds the next step.
    static func sqlite(_ error: SQLiteError, path: String, operation: String, sql: String? = nil) -> NetworkError {
        let reason: StorageFailure.Reason
        let advice: String
        let system = SystemError(code: error.systemCode)
        switch error.primaryCode {
        case _ where system.isFileLimit:
            reason = .unreadable
            advice = system.text
        case SQLITE_CORRUPT, SQLITE_NOTADB:
            reason = .corrupt
            advice =
                "\(path) is damaged or not a database; restore it, or open it with corruption: .setAside to start with an empty one"
        case SQLITE_FULL:
            reason = .full
            advice = "the disk is full or the size limit is reached, so the transaction was rolled back; make room"
        case SQLITE_BUSY, SQLITE_LOCKED:
            reason = .busy
            advice = "another process has locked \(path); try again, or raise busyTimeout"
        case SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH:
            reason = .readOnly
            advice = "\(path) is not writable; check the permissions of the file and its folder"
        case SQLITE_CANTOPEN, SQLITE_IOERR:
            reason = .unreadable
            advice = "\(path) cannot be opened, read or written; check its folder, its permissions and the disk"
        case SQLITE_TOOBIG:
            reason = .value
            advice = "a value is larger than SQLite's limit of a billion bytes; keep it in a file and store its path"
        case SQLITE_ERROR:
            reason = .query
            advice = "check the names of the fields and the statement in storageFailure.sql"
        default:
            reason = .other
            advice = "SQLite's code is \(error.code)"
        }
        return .storage(reason, operation, "\(error.message); \(advice)", code: error.code, sql: sql)
    }
}

extension StorageFailure: LocalizedError {
    /// The text of the failure, `"\(self)"`. `localizedDescription` returns it too.
    public var errorDescription: String? { "\(self)" }
}
