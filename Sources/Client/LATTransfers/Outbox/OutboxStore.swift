import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

/// A row of the outbox's database.
struct OutboxRow: Sendable {
    var id: Int64 = 0
    /// Its place in the order; a retry gives it a new one.
    var place: Int64 = 0
    var state = Outbox.State.waiting
    var group: String?
    var supersedes: String?
    var handler: String?
    /// What fails together: the row, the domain or the origin.
    var target = ""
    var key = ""
    /// Whether the key is the caller's, so that a second entry with it is the same one.
    var hasOwnKey = false
    var priority: Int64 = 1
    /// Times of the outbox, in milliseconds.
    var added: Int64 = 0
    var expires: Int64?
    var due: Int64 = 0
    var size: Int64 = 0
    var attempts = 0
    /// 0 while the answers to all attempts were seen. When one was not, so that the attempt may have had its effect: 1, and 1
    /// more for each 409 since.
    var unseen = 0
    var reason: String?
    var status: Int?
    /// The request as JSON (``KeptRequest``).
    var request = Data()
    /// The bytes of the body that are not in files.
    var body = Data()
}

/// The database of an outbox's folder. Several processes use it at the same time; its owner uses it from one queue.
///
/// Each transaction holds a shared lock of the folder. Who sets a damaged database aside holds the exclusive one, and the
/// others notice by the number of the file that they have to open the new one.
final class OutboxStore {
    let folder: String
    private var connection: SQLiteConnection
    private var file: UInt64
    private let lock: Int32

    static let columns =
        "id, state, grp, supersedes, handler, target, key, priority, added, expires, due, size, attempts, unseen, reason, "
        + "status, request, place"
    /// Room on the disk that is given up when it is full, because removing an entry needs some, too.
    private static let reserveSize = 256 << 10

    static let schema = """
        CREATE TABLE IF NOT EXISTS outbox(id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL,
          count INTEGER NOT NULL, answered INTEGER NOT NULL, dead INTEGER NOT NULL, size INTEGER NOT NULL,
          boot TEXT, uptime INTEGER, wall INTEGER, time INTEGER, flight TEXT NOT NULL DEFAULT '[]');
        INSERT OR IGNORE INTO outbox(id, number, count, answered, dead, size) VALUES (1, 0, 0, 0, 0, 0);
        CREATE TABLE IF NOT EXISTS entries(id INTEGER PRIMARY KEY, place INTEGER NOT NULL, state INTEGER NOT NULL,
          ready INTEGER NOT NULL, sending INTEGER NOT NULL DEFAULT 0, grp TEXT, supersedes TEXT, handler TEXT,
          target TEXT NOT NULL, key TEXT NOT NULL, own INTEGER NOT NULL, priority INTEGER NOT NULL,
          added INTEGER NOT NULL, expires INTEGER, due INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL,
          attempts INTEGER NOT NULL DEFAULT 0, unseen INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 1,
          reason TEXT, status INTEGER, request BLOB NOT NULL, body BLOB, answer BLOB);
        CREATE INDEX IF NOT EXISTS ready ON entries(priority DESC, place, target)
          WHERE state = 0 AND ready = 1 AND sending = 0 AND due = 0;
        CREATE INDEX IF NOT EXISTS later ON entries(due)
          WHERE state = 0 AND ready = 1 AND sending = 0 AND due > 0;
        CREATE INDEX IF NOT EXISTS lanes ON entries(grp, place) WHERE state = 0 AND grp IS NOT NULL;
        CREATE INDEX IF NOT EXISTS newest ON entries(supersedes, grp) WHERE state = 0 AND supersedes IS NOT NULL;
        CREATE INDEX IF NOT EXISTS ending ON entries(expires) WHERE state = 0 AND expires IS NOT NULL;
        CREATE INDEX IF NOT EXISTS untold ON entries(handler, place) WHERE told = 0;
        CREATE UNIQUE INDEX IF NOT EXISTS own ON entries(key) WHERE own = 1;
        CREATE INDEX IF NOT EXISTS ended ON entries(id) WHERE state > 1;
        PRAGMA user_version = 2;
        """

