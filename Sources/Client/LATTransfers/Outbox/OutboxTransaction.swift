import FoundationEssentials
import HTTPCore
import SQLite

extension SQLiteStatement {
    fileprivate func bind(_ index: Int32, flag: Bool) { bind(index, flag ? Int64(1) : 0) }
}

/// What is written in one transaction of the outbox's database. The counts are read once and written once, however many
/// entries change.
final class OutboxTransaction {
    /// The numbers of the outbox as a whole.
    struct Counts: Equatable {
        /// The highest number of an entry.
        var number: Int64 = 0
        /// The entries, their bytes, and how many of them are answered or dead letters.
        var count: Int64 = 0
        var size: Int64 = 0
        var answered: Int64 = 0
        var dead: Int64 = 0
    }

    let connection: SQLiteConnection
    private var counts: Counts?
    private var written: Counts?
    private var flight: [Int64]?

    init(_ connection: SQLiteConnection) { self.connection = connection }

    private func change(_ body: (inout Counts) throws -> Void) throws {
        var changed = try counts ?? readCounts()
        try body(&changed)
        counts = changed
    }

    private func readCounts() throws -> Counts {
        try connection.use("SELECT number, count, size, answered, dead FROM outbox WHERE id = 1") { row in
            guard try row.step() else { throw NetworkError.outbox(.store, "the outbox has lost its counts") }
            let counts = Counts(
                number: row.amount(0), count: row.amount(1), size: row.amount(2), answered: row.amount(3),
                dead: row.amount(4))
            written = counts
            return counts
        }
    }

    /// Keeps the numbers of the entries that are being sent, so that after a crash they are known.
    func keepFlight(_ ids: [Int64]) { flight = ids }

    /// Writes the counts. Called once, before the commit.
    func finish() throws {
        guard counts != written || flight != nil else { return }
        let new = try counts ?? readCounts()
        let ids = flight.map { JSONValue.array($0.map(JSONValue.int)) }
        try connection.run(
            "UPDATE outbox SET number = ?1, count = ?2, size = ?3, answered = ?4, dead = ?5, flight = coalesce(?6, flight)"
        ) { row in
            row.bind(1, new.number)
            row.bind(2, new.count)
            row.bind(3, new.size)
            row.bind(4, new.answered)
            row.bind(5, new.dead)
            if let ids { row.bind(6, text: String(decoding: try ids.data(), as: UTF8.self)) }
        }
    }

