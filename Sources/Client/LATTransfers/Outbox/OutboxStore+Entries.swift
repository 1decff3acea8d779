import FoundationEssentials
import HTTPCore
import SQLite

extension OutboxRow {
    /// - Parameter row: the columns of ``OutboxStore/columns``, and what follows them.
    init(_ row: SQLiteStatement) {
        id = row.integer(0)
        state = Outbox.State(number: row.integer(1))
        group = row.isNull(2) ? nil : row.text(2)
        supersedes = row.isNull(3) ? nil : row.text(3)
        handler = row.isNull(4) ? nil : row.text(4)
        target = row.text(5)
        key = row.text(6)
        priority = row.integer(7)
        added = row.integer(8)
        expires = row.isNull(9) ? nil : row.integer(9)
        due = row.integer(10)
        size = row.integer(11)
        attempts = Int(row.integer(12))
        hasUnseen = row.integer(13) != 0
        reason = row.isNull(14) ? nil : row.text(14)
        status = row.isNull(15) ? nil : Int(row.integer(15))
        request = row.data(16)
        place = row.integer(17)
    }
}

extension SQLiteStatement {
    fileprivate func bind(_ index: Int32, flag: Bool) { bind(index, flag ? Int64(1) : 0) }
}

/// The statements of one transaction.
extension SQLiteConnection {
    private typealias Store = OutboxStore

    // MARK: Adding

    struct Added {
        var row: OutboxRow
        /// The waiting entries that it replaces.
        var superseded: [OutboxRow] = []
        /// Whether an entry with its key was there, and is the result.
        var isKnown = false
    }

    /// Adds an entry.
    ///
    /// - Throws: `NetworkError` when the outbox is full; nothing has changed then.
    func add(_ entry: OutboxRow, _ limits: Outbox.Configuration) throws -> Added {
        var added = Added(row: entry)
        if entry.hasOwnKey, let known = try self.entries("own = 1 AND key = ?", { $0.bind(1, text: entry.key) }).first {
            return Added(row: known, isKnown: true)
        }
        if let key = entry.supersedes {
            added.superseded = try entries("state = 0 AND supersedes = ?1 AND grp IS ?2 AND sending = 0") { row in
                row.bind(1, text: key)
                if let group = entry.group { row.bind(2, text: group) }
            }
            for old in added.superseded { try remove(old) }
        }
        let id = try count(entry, limits)
        (added.row.id, added.row.place) = (id, id)
        var isFirst = true
        if let group = entry.group {
            isFirst =
                try number(
                    "SELECT 1 FROM entries WHERE state = 0 AND grp = ? LIMIT 1", bind: { $0.bind(1, text: group) })
                == nil
        }
        try run(
            """
            INSERT INTO entries(id, place, state, ready, grp, supersedes, handler, target, key, own, priority, added,
              expires, size, request, body) VALUES (?1, ?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
            """
        ) { row in
            row.bind(1, id)
            row.bind(2, flag: isFirst)
            if let group = entry.group { row.bind(3, text: group) }
            if let key = entry.supersedes { row.bind(4, text: key) }
            if let handler = entry.handler { row.bind(5, text: handler) }
            row.bind(6, text: entry.target)
            row.bind(7, text: entry.key)
            row.bind(8, flag: entry.hasOwnKey)
            row.bind(9, entry.priority)
            row.bind(10, entry.added)
            if let expires = entry.expires { row.bind(11, expires) }
            row.bind(12, entry.size)
            row.bind(13, entry.request)
            if !entry.body.isEmpty { row.bind(14, entry.body) }
        }
        return added
    }

    /// Counts a new entry, and returns its number.
    private func count(_ entry: OutboxRow, _ limits: Outbox.Configuration) throws -> Int64 {
        try use(
            "UPDATE outbox SET number = number + 1, count = count + 1, size = size + ? "
                + "WHERE id = 1 RETURNING number, count, size, dead"
        ) { row in
            row.bind(1, entry.size)
            guard try row.step() else { throw NetworkError.outbox(.store, "the outbox has lost its counts") }
            let (id, count, size, dead) = (row.integer(0), row.integer(1), row.integer(2), row.integer(3))
            let deadText = dead > 0 ? ", of which \(dead) are dead letters: retry or drop them" : ""
            guard count <= limits.maxCount else {
                throw NetworkError.outbox(
                    .tooMany(limit: limits.maxCount),
                    "the outbox is full: it has \(count - 1) entries\(deadText); wait until some are sent, or raise maxCount"
                )
            }
            guard size <= limits.maxSize else {
                throw NetworkError.outbox(
                    .tooLarge(limit: limits.maxSize),
                    "the outbox is full: \(size - entry.size) bytes and \(entry.size) more are above the limit of "
                        + "\(limits.maxSize)\(deadText); wait until some are sent, or raise maxSize")
            }
            return id
        }
    }

    // MARK: Reading

