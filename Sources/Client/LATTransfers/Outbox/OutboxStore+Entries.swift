import FoundationEssentials
import HTTPCore
import SQLite

extension SQLiteStatement {
    /// A time, a size or a count. One of a damaged file is brought into a range in which no sum overflows.
    func amount(_ column: Int32) -> Int64 { min(max(0, integer(column)), 1 << 48) }
}

extension OutboxRow {
    /// - Parameters:
    ///   - row: the columns of ``OutboxStore/columns``, and what follows them.
    ///   - last: target and request of the entry that was read before, which are often the same.
    init(_ row: SQLiteStatement, after last: (target: String, request: Data)? = nil) {
        id = row.integer(0)
        state = Outbox.State(number: row.integer(1))
        group = row.isNull(2) ? nil : row.text(2)
        supersedes = row.isNull(3) ? nil : row.text(3)
        handler = row.isNull(4) ? nil : row.text(4)
        target = row.text(5, like: last?.target)
        key = row.text(6)
        priority = row.integer(7)
        added = row.amount(8)
        expires = row.isNull(9) ? nil : row.amount(9)
        due = row.amount(10)
        size = row.amount(11)
        attempts = Int(row.amount(12))
        unseen = Int(row.amount(13))
        reason = row.isNull(14) ? nil : row.text(14)
        status = row.isNull(15) ? nil : Int(row.integer(15))
        request = row.data(16, like: last?.request)
        place = row.integer(17)
    }
}

/// What is read of the entries.
extension SQLiteConnection {
    func entries(_ condition: String, _ bind: (SQLiteStatement) -> Void = { _ in }) throws -> [OutboxRow] {
        try use("SELECT \(OutboxStore.columns) FROM entries WHERE \(condition)") { row in
            bind(row)
            var entries: [OutboxRow] = []
            while try row.step() { entries.append(OutboxRow(row)) }
            return entries
        }
    }

    /// The files of the folder that belong to entries.
    func ownFiles() throws -> Set<String> {
        try use("SELECT request FROM entries WHERE instr(request, '\"file\"') > 0") { row in
            var names: Set<String> = []
            while try row.step() { names.formUnion(KeptRequest(row.data(0))?.ownFiles ?? []) }
            return names
        }
    }

    func entry(_ id: Int64) throws -> OutboxRow? { try entries("id = ?") { $0.bind(1, id) }.first }

    /// The entries to send next: those that are due after a wait, and those that were never sent, by priority and order.
    ///
    /// - Parameters:
    ///   - limit: the largest number of entries that are due after a wait, and of others.
    ///   - closed: the targets to which nothing is sent.
    ///   - enough: no more entries are read when there are so many and they have this size. Default: no limit.
    ///   - isRunning: whether an entry is being sent. Default: none is.
    func candidates(
        at time: Int64, limit: Int, closed: [String], enough: (count: Int, bytes: Int) = (0, .max),
        except isRunning: (Int64) -> Bool = { _ in false }
    ) throws -> [OutboxRow] {
        // One parameter for any number of targets: a statement has at most 32,766.
        let others = closed.isEmpty ? "" : "AND target NOT IN (SELECT value FROM json_each(?3))"
        let names = try closed.isEmpty ? nil : JSONValue.array(closed.map(JSONValue.string)).data()
        var found: [OutboxRow] = []
        var size = 0
        var last: (target: String, request: Data)?
        let parts = ["due = 0 \(others) ORDER BY priority DESC, place", "due > 0 AND due <= ?1 \(others) ORDER BY due"]
        for part in parts {
            let sql =
                "SELECT \(OutboxStore.columns), body FROM entries WHERE state = 0 AND ready = 1 AND sending = 0 "
                + "AND (expires IS NULL OR expires > ?1) AND \(Self.isNotBesideOlder) AND \(part) LIMIT ?2"
            try use(sql) { row in
                row.bind(1, time)
                row.bind(2, Int64(limit))
                if let names { row.bind(3, text: String(decoding: names, as: UTF8.self)) }
                while size < enough.bytes || found.count < enough.count, try row.step() {
                    if isRunning(row.integer(0)) { continue }
                    var entry = OutboxRow(row, after: last)
                    last = (entry.target, entry.request)
                    if !row.isNull(18) { entry.body = row.data(18) }
                    size += entry.body.count + entry.request.count
                    found.append(entry)
                }
            }
        }
        found.sort { ($1.priority, $0.place) < ($0.priority, $1.place) }
        return found
    }

    /// Whether an entry is due after a wait, or one with a group or a key waits.
    func hasSpecial(at time: Int64) throws -> Bool {
        try number(
            """
            SELECT EXISTS (SELECT 1 FROM entries WHERE state = 0 AND ready = 1 AND sending = 0 AND due > 0 AND due <= ?)
              OR EXISTS (SELECT 1 FROM entries WHERE state = 0 AND grp IS NOT NULL)
              OR EXISTS (SELECT 1 FROM entries WHERE state = 0 AND supersedes IS NOT NULL)
            """, bind: { $0.bind(1, time) }) == 1
    }

    /// The newest value is the last that the server gets. Only entries with a key are marked as being sent.
    private static let isNotBesideOlder = """
        (supersedes IS NULL OR NOT EXISTS (SELECT 1 FROM entries AS older WHERE older.state = 0
          AND older.supersedes = entries.supersedes AND older.grp IS entries.grp AND older.sending = 1))
        """

    /// The earliest later time at which an entry is due or expires. One that is due already waits for its target.
    func nextTime(after time: Int64) throws -> Int64? {
        let due = try number(
            "SELECT due FROM entries WHERE state = 0 AND ready = 1 AND sending = 0 AND due > 0 AND due > ? ORDER BY due LIMIT 1",
            bind: { $0.bind(1, time) })
        let end = try number(
            "SELECT expires FROM entries WHERE state = 0 AND expires IS NOT NULL AND expires > ? ORDER BY expires LIMIT 1",
            bind: { $0.bind(1, time) })
        return [due, end].compactMap { $0 }.min()
    }
}
