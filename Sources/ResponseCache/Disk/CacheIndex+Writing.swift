import FoundationEssentials
import HTTPCore
import SQLite

/// An entry that is ready to be stored.
struct PreparedEntry: Sendable {
    var entry: CacheEntry
    var replacing = CacheReplacement.anything
    /// The stored bytes of an inline body; empty when the body is in a file.
    var inline: Data
    var file: BodyFile?
    var storedByteCount: Int64
    var checksum: [UInt8]
    var salt: [UInt8]
}

/// Changes of the index. They run within a transaction that the caller began.
extension CacheIndex {
    /// What remains to be done at the end of a transaction or after it.
    struct Effects {
        /// The files of bodies without a row, to be removed after the commit.
        var unusedFiles: [String] = []
        /// The stored, updated and removed entries, for the change log.
        var changes: [CacheSelection] = []
        /// Whether the limits may be exceeded.
        var isGrown = false
        /// The counter of uses, once it was read.
        fileprivate var clock: Int64?
    }

    /// Inserts an entry. An entry with the same key is replaced, and if it was pinned, the new one is too.
    ///
    /// - Returns: The stored entry; `nil` when it may not replace the existing one.
    func insert(_ prepared: PreparedEntry, _ effects: inout Effects) throws -> CacheEntry? {
        var entry = prepared.entry
        if prepared.replacing != .anything, try !prepared.replacing.allows(version(of: entry.key)) { return nil }
        let before = try remove(.key(entry.key), &effects)
        if before.hasPin { entry.isPinned = true }
        let statement = try connection.statement(
            """
            INSERT INTO entries(key, variant, version, used, used_at, stored_at, pinned, expired, size, body_size,
              stored_size, checksum, file, sealer, salt, url, domain, server, partition, head, slot,
              retain_until)
            VALUES(?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
            """)
        let key = try sealer.column("key", entry.key.primary)
        statement.bind(1, key)
        statement.bind(20, Self.slot(key))
        statement.bind(2, try sealer.column("variant", entry.key.variant))
        statement.bind(3, try moment(&effects))
        statement.bind(4, Self.seconds(entry.lastUse))
        statement.bind(5, Self.seconds(entry.responseTime))
        statement.bind(6, entry.isPinned ? 1 : 0 as Int64)
        statement.bind(7, entry.isExpired ? 1 : 0 as Int64)
        statement.bind(8, entry.byteCount)
        statement.bind(9, entry.bodyByteCount)
        statement.bind(10, prepared.storedByteCount)
        statement.bind(11, prepared.checksum)
        if let file = prepared.file { statement.bind(12, utf8: file.name) }
        statement.bind(13, sealer.keyNumber)
        statement.bind(14, prepared.salt)
        try bindTexts(entry, statement, from: 15)
        statement.bind(19, try sealer.seal(entry, salt: prepared.salt))
        if let end = entry.retainUntil { statement.bind(21, Self.seconds(end)) }
        try statement.run()
        let row = connection.lastInsertedRow
        if prepared.file == nil {
            let statement = try connection.statement("INSERT OR REPLACE INTO bodies(id, bytes) VALUES(?1, ?2)")
            statement.bind(1, row)
            statement.bind(2, prepared.inline)
            try statement.run()
        }
        try insertTags(entry.tags, row)
        effects.changes.append(.primaryKey(entry.key.primary))
        effects.isGrown = true
        entry.version = StoredVersion(UInt64(bitPattern: row))
        entry.tier = .disk
        return entry
    }

    private func insertTags(_ tags: [String], _ row: Int64) throws {
        for tag in tags {
            let statement = try connection.statement("INSERT OR IGNORE INTO tags(tag, entry) VALUES(?1, ?2)")
            statement.bind(1, try sealer.column("tag", tag))
            statement.bind(2, row)
            try statement.run()
        }
    }