    /// Runs a part that is undone when it throws an error of the outbox, such as that it is full. Other errors end it all.
    func attempt<Value>(_ body: () throws -> Value) throws -> Result<Value, NetworkError> {
        try connection.execute("SAVEPOINT adding")
        let before = counts
        do {
            let value = try body()
            try connection.execute("RELEASE adding")
            return .success(value)
        } catch let error as NetworkError {
            try connection.execute("ROLLBACK TO adding; RELEASE adding")
            counts = before
            return .failure(error)
        }
    }

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
    /// - Throws: `NetworkError` when the outbox is full or has a dead letter with its key; nothing has changed then.
    func add(_ entry: OutboxRow, _ limits: Outbox.Configuration) throws -> Added {
        var added = Added(row: entry)
        if entry.hasOwnKey,
            let known = try connection.entries("own = 1 AND key = ?", { $0.bind(1, text: entry.key) }).first
        {
            guard !known.state.isDead else {
                throw NetworkError.outbox(
                    .deadLetter(id: known.id),
                    "the entry \(known.id) with the same idempotency key is a dead letter"
                        + (known.reason.map { " (\($0))" } ?? "") + "; retry or drop it")
            }
            return Added(row: known, isKnown: true)
        }
        if let key = entry.supersedes {
            added.superseded = try connection.entries(
                "state = 0 AND supersedes = ?1 AND grp IS ?2 AND sending = 0"
            ) { row in
                row.bind(1, text: key)
                if let group = entry.group { row.bind(2, text: group) }
            }
            for old in added.superseded { try remove(old) }
        }
        let id = try count(entry, limits)
        (added.row.id, added.row.place) = (id, id)
        let isFirst: Bool = try entry.group.map { try self.isFirst(of: $0) } ?? true
        try connection.run(
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

    /// Whether no entry of a group waits.
    private func isFirst(of group: String) throws -> Bool {
        try connection.number(
            "SELECT 1 FROM entries WHERE state = 0 AND grp = ? LIMIT 1", bind: { $0.bind(1, text: group) }) == nil
    }

    /// Counts a new entry, and returns its number.
    private func count(_ entry: OutboxRow, _ limits: Outbox.Configuration) throws -> Int64 {
        var id: Int64 = 0
        try change { counts in
            let dead = counts.dead
            let deadText = dead > 0 ? ", of which \(dead) are dead letters: retry or drop them" : ""
            guard counts.count < limits.maxCount else {
                throw NetworkError.outbox(
                    .tooMany(limit: limits.maxCount),
                    "the outbox is full: it has \(counts.count) entries\(deadText); wait until some are sent, or raise "
                        + "maxCount")
            }
            guard counts.size + entry.size <= limits.maxSize else {
                throw NetworkError.outbox(
                    .tooLarge(limit: limits.maxSize),
                    "the outbox is full: \(counts.size) bytes and \(entry.size) more are above the limit of "
                        + "\(limits.maxSize)\(deadText); wait until some are sent, or raise maxSize")
            }
            counts.number += 1
            counts.count += 1
            counts.size += entry.size
            id = counts.number
        }
        return id
    }

    // MARK: Sending

    /// Marks an entry as being sent, so that no newer one replaces it. Returns `false` for one that is gone.
    func begin(_ entry: OutboxRow) throws -> Bool {
        try connection.run("UPDATE entries SET sending = 1 WHERE id = ? AND state = 0 AND sending = 0") {
            $0.bind(1, entry.id)
        }
        return connection.changeCount > 0
    }

    /// Takes over what a process that died was sending: it may have had its effect.
    ///
    /// - Returns: the entries that are gone, because a newer one with their key waits.
    func takeOver() throws -> [OutboxRow] {
        // A store that was set aside may have lost the numbers of what was in flight, but not the marks.
        let marked = "state = 0 AND supersedes IS NOT NULL AND sending = 1"
        let flown =
            "state = 0 AND id IN (SELECT value FROM json_each((SELECT iif(json_valid(flight), flight, '[]') FROM outbox)))"
        let left = try connection.entries(marked)
        for those in [marked, flown] {
            try connection.execute("UPDATE entries SET sending = 0, unseen = max(unseen, 1) WHERE \(those)")
        }
        keepFlight([])
        return try left.filter { try removeSuperseded($0) }
    }

    // MARK: Results

    /// Removes an entry, and lets the next of its group be sent.
    func remove(_ entry: OutboxRow) throws { try remove([OutboxEngine.Flight(entry)]) }

    /// Removes entries, and lets the next of their groups be sent.
    func remove(_ entries: [OutboxEngine.Flight]) throws {
        guard !entries.isEmpty else { return }
        if entries.count == 1 {
            try connection.run("DELETE FROM entries WHERE id = ?") { $0.bind(1, entries[0].row.id) }
            guard connection.changeCount > 0 else { return }
        } else {
            let ids = try JSONValue.array(entries.map { .int($0.row.id) }).data()
            try connection.run("DELETE FROM entries WHERE id IN (SELECT value FROM json_each(?))") {
                $0.bind(1, text: String(decoding: ids, as: UTF8.self))
            }
        }
        if connection.changeCount == entries.count {
            try change { counts in
                for entry in entries {
                    counts.count -= 1
                    counts.size -= entry.row.size
                    if entry.row.state == .answered { counts.answered -= 1 }
                    if entry.row.state.isDead { counts.dead -= 1 }
                }
            }
        } else {
            // Some were dropped meanwhile.
            try recount()
        }
        for group in Set(entries.compactMap { $0.row.state == .waiting ? $0.row.group : nil }) { try release(group) }
    }

    /// Counts the entries themselves.
    func recount() throws {
        try change { counts in
            try connection.use(
                "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(state = 1), 0), coalesce(sum(state > 1), 0) FROM entries"
            ) { row in
                guard try row.step() else { return }
                (counts.count, counts.size) = (row.amount(0), row.amount(1))
                (counts.answered, counts.dead) = (row.amount(2), row.amount(3))
            }
        }
    }

    /// Records the end of an entry that stays: for its handler, or as a dead letter.
    ///
    /// - Returns: whether it was there; it may have been dropped meanwhile.
    @discardableResult
    func end(_ entry: OutboxRow, _ state: Outbox.State, answer: Data?, isTold: Bool) throws -> Bool {
        try connection.run(
            """
            UPDATE entries SET state = ?2, told = ?3, attempts = ?4, reason = ?5, status = ?6, answer = ?7,
              size = size + ?8, sending = 0 WHERE id = ?1 AND state = 0
            """
        ) { row in
            row.bind(1, entry.id)
            row.bind(2, state.number)
            row.bind(3, flag: isTold)
            row.bind(4, Int64(entry.attempts))
            if let reason = entry.reason { row.bind(5, text: reason) }
            if let status = entry.status { row.bind(6, Int64(status)) }
            if let answer { row.bind(7, answer) }
            row.bind(8, Int64(answer?.count ?? 0))
        }
        guard connection.changeCount > 0 else { return false }
        try change { counts in
            counts.size += Int64(answer?.count ?? 0)
            if state == .answered { counts.answered += 1 } else { counts.dead += 1 }
        }
        if let group = entry.group { try release(group) }
        return true
    }

    /// Records a failed attempt.
    ///
    /// - Returns: whether the entry is gone, because a newer one with its key waits.
    @discardableResult
    func postpone(_ entry: OutboxRow) throws -> Bool {
        try connection.run(
            """
            UPDATE entries SET due = ?2, attempts = ?3, unseen = ?4, reason = ?5, status = ?6, sending = 0
              WHERE id = ?1 AND state = 0
            """
        ) { row in
            row.bind(1, entry.id)
            row.bind(2, entry.due)
            row.bind(3, Int64(entry.attempts))
            row.bind(4, Int64(entry.unseen))
            if let reason = entry.reason { row.bind(5, text: reason) }
            if let status = entry.status { row.bind(6, Int64(status)) }
        }
        return try connection.changeCount > 0 && removeSuperseded(entry)
    }

    /// Removes an entry if a newer one with the same key waits. Returns whether it did.
    private func removeSuperseded(_ entry: OutboxRow) throws -> Bool {
        guard let key = entry.supersedes else { return false }
        let newer = try connection.number(
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
        var place: Int64 = 0
        let answer =
            try connection.number("SELECT length(answer) FROM entries WHERE id = ?") { $0.bind(1, entry.id) } ?? 0
        try change { counts in
            counts.number += 1
            counts.dead -= 1
            counts.size -= answer
            place = counts.number
        }
        let isFirst: Bool = try entry.group.map { try self.isFirst(of: $0) } ?? true
        try connection.run(
            """
            UPDATE entries SET state = 0, told = 1, due = 0, attempts = 0, unseen = min(unseen, 1), expires = NULL,
              place = ?2, ready = ?3, reason = NULL, status = NULL, answer = NULL, size = size - ?4 WHERE id = ?1
            """
        ) { row in
            row.bind(1, entry.id)
            row.bind(2, place)
            row.bind(3, flag: isFirst)
            row.bind(4, answer)
        }
    }

    /// Lets the first of a group be sent.
    private func release(_ group: String) throws {
        try connection.run(
            """
            UPDATE entries SET ready = 1
              WHERE id = (SELECT id FROM entries WHERE state = 0 AND grp = ?1 ORDER BY place LIMIT 1)
            """
        ) { $0.bind(1, text: group) }
    }
}
