import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

extension OutboxStore {
    private static func marker(_ folder: String) -> String { folder + "/setting-aside" }

    /// Copies what can be read of a damaged database into a new one, and then puts that in its place.
    ///
    /// A process that dies before the marker is written has changed nothing, and what is left to do after it is finished by
    /// the next one that opens or uses the folder.
    ///
    /// - Returns: the connection to the new database, and what to tell.
    static func replaceDamaged(
        _ folder: String, _ lock: Int32, _ file: UInt64, _ cause: SQLiteError
    ) throws(NetworkError) -> (SQLiteConnection, NetworkError?) {
        while flock(lock, LOCK_EX) != 0, errno == EINTR {}
        defer { flock(lock, LOCK_UN) }
        try finishSettingAside(folder)
        let path = path(folder)
        // Another process may have replaced it in the meantime.
        if number(of: folder) != file {
            do { return (try connect(folder), nil) } catch { throw failure(error, folder) }
        }
        var aside = path + ".damaged-\(time(nil))"
        while access(aside, F_OK) == 0 { aside += "x" }
        let saved: Int
        do {
            saved = try makeNew(folder, aside)
            try AtomicFile.write(Array(aside.utf8), to: marker(folder), isShared: true, followsLinks: false)
        } catch {
            unlink(path + ".new")
            throw failure(error, folder)
        }
        try finishSettingAside(folder)
        do {
            return (
                try connect(folder),
                .outbox(
                    .store,
                    "the outbox \(URLText.visible(path)) was damaged (\(cause.message)); \(saved) entries were read from "
                        + "it and are kept, and the damaged file is \(URLText.visible(aside)): look there for others, "
                        + "and in \(URLText.visible(aside)).bodies for their bodies")
            )
        } catch {
            throw failure(error, folder)
        }
    }

    /// Takes the shared lock of a folder, in which no setting aside is left half-done.
    static func share(_ lock: Int32, of folder: String) throws(NetworkError) {
        while true {
            while flock(lock, LOCK_SH) != 0, errno == EINTR {}
            guard access(marker(folder), F_OK) == 0 else { return }
            while flock(lock, LOCK_EX) != 0, errno == EINTR {}
            do throws(NetworkError) { try finishSettingAside(folder) } catch {
                flock(lock, LOCK_UN)
                throw error
            }
        }
    }

    /// Renames the files as the marker says, if there is one. Each step can be the last of a process.
    private static func finishSettingAside(_ folder: String) throws(NetworkError) {
        let path = path(folder)
        guard let text = FileManager.default.contents(atPath: marker(folder)) else {
            guard access(marker(folder), F_OK) == 0 else { return }
            throw NetworkError.outboxFile("read", marker(folder), access(marker(folder), R_OK) == 0 ? EIO : errno)
        }
        let aside = String(decoding: text, as: UTF8.self)
        if access(path + ".new", F_OK) == 0 {
            // The log belongs to the file.
            for companion in ["-wal", "-shm", ""] where access(path + companion, F_OK) == 0 {
                guard rename(path + companion, aside + companion) == 0 else {
                    throw NetworkError.outboxFile("set aside", path + companion, errno)
                }
            }
            guard rename(path + ".new", path) == 0 else { throw NetworkError.outboxFile("replaced", path, errno) }
            try synchronize(folder)
        }
        guard unlink(marker(folder)) == 0 else {
            throw NetworkError.outboxFile("removed", marker(folder), errno)
        }
    }

    /// Makes the new database beside the damaged one. It has no log, so the file is all of it.
    private static func makeNew(_ folder: String, _ aside: String) throws -> Int {
        let path = path(folder)
        for leftover in ["", "-journal"] { unlink(path + ".new" + leftover) }
        let connection = try SQLiteConnection(path: path + ".new", mode: .creating, busyTimeout: .seconds(10))
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL")
        let saved = try connection.transaction {
            try connection.execute(schema)
            return try salvage(path, into: connection)
        }
        // Bodies without an entry are removed later. Those of entries that cannot be read stay beside the damaged file.
        let bodies = folder + "/bodies"
        let names = Set((try? FileManager.default.contentsOfDirectory(atPath: bodies)) ?? [])
            .subtracting(try connection.ownFiles())
        if !names.isEmpty { mkdir(aside + ".bodies", 0o700) }
        for name in names where link("\(bodies)/\(name)", "\(aside).bodies/\(name)") != 0 && errno != ENOENT {
            try FileManager.default.copyItem(atPath: "\(bodies)/\(name)", toPath: "\(aside).bodies/\(name)")
        }
        return saved
    }

    /// How many pages and entries that cannot be read are passed over, one by one.
    private static let mostGaps = 100_000