    func entries(_ condition: String, _ bind: (SQLiteStatement) -> Void = { _ in }) throws -> [OutboxRow] {
        try use("SELECT \(Store.columns) FROM entries WHERE \(condition)") { row in
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
    /// - Parameter closed: the targets to which nothing is sent.
    func candidates(at time: Int64, limit: Int, closed: [String]) throws -> [OutboxRow] {
        // One parameter for any number of targets: a statement has at most 32,766.
        let others = "AND target NOT IN (SELECT value FROM json_each(?))"
        let names = try JSONValue.array(closed.map(JSONValue.string)).data()
        var found: [OutboxRow] = []
        for part in ["due = 0 \(others) ORDER BY priority DESC, place", "due > 0 AND due <= ? \(others) ORDER BY due"] {
            let isLater = part.hasPrefix("due > 0")
            let sql =
                "SELECT \(Store.columns), body FROM entries WHERE state = 0 AND ready = 1 AND sending = 0 "
                + "AND \(Self.isNotBesideOlder) AND \(part) LIMIT ?"
            try use(sql) { row in
                var index: Int32 = 1
                if isLater {
                    row.bind(index, time)
                    index += 1
                }
                row.bind(index, text: String(decoding: names, as: UTF8.self))
                row.bind(index + 1, Int64(limit))
                while try row.step() {
                    var entry = OutboxRow(row)
                    if !row.isNull(18) { entry.body = row.data(18) }
                    found.append(entry)
                }
            }
        }
        found.sort { ($1.priority, $0.place) < ($0.priority, $1.place) }
        return found
    }

    /// The newest value is the last that the server gets.
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

    // MARK: Results

    /// Marks an entry as being sent, so that no newer one replaces it. Returns `false` for one that is gone.
    func begin(_ entry: OutboxRow) throws -> Bool {
        try run("UPDATE entries SET sending = 1 WHERE id = ? AND state = 0 AND sending = 0") { $0.bind(1, entry.id) }
        return changeCount > 0
    }

    /// Removes an entry, and lets the next of its group be sent.
    func remove(_ entry: OutboxRow) throws {
        try run("DELETE FROM entries WHERE id = ?") { $0.bind(1, entry.id) }
        guard changeCount > 0 else { return }
        try run(
            "UPDATE outbox SET count = count - 1, size = size - ?1, answered = answered - ?2, dead = dead - ?3"
        ) { row in
            row.bind(1, entry.size)
            row.bind(2, flag: entry.state == .answered)
            row.bind(3, flag: entry.state.isDead)
        }
        try releaseGroup(of: entry)
    }

    /// Records the end of an entry that stays: for its handler, or as a dead letter.
    func end(_ entry: OutboxRow, _ state: Outbox.State, answer: Data?, isTold: Bool) throws {
        try run(
            """
            UPDATE entries SET state = ?2, told = ?3, attempts = ?4, reason = ?5, status = ?6, answer = ?7, sending = 0
              WHERE id = ?1 AND state = 0
            """
        ) { row in
            row.bind(1, entry.id)
            row.bind(2, state.number)
            row.bind(3, flag: isTold)
            row.bind(4, Int64(entry.attempts))
            if let reason = entry.reason { row.bind(5, text: reason) }
            if let status = entry.status { row.bind(6, Int64(status)) }
            if let answer { row.bind(7, answer) }
        }
        guard changeCount > 0 else { return }
        try execute(
            state == .answered
                ? "UPDATE outbox SET answered = answered + 1" : "UPDATE outbox SET dead = dead + 1")
        try releaseGroup(of: entry)
    }

    /// Records a failed attempt.
    ///
    /// - Returns: whether the entry is gone, because a newer one with its key waits.
    @discardableResult
    func postpone(_ entry: OutboxRow) throws -> Bool {
        try run(
            """
            UPDATE entries SET due = ?2, attempts = ?3, unseen = ?4, reason = ?5, status = ?6, sending = 0
              WHERE id = ?1 AND state = 0
            """
        ) { row in
            row.bind(1, entry.id)
            row.bind(2, entry.due)
            row.bind(3, Int64(entry.attempts))
            row.bind(4, flag: entry.hasUnseen)
            if let reason = entry.reason { row.bind(5, text: reason) }
            if let status = entry.status { row.bind(6, Int64(status)) }
        }
        return try changeCount > 0 && removeSuperseded(entry)
    }

    /// Removes an entry if a newer one with the same key waits. Returns whether it did.
    func removeSuperseded(_ entry: OutboxRow) throws -> Bool {
        guard let key = entry.supersedes else { return false }
        let newer = try number(
            "SELECT 1 FROM entries WHERE state = 0 AND supersedes = ?1 AND grp IS ?2 AND sending = 0 AND place > ?3 LIMIT 1",
            bind: { row in
                row.bind(1, text: key)
                if let group = entry.group { row.bind(2, text: group) }
                row.bind(3, entry.place)
            })
        guard newer != nil else { return false }
        try remove(entry)
        return true
    }

    /// Lets a dead letter wait again, after all others of its group.
    func retry(_ entry: OutboxRow) throws {
        let place = try number("UPDATE outbox SET number = number + 1, dead = dead - 1 RETURNING number") ?? 0
        let isFirst =
            try entry.group.map { group in
                try number(
                    "SELECT 1 FROM entries WHERE state = 0 AND grp = ? LIMIT 1", bind: { $0.bind(1, text: group) })
                    == nil
            } ?? true
        try run(
            """
            UPDATE entries SET state = 0, told = 1, due = 0, attempts = 0, expires = NULL, place = ?2, ready = ?3,
              reason = NULL, status = NULL, answer = NULL WHERE id = ?1
            """
        ) { row in
            row.bind(1, entry.id)
            row.bind(2, place)
            row.bind(3, flag: isFirst)
        }
    }

    private func releaseGroup(of entry: OutboxRow) throws {
        guard let group = entry.group, entry.state == .waiting else { return }
        try run(
            """
            UPDATE entries SET ready = 1
              WHERE id = (SELECT id FROM entries WHERE state = 0 AND grp = ?1 ORDER BY place LIMIT 1)
            """
        ) { $0.bind(1, text: group) }
    }
}