    /// Makes a database of version 1 one of version 2. Version 1 marked each entry that was being sent.
    private static let changesSinceFirst = """
        ALTER TABLE outbox ADD COLUMN flight TEXT NOT NULL DEFAULT '[]';
        CREATE INDEX IF NOT EXISTS ended ON entries(id) WHERE state > 1;
        \(takeBackMarks);
        PRAGMA user_version = 2;
        """

    /// Takes back the marks of entries without a key, which only version 1 made.
    static let takeBackMarks =
        "UPDATE entries SET sending = 0, unseen = max(unseen, 1) WHERE state = 0 AND sending = 1 AND supersedes IS NULL"

    /// Opens the database of a folder, or makes both. A damaged database is set aside.
    ///
    /// - Returns: the store, and where the damaged database is now.
    static func opening(_ folder: String) throws(NetworkError) -> (OutboxStore, aside: NetworkError?) {
        do throws(SystemError) {
            try PathParts(folder + "/bodies/").makeFolder(mode: 0o700)
        } catch {
            throw NetworkError.outboxFile("created", folder, error.code)
        }
        let lock = open(folder + "/store.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { throw NetworkError.outboxFile("opened", folder + "/store.lock", errno) }
        var file: UInt64 = 0
        do {
            try share(lock, of: folder)
            defer { flock(lock, LOCK_UN) }
            file = number(of: folder)
            return (OutboxStore(folder, lock, try connect(folder)), nil)
        } catch let error as SQLiteError where error.isDamage {
            let (connection, report) = try replaceDamaged(folder, lock, file, error)
            return (OutboxStore(folder, lock, connection), report)
        } catch {
            close(lock)
            throw failure(error, folder)
        }
    }

    private init(_ folder: String, _ lock: Int32, _ connection: SQLiteConnection) {
        self.folder = folder
        self.lock = lock
        self.connection = connection
        file = Self.number(of: folder)
        keepReserve()
    }

    deinit {
        connection.close()
        close(lock)
    }

    static func path(_ folder: String) -> String { folder + "/outbox.sqlite" }

    static func number(of folder: String) -> UInt64 {
        var status = stat()
        return stat(path(folder), &status) == 0 ? UInt64(status.st_ino) : 0
    }

    /// Opens the database, or makes it. SQLite needs some room for the files beside it, for which the reserve is given up on a
    /// full disk.
    static func connect(_ folder: String) throws -> SQLiteConnection {
        do {
            return try connectOnce(folder)
        } catch {
            guard failure(error, folder).outboxFailure == .diskFull, unlink(reserve(of: folder)) == 0 else {
                throw error
            }
            return try connectOnce(folder)
        }
    }

    private static func connectOnce(_ folder: String) throws -> SQLiteConnection {
        let path = path(folder)
        let connection = try SQLiteConnection(path: path, mode: .creating, busyTimeout: .seconds(10))
        // Two processes that make the file at the same time collide here, and SQLite does not wait.
        for attempt in 0... {
            do {
                try connection.execute("PRAGMA journal_mode = WAL")
                break
            } catch {
                guard error.isBusy, attempt < 5_000 else { throw error }
                usleep(2_000)
            }
        }
        try connection.execute("PRAGMA synchronous = FULL; PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY")
        let version = try connection.number("PRAGMA user_version") ?? 0
        guard version <= 2 else {
            throw NetworkError.outbox(
                .store,
                "\(URLText.visible(path)) is of a later version of this package; update the program, or name another folder"
            )
        }
        if version < 2 {
            try connection.transaction {
                // Another process may have been first.
                switch try connection.number("PRAGMA user_version") {
                case 0: try connection.execute(schema)
                case 1: try connection.execute(changesSinceFirst)
                default: break
                }
            }
            try Self.synchronize(folder)
        }
        var isSound = try connection.number("SELECT count FROM outbox") != nil
        // Looks through a database of moderate size, in which damage would otherwise be noticed late.
        if try connection.number("PRAGMA page_count") ?? 0 < 1_024 {
            isSound = try isSound && connection.use("PRAGMA quick_check(1)") { try $0.step() && $0.text(0) == "ok" }
        }
        guard isSound else {
            throw SQLiteError(code: SQLiteError.corrupt, message: "malformed", attempt: "checking")
        }
        return connection
    }

    /// Has the names of a folder's files on the disk.
    static func synchronize(_ folder: String) throws(NetworkError) {
        do throws(SystemError) { try AtomicFile.synchronizing(folder) } catch {
            throw NetworkError.outboxFile("synchronized", folder, error.code)
        }
    }

    // MARK: Transactions

    /// Runs a body in a transaction.
    ///
    /// - Parameter isDurable: whether it is on the disk when this returns. Default `true`.
    func write<Result>(
        isDurable: Bool = true, _ body: (OutboxTransaction) throws -> Result
    ) throws(NetworkError) -> Result {
        defer { keepRoom() }
        do {
            return try writeOnce(isDurable, body)
        } catch {
            guard error.outboxFailure == .diskFull else { throw error }
            makeRoom()
            return try writeOnce(isDurable, body)
        }
    }

    private func writeOnce<Result>(
        _ isDurable: Bool, _ body: (OutboxTransaction) throws -> Result
    ) throws(NetworkError) -> Result {
        try locked {
            // A commit without fsync, which the next one with it makes durable, too.
            if !isDurable { try connection.execute("PRAGMA synchronous = NORMAL") }
            defer { if !isDurable { try? connection.execute("PRAGMA synchronous = FULL") } }
            return try connection.transaction {
                let transaction = OutboxTransaction(connection)
                let result = try body(transaction)
                try transaction.finish()
                return result
            }
        }
    }

    func read<Result>(_ body: (SQLiteConnection) throws -> Result) throws(NetworkError) -> Result {
        try locked { try body(connection) }
    }

    private func locked<Result>(_ body: () throws -> Result) throws(NetworkError) -> Result {
        try Self.share(lock, of: folder)
        defer { flock(lock, LOCK_UN) }
        do {
            if Self.number(of: folder) != file {
                replaceConnection(with: try Self.connect(folder))
            }
            return try body()
        } catch {
            throw Self.failure(error, folder)
        }
    }

    /// Sets a damaged database aside, and goes on with what can be read of it.
    ///
    /// - Returns: what to tell; `nil` when another process did it.
    func replaceDamaged(_ error: NetworkError) throws(NetworkError) -> NetworkError? {
        // What can be moved from the log into the file is easier to read there.
        connection.emptyLog()
        let cause = SQLiteError(code: SQLiteError.corrupt, message: error.message, attempt: "using it")
        let (connection, report) = try Self.replaceDamaged(folder, lock, file, cause)
        replaceConnection(with: connection)
        return report
    }

    private func replaceConnection(with new: SQLiteConnection) {
        // SQLite would remove the log by its name, which is that of the new database's log now.
        connection.keepLogOnClose()
        connection.close()
        connection = new
        file = Self.number(of: folder)
    }

    // MARK: The reserve

    /// Gives up the reserve, so that what has happened can be recorded on a full disk.
    func releaseReserve() {
        unlink(Self.reserve(of: folder))
        connection.emptyLog()
        shrinkFile(from: 64)
    }

    /// Frees the room that the store holds and does not need.
    func makeRoom() {
        if connection.emptyLog() { return shrinkFile(from: 64) }
        // The file may have to grow by less than what becomes free.
        releaseReserve()
        keepReserve()
    }

    /// Empties the log while the file may still grow by as much. On a full disk it could not be emptied, and then nothing could
    /// be removed either.
    private func keepRoom() {
        if Self.room(of: folder) < Self.reserveSize { makeRoom() }
    }

    /// The bytes that are free on the disk beside those that the file may grow by when the log is emptied.
    private static func room(of folder: String) -> Int {
        let (free, log) = SQLiteConnection.room(beside: path(folder))
        return free - log
    }

    /// Gives the room of entries that are gone back to the disk when few others are left. SQLite itself never shrinks the file.
    ///
    /// - Parameter least: the pages without content, of 4 KiB each, from which on it is worth it.
    private func shrinkFile(from least: Int64) {
        var status = stat()
        guard stat(Self.path(folder), &status) == 0, status.st_size >= least << 12 else { return }
        try? locked {
            let free = try connection.number("PRAGMA freelist_count") ?? 0
            let used = try (connection.number("PRAGMA page_count") ?? 0) - free
            guard free >= least, used <= min(free, 1_024) else { return }
            // Another time, if another process uses it now.
            connection.waiting(atMost: .zero) {
                try? connection.execute("VACUUM")
                connection.emptyLog()
            }
        }
    }

    /// Makes the reserve again, of the room that the store does not need.
    ///
    /// - Parameter isIdle: whether there is time to look for such room. Default `true`.
    func keepReserve(isIdle: Bool = true) {
        if isIdle { shrinkFile(from: 1_024) }
        Self.keepReserve(of: folder)
    }

    /// - Returns: whether it is there.
    @discardableResult
    private static func keepReserve(of folder: String) -> Bool {
        let path = reserve(of: folder)
        if access(path, F_OK) == 0 { return true }
        // Not zeros, which a file system may not store.
        let bytes = (0..<reserveSize).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
        return (try? AtomicFile.write(bytes, to: path, isShared: true, followsLinks: false)) != nil
    }

    /// Checks that something may be added. While the reserve is given up, what is added would take the room that the sender
    /// needs to record what was sent, and so to make room.
    ///
    /// - Parameters:
    ///   - count: the bytes that are added to the log, and from there to the file. Default 0.
    ///   - makingRoom: makes room, after which it is looked at again.
    /// - Throws: ``Outbox/Failure/diskFull``.
    static func checkRoom(in folder: String, for count: Int = 0, makingRoom: () -> Void = {}) throws(NetworkError) {
        let hasReserve = access(reserve(of: folder), F_OK) == 0
        // Without a sender nobody else makes it again. The sender may be about to use as much.
        let need = hasReserve ? 2 * count - reserveSize / 2 : 2 * reserveSize + 2 * count
        guard need > 0 else { return }
        if room(of: folder) < need { makingRoom() }
        guard room(of: folder) >= need, hasReserve || keepReserve(of: folder) else { throw fullDisk(folder) }
    }

    private static func reserve(of folder: String) -> String { folder + "/reserve" }

    // MARK: Errors

    static func failure(_ error: any Error, _ folder: String) -> NetworkError {
        if let error = error as? NetworkError { return error }
        guard let error = error as? SQLiteError else { return .outbox(.store, "\(error)") }
        let path = URLText.visible(path(folder))
        let system = SystemError(code: error.systemCode)
        if error.isFull || system.isFull { return fullDisk(folder) }
        let advice =
            error.isBusy
            ? "another process holds it for too long; try again"
            : "check the file, the permissions of its folder and the disk"
        return NetworkError(
            .storage, message: "\(path) cannot be used: \(error.message) (SQLite \(error.code)); \(advice)",
            underlying: error.isDamage ? Damage() : Outbox.Failure.store)
    }

    private static func fullDisk(_ folder: String) -> NetworkError {
        .outbox(
            .diskFull,
            "the disk of \(URLText.visible(path(folder))) is full, so nothing was changed; make room and try again")
    }

    /// Marks an error that shows damage.
    struct Damage: Error {}
}

extension SQLiteError {
    static let corrupt: Int32 = 11
    /// Whether the file is damaged or not a database (`SQLITE_CORRUPT`, `SQLITE_NOTADB`).
    var isDamage: Bool { primaryCode == Self.corrupt || primaryCode == 26 }
    /// Whether the disk is full (`SQLITE_FULL`).
    var isFull: Bool { primaryCode == 13 }
}