    /// Copies the readable entries. Where the table cannot be read on, the next entry is looked for, and at last it is read from
    /// the other end.
    private static func salvage(_ aside: String, into connection: SQLiteConnection) throws -> Int {
        guard let old = try? SQLiteConnection(path: aside, mode: .reading, busyTimeout: .seconds(1)) else { return 0 }
        defer { old.close() }
        old.readsShortFile()
        let number = (try? old.number("SELECT number FROM outbox")).flatMap { $0 }
        var highest: Int64 = 0
        var saved: Set<Int64> = []
        // Errors of the damaged database end its reading, those of the new one end it all.
        var failure: (any Error)?
        /// Reads the entries after a number, and returns that of the last one before an entry that cannot be read; `nil` at the
        /// end, and when none can be.
        func read(after number: Int64, _ order: String) throws -> Int64? {
            var last: Int64?
            let sql =
                "SELECT \(columns), body, own, told, answer, sending FROM entries NOT INDEXED WHERE id > ? ORDER BY id \(order)"
            let isDone: Void? = try? old.use(sql) { row in
                row.bind(1, number)
                last = number
                while try row.step() {
                    let entry = OutboxRow(row)
                    last = max(number, entry.id)
                    guard entry.id > 0, !entry.request.isEmpty, !saved.contains(entry.id) else { continue }
                    do { try insert(entry, row, connection) } catch {
                        failure = error
                        throw error
                    }
                    saved.insert(entry.id)
                    highest = max(highest, entry.id, entry.place)
                }
            }
            if let failure { throw failure }
            return isDone == nil ? last : nil
        }
        var (next, gaps): (Int64, Int) = (0, 0)
        while let end = try read(after: next, "ASC"), gaps < mostGaps, end <= number ?? highest + Int64(mostGaps) {
            (next, gaps) = (end > next ? end : next + 1, gaps + 1)
        }
        _ = try read(after: 0, "DESC")
        // Only the first of each group may be sent.
        try connection.execute(
            """
            UPDATE entries SET ready = 1 WHERE state = 0 AND (grp IS NULL OR place =
              (SELECT min(place) FROM entries AS other WHERE other.grp = entries.grp AND other.state = 0));
            UPDATE outbox SET number = max(\(number ?? 0), \(highest));
            \(takeBackMarks);
            """)
        let transaction = OutboxTransaction(connection)
        try transaction.recount()
        let flight = try? old.use("SELECT flight FROM outbox") { try $0.step() ? JSONValue(parsing: $0.data(0)) : nil }
        transaction.keepFlight((flight?.array ?? []).compactMap(\.int64))
        try transaction.finish()
        if let mark = try? mark(in: old) { try keep(mark, in: connection) }
        return saved.count
    }

    private static func insert(_ entry: OutboxRow, _ row: SQLiteStatement, _ connection: SQLiteConnection) throws {
        try connection.run(
            """
            INSERT OR IGNORE INTO entries(id, state, grp, supersedes, handler, target, key, priority, added, expires, due,
              size, attempts, unseen, reason, status, request, place, body, own, told, answer, sending, ready)
              VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0)
            """
        ) { new in
            for column in 0..<Int32(23) {
                let index = column + 1
                switch row.type(column) {
                case 1: new.bind(index, row.integer(column))
                case 3: new.bind(index, text: row.text(column))
                case 4: new.bind(index, row.data(column))
                default: break
                }
            }
        }
    }

    // MARK: The clock

    static func mark(in connection: SQLiteConnection) throws -> OutboxClock.Mark? {
        try connection.use("SELECT boot, uptime, wall, time FROM outbox") { row in
            guard try row.step(), !row.isNull(0) else { return nil }
            return OutboxClock.Mark(
                reading: .init(boot: row.text(0), uptime: row.amount(1), wall: row.amount(2)), time: row.amount(3))
        }
    }

    /// Keeps the time, which never goes back.
    static func keep(_ mark: OutboxClock.Mark, in connection: SQLiteConnection) throws {
        try connection.run(
            "UPDATE outbox SET boot = ?1, uptime = ?2, wall = ?3, time = ?4 WHERE coalesce(time, 0) <= ?4"
        ) { row in
            row.bind(1, text: mark.reading.boot)
            row.bind(2, mark.reading.uptime)
            row.bind(3, mark.reading.wall)
            row.bind(4, mark.time)
        }
    }
}

extension OutboxClock.Reading {
    /// What the clocks of this machine show.
    static var now: Self {
        Self(boot: boot, uptime: milliseconds(CLOCK_BOOTTIME), wall: milliseconds(CLOCK_REALTIME))
    }

    private static let boot = SystemFiles(root: "").line("/proc/sys/kernel/random/boot_id") ?? ""

    private static func milliseconds(_ clock: Int32) -> Int64 { MonotonicTime.reading(clock).nanoseconds / 1_000_000 }
}