    /// Replaces everything in an entry except its body.
    ///
    /// - Returns: Whether its version still exists.
    func update(_ entry: CacheEntry, _ effects: inout Effects) throws -> Bool {
        let found = try connection.statement(
            "SELECT id, version, salt, body_size FROM entries "
                + "WHERE slot = ?4 AND key = ?1 AND variant = ?2 AND sealer = ?3")
        let key = try sealer.column("key", entry.key.primary)
        found.bind(1, key)
        found.bind(4, Self.slot(key))
        found.bind(2, try sealer.column("variant", entry.key.variant))
        found.bind(3, sealer.keyNumber)
        defer { found.reset() }
        guard try found.step(), entry.version == nil || entry.version?.number == UInt64(bitPattern: found.integer(0))
        else { return false }
        let (row, version, salt) = (found.integer(0), found.integer(1), found.bytes(2))
        var entry = entry
        entry.bodyByteCount = found.integer(3)
        found.reset()
        // Pinning and unpinning count as a use.
        let statement = try connection.statement(
            """
            UPDATE entries SET version = ?2, used = CASE WHEN pinned = ?6 THEN used ELSE ?3 END, used_at = ?4,
              stored_at = ?5, pinned = ?6, expired = ?7, size = ?8, url = ?9, domain = ?10, server = ?11,
              partition = ?12, head = ?13, retain_until = ?14 WHERE id = ?1
            """)
        statement.bind(1, row)
        statement.bind(2, version + 1)
        statement.bind(3, try moment(&effects))
        statement.bind(4, Self.seconds(entry.lastUse))
        statement.bind(5, Self.seconds(entry.responseTime))
        statement.bind(6, entry.isPinned ? 1 : 0 as Int64)
        statement.bind(7, entry.isExpired ? 1 : 0 as Int64)
        statement.bind(8, entry.byteCount)
        try bindTexts(entry, statement, from: 9)
        statement.bind(13, try sealer.seal(entry, salt: salt))
        if let end = entry.retainUntil { statement.bind(14, Self.seconds(end)) }
        try statement.run()
        try connection.statement("DELETE FROM tags WHERE entry = ?1").run(with: row)
        try insertTags(entry.tags, row)
        effects.changes.append(.primaryKey(entry.key.primary))
        effects.isGrown = true
        return true
    }

    private func bindTexts(_ entry: CacheEntry, _ statement: SQLiteStatement, from index: Int32) throws {
        statement.bind(index, try sealer.column("url", entry.url))
        if let domain = entry.domain { statement.bind(index + 1, try sealer.column("domain", domain)) }
        if let server = entry.server { statement.bind(index + 2, try sealer.column("server", server)) }
        if let partition = entry.partition { statement.bind(index + 3, try sealer.column("partition", partition)) }
    }

    /// Records uses. A counter gives their order, since the clock may be set back.
    func touch(_ uses: [(key: CacheKey, time: Date)], _ effects: inout Effects) throws {
        for (key, time) in uses {
            let statement = try connection.statement(
                "UPDATE entries SET used = ?1, used_at = ?2 WHERE slot = ?5 AND key = ?3 AND variant = ?4")
            statement.bind(1, try moment(&effects))
            statement.bind(2, Self.seconds(time))
            let column = try sealer.column("key", key.primary)
            statement.bind(3, column)
            statement.bind(5, Self.slot(column))
            statement.bind(4, try sealer.column("variant", key.variant))
            try statement.run()
        }
    }

    @discardableResult
    func remove(
        _ selection: CacheSelection, _ effects: inout Effects
    ) throws -> (usage: CacheUsage, hasPin: Bool) {
        let condition = try condition(selection)
        guard condition.isExact else {
            return try remove(rows: rows(selection).map(\.id), &effects)
        }
        let counting = try connection.statement(
            "SELECT count(*), coalesce(sum(size), 0), coalesce(max(pinned), 0), count(file) FROM entries "
                + "WHERE \(condition.sql)")
        condition.bind(counting)
        guard try counting.step() else { return (CacheUsage(), false) }
        let usage = CacheUsage(entryCount: Int(counting.integer(0)), byteCount: counting.integer(1))
        let (hasPin, fileCount) = (counting.integer(2) != 0, counting.integer(3))
        counting.reset()
        guard usage.entryCount > 0 else { return (usage, false) }
        if fileCount > 0 {
            let files = try connection.statement("SELECT file FROM entries WHERE \(condition.sql) AND file IS NOT NULL")
            condition.bind(files)
            while try files.step() { effects.unusedFiles.append(String(decoding: files.bytes(0), as: UTF8.self)) }
            files.reset()
        }
        let deletion = try connection.statement("DELETE FROM entries WHERE \(condition.sql)")
        condition.bind(deletion)
        try deletion.run()
        return (usage, hasPin)
    }

