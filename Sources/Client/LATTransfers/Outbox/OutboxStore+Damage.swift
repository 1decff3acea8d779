import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

extension OutboxStore {
    /// Renames a damaged database, makes a new one, and copies into it what can be read.
    ///
    /// - Returns: the connection to the new database, and what to tell.
    static func replaceDamaged(
        _ folder: String, _ lock: Int32, _ file: UInt64, _ cause: SQLiteError
    ) throws(NetworkError) -> (SQLiteConnection, NetworkError?) {
        while flock(lock, LOCK_EX) != 0, errno == EINTR {}
        defer { flock(lock, LOCK_UN) }
        let path = path(folder)
        // Another process may have replaced it in the meantime.
        if number(of: folder) != file {
            do { return (try connect(folder), nil) } catch { throw failure(error, folder) }
        }
        var aside = path + ".damaged-\(time(nil))"
        while access(aside, F_OK) == 0 { aside += "x" }
        // The log belongs to the file.
        for companion in ["-wal", "-shm"] { rename(path + companion, aside + companion) }
        guard rename(path, aside) == 0 else { throw NetworkError.outboxFile("set aside", path, errno) }
        do {
            let connection = try connect(folder)
            let saved = try connection.transaction { try salvage(aside, into: connection) }
            AtomicFile.synchronizeFolder(folder)
            return (
                connection,
                .outbox(
                    .store,
                    "the outbox \(URLText.visible(path)) was damaged (\(cause.message)); \(saved) entries were read from "
                        + "it and are kept, and the damaged file is \(URLText.visible(aside)): look there for others")
            )
        } catch {
            throw failure(error, folder)
        }
    }

    /// Copies the readable entries. Where the table cannot be read on, it is read from the other end.
    private static func salvage(_ aside: String, into connection: SQLiteConnection) throws -> Int {
        guard let old = try? SQLiteConnection(path: aside, mode: .reading, busyTimeout: .seconds(1)) else { return 0 }
        defer { old.close() }
        var highest: Int64 = 0
        var saved: Set<Int64> = []
        for order in ["ASC", "DESC"] {
            try? old.use(
                "SELECT \(columns), body, place, own, told, answer FROM entries NOT INDEXED ORDER BY id \(order)"
            ) { row in
                while try row.step() {
                    let entry = OutboxRow(row)
                    guard entry.id > 0, !entry.request.isEmpty, !saved.contains(entry.id) else { continue }
                    try insert(entry, row, connection)
                    saved.insert(entry.id)
                    highest = max(highest, entry.id, row.integer(18))
                }
            }
        }
        let number = (try? old.number("SELECT number FROM outbox")).flatMap { $0 } ?? 0
        // Only the first of each group may be sent.
        try connection.execute(
            """
            UPDATE entries SET ready = 1 WHERE state = 0 AND (grp IS NULL OR place =
              (SELECT min(place) FROM entries AS other WHERE other.grp = entries.grp AND other.state = 0));
            UPDATE outbox SET number = max(\(number), \(highest)), count = (SELECT count(*) FROM entries),
              answered = (SELECT count(*) FROM entries WHERE state = 1),
              dead = (SELECT count(*) FROM entries WHERE state > 1),
              size = (SELECT coalesce(sum(size), 0) FROM entries);
            """)
        if let mark = try? mark(in: old) { try keep(mark, in: connection) }
        return saved.count
    }

    private static func insert(_ entry: OutboxRow, _ row: SQLiteStatement, _ connection: SQLiteConnection) throws {
        try connection.run(
            """
            INSERT OR IGNORE INTO entries(id, state, grp, supersedes, handler, target, key, priority, added, expires, due,
              size, attempts, unseen, reason, status, request, body, place, own, told, answer, ready)
              VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0)
            """
        ) { new in
            for column in 0..<Int32(22) {
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
                reading: .init(boot: row.text(0), uptime: row.integer(1), wall: row.integer(2)), time: row.integer(3))
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
        var (uptime, wall) = (timespec(), timespec())
        clock_gettime(CLOCK_BOOTTIME, &uptime)
        clock_gettime(CLOCK_REALTIME, &wall)
        return Self(boot: boot, uptime: milliseconds(uptime), wall: milliseconds(wall))
    }

    private static let boot = SystemFiles(root: "").line("/proc/sys/kernel/random/boot_id") ?? ""

    private static func milliseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