    @discardableResult
    func remove(rows: [Int64], _ effects: inout Effects) throws -> (usage: CacheUsage, hasPin: Bool) {
        var usage = CacheUsage()
        var hasPin = false
        for row in rows {
            let found = try connection.statement("SELECT size, file, pinned FROM entries WHERE id = ?1")
            found.bind(1, row)
            guard try found.step() else { continue }
            usage.entryCount += 1
            usage.byteCount += found.integer(0)
            if !found.isNull(1) { effects.unusedFiles.append(String(decoding: found.bytes(1), as: UTF8.self)) }
            hasPin = hasPin || found.integer(2) != 0
            found.reset()
            let deletion = try connection.statement("DELETE FROM entries WHERE id = ?1")
            deletion.bind(1, row)
            try deletion.run()
        }
        return (usage, hasPin)
    }

    /// Evicts unpinned entries down to a limit, in the order of ``victims(_:)``.
    func prune(to limit: Int64, _ effects: inout Effects) throws -> CacheUsage {
        var removed = CacheUsage()
        while true {
            let excess = try totals().usage.byteCount - limit
            guard excess > 0 else { return removed }
            let victims = try victims(excess)
            guard !victims.isEmpty else { return removed }
            removed += try remove(rows: victims.map { $0.row }, &effects).usage
        }
    }

    /// The maximum number of entries that are evicted together.
    static let victimLimit = 1_000

    /// Removes at most ``victimLimit`` entries whose `retainUntil` has passed, and returns how much was removed.
    func removeEnded(_ effects: inout Effects) throws -> CacheUsage {
        var victims: [(row: Int64, file: String?)] = []
        try collect(.max, Self.ended, &victims)
        return try remove(rows: victims.map { $0.row }, &effects).usage
    }

    /// The entries to evict for a number of bytes: first those whose `retainUntil` has passed, then the least recently used.
    func victims(_ byteCount: Int64) throws -> [(row: Int64, file: String?)] {
        var victims: [(row: Int64, file: String?)] = []
        let rest = try collect(byteCount, Self.ended, &victims)
        try collect(rest, "pinned = 0 AND NOT coalesce(retain_until < ?1, 0) ORDER BY used", &victims)
        return victims
    }

    /// The condition for unpinned entries whose ``CacheEntry/retainUntil`` has passed.
    private static let ended = "retain_until < ?1 AND pinned = 0 ORDER BY retain_until"

    /// Adds rows to the victims until they hold a number of bytes.
    ///
    /// - Returns: How many bytes are still missing.
    @discardableResult
    private func collect(
        _ byteCount: Int64, _ condition: String, _ victims: inout [(row: Int64, file: String?)]
    ) throws -> Int64 {
        let statement = try connection.statement("SELECT id, size, file FROM entries WHERE \(condition)")
        defer { statement.reset() }
        statement.bind(1, Date().timeIntervalSinceReferenceDate)
        var rest = byteCount
        while rest > 0, victims.count < Self.victimLimit, try statement.step() {
            let file = statement.isNull(2) ? nil : String(decoding: statement.bytes(2), as: UTF8.self)
            victims.append((statement.integer(0), file))
            rest -= statement.integer(1)
        }
        return rest
    }

    /// Checkpoints and truncates the log, as far as the disk, readers and other processes allow.
    func emptyLog() {
        connection.waiting(atMost: .milliseconds(100)) {
            _ = try? connection.number("PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }

    // MARK: Bookkeeping

    /// Writes the counter of uses and the changes, at the end of a transaction.
    func finish(_ effects: Effects, writer: Int64) throws {
        if let clock = effects.clock {
            let statement = try connection.statement("UPDATE state SET clock = ?1")
            statement.bind(1, clock)
            try statement.run()
        }
        if !effects.changes.isEmpty { try note(effects.changes, writer: writer) }
    }

    private func moment(_ effects: inout Effects) throws -> Int64 {
        let last = if let clock = effects.clock { clock } else { try connection.number("SELECT clock FROM state") ?? 0 }
        effects.clock = last + 1
        return last + 1
    }

    /// The seconds since the reference date; 0 for NaN, which SQLite cannot store.
    private static func seconds(_ date: Date) -> Double {
        let seconds = date.timeIntervalSinceReferenceDate
        return seconds.isNaN ? 0 : seconds
    }
}
