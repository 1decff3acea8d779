import FoundationEssentials
import HTTPCore
import SQLite

/// An entry whose body is written, to be inserted in the index.
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

    /// Inserts an entry and returns it as stored; `nil` when it may not replace the existing one with its key. If that one was
    /// pinned, the new one is too.
    func insert(_ prepared: PreparedEntry, _ effects: inout Effects) throws -> CacheEntry? {
        var entry = prepared.entry
        if prepared.replacing != .anything, try !prepared.replacing.allows(version(of: entry.key)) { return nil }
        let before = try remove(.key(entry.key), &effects)
        if before.hasPin { entry.isPinned = true }
        try connection.run(
            """
            INSERT INTO entries(slot, key, variant, version, used, used_at, stored_at, pinned, expired, size, url,
              domain, server, partition, head, retain_until, body_size, stored_size, checksum, file, sealer, salt)
            VALUES(?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
            """
        ) { statement in
            try bindKey(entry.key, statement)
            try bindFields(entry, salt: prepared.salt, statement, &effects)
            statement.bind(16, entry.bodyByteCount)
            statement.bind(17, prepared.storedByteCount)
            statement.bind(18, prepared.checksum)
            if let file = prepared.file { statement.bind(19, utf8: file.name) }
            statement.bind(20, sealer.keyNumber)
            statement.bind(21, prepared.salt)
        }
        let row = connection.lastInsertedRow
        if prepared.file == nil {
            try connection.run("INSERT OR REPLACE INTO bodies(id, bytes) VALUES(?1, ?2)") { statement in
                statement.bind(1, row)
                statement.bind(2, prepared.inline)
            }
        }
        try record(entry, row, &effects)
        if !entry.key.variant.isEmpty { try removeOldVariants(of: entry.key.primary, &effects) }
        entry.version = StoredVersion(UInt64(bitPattern: row))
        entry.tier = .disk
        return entry
    }

    private func removeOldVariants(of primaryKey: String, _ effects: inout Effects) throws {
        var condition = try condition(.primaryKey(primaryKey))
        condition.sql =
            "id IN (SELECT id FROM entries WHERE \(condition.sql) AND pinned = 0 ORDER BY id DESC "
            + "LIMIT -1 OFFSET \(CacheEntry.variantLimit))"
        _ = try remove(condition, &effects)
    }

    /// Binds the slot, the key and the variant as parameters 1 to 3.
    private func bindKey(_ key: CacheKey, _ statement: SQLiteStatement) throws {
        let primary = try sealer.column("key", key.primary)
        statement.bind(1, Self.slot(primary))
        statement.bind(2, primary)
        statement.bind(3, try sealer.column("variant", key.variant))
    }

    /// Binds everything that an update replaces as parameters 4 to 15.
    private func bindFields(
        _ entry: CacheEntry, salt: [UInt8], _ statement: SQLiteStatement, _ effects: inout Effects
    ) throws {
        statement.bind(4, try nextUse(&effects))
        statement.bind(5, Self.seconds(entry.lastUse))
        statement.bind(6, Self.seconds(entry.responseTime))
        statement.bind(7, entry.isPinned ? 1 : 0 as Int64)
        statement.bind(8, entry.isExpired ? 1 : 0 as Int64)
        statement.bind(9, entry.byteCount)
        statement.bind(10, try sealer.column("url", entry.url))
        if let domain = entry.domain { statement.bind(11, try sealer.column("domain", domain)) }
        if let server = entry.server { statement.bind(12, try sealer.column("server", server)) }
        if let partition = entry.partition { statement.bind(13, try sealer.column("partition", partition)) }
        statement.bind(14, try sealer.seal(entry, salt: salt))
        if let end = entry.retainUntil { statement.bind(15, Self.seconds(end)) }
    }

    /// Inserts the tags of a stored or updated entry and adds it to the changes.
    private func record(_ entry: CacheEntry, _ row: Int64, _ effects: inout Effects) throws {
        for tag in entry.tags {
            try connection.run("INSERT OR IGNORE INTO tags(tag, entry) VALUES(?1, ?2)") { statement in
                statement.bind(1, try sealer.column("tag", tag))
                statement.bind(2, row)
            }
        }
        effects.changes.append(.primaryKey(entry.key.primary))
        effects.isGrown = true
    }

    /// Replaces everything in an entry except its body, and returns whether its version still exists.
    func update(_ entry: CacheEntry, _ effects: inout Effects) throws -> Bool {
        let found = try connection.use(
            "SELECT id, version, salt, body_size FROM entries "
                + "WHERE slot = ?1 AND key = ?2 AND variant = ?3 AND sealer = ?4"
        ) { found -> (row: Int64, version: Int64, salt: [UInt8], bodyByteCount: Int64)? in
            try bindKey(entry.key, found)
            found.bind(4, sealer.keyNumber)
            return try found.step() ? (found.integer(0), found.integer(1), found.bytes(2), found.integer(3)) : nil
        }
        guard let (row, version, salt, bodyByteCount) = found, Self.plausible.contains(bodyByteCount),
            entry.version == nil || entry.version?.number == UInt64(bitPattern: row)
        else { return false }
        var entry = entry
        entry.bodyByteCount = bodyByteCount
        // Pinning and unpinning count as a use.
        try connection.run(
            """
            UPDATE entries SET version = ?2, used = CASE WHEN pinned = ?7 THEN used ELSE ?4 END, used_at = ?5,
              stored_at = ?6, pinned = ?7, expired = ?8, size = ?9, url = ?10, domain = ?11, server = ?12,
              partition = ?13, head = ?14, retain_until = ?15 WHERE id = ?1
            """
        ) { statement in
            statement.bind(1, row)
            // A damaged index may hold any number.
            statement.bind(2, version &+ 1)
            try bindFields(entry, salt: salt, statement, &effects)
        }
        try connection.run("DELETE FROM tags WHERE entry = ?1") { $0.bind(1, row) }
        try record(entry, row, &effects)
        return true
    }

    /// Records uses. A counter gives their order, since the clock may be set back.
    func touch(_ uses: [CacheKey: EntryUse], _ effects: inout Effects) throws {
        for (key, use) in uses.sorted(by: { $0.value.ticket < $1.value.ticket }) {
            try connection.run(
                "UPDATE entries SET used = ?4, used_at = ?5 WHERE slot = ?1 AND key = ?2 AND variant = ?3"
            ) { statement in
                try bindKey(key, statement)
                statement.bind(4, try nextUse(&effects))
                statement.bind(5, Self.seconds(use.time))
            }
        }
    }

    /// Removes the selected entries, at most ``portion`` unless they are selected by decrypting them.
    @discardableResult
    func remove(
        _ selection: CacheSelection, _ effects: inout Effects
    ) throws -> (usage: CacheUsage, hasPin: Bool) {
        var condition = try condition(selection)
        guard condition.isExact else {
            return (try remove(rows: rows(selection).map(\.body.row), &effects), false)
        }
        if case .key = selection {
        } else {
            condition.sql = "id IN (SELECT id FROM entries WHERE \(condition.sql) LIMIT \(Self.portion))"
        }
        return try remove(condition, &effects)
    }

    @discardableResult
    func remove(rows: [Int64], _ effects: inout Effects) throws -> CacheUsage {
        var usage = CacheUsage()
        for row in rows {
            usage += try remove(Condition(sql: "id = ?1", number: row), &effects).usage
        }
        return usage
    }

    private func remove(
        _ condition: Condition, _ effects: inout Effects
    ) throws -> (usage: CacheUsage, hasPin: Bool) {
        var usage = CacheUsage()
        var hasPin = false
        try connection.use("DELETE FROM entries WHERE \(condition.sql) RETURNING size, pinned, file") { statement in
            condition.bind(statement)
            while try statement.step() {
                usage.entryCount += 1
                // A damaged index may hold any number.
                usage.byteCount &+= statement.integer(0)
                hasPin = hasPin || statement.integer(1) != 0
                if !statement.isNull(2) { effects.unusedFiles.append(statement.text(2)) }
            }
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
            guard !victims.isEmpty else {
                // Now all entries are pinned. With a count that is too high, nothing would ever be kept.
                let totals = try totals()
                guard totals.usage.byteCount == totals.pinnedByteCount else { throw Self.wrongCounts }
                return removed
            }
            removed += try remove(rows: victims.map { $0.row }, &effects)
        }
    }

    /// The maximum number of entries that are removed together, so that the log stays small.
    static let portion = 1_000

    /// Removes at most ``portion`` entries whose `retainUntil` has passed, and returns how much was removed.
    func removeEnded(_ effects: inout Effects) throws -> CacheUsage {
        var victims: [(row: Int64, file: String?)] = []
        try collect(.max, Self.ended, &victims)
        return try remove(rows: victims.map { $0.row }, &effects)
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

    /// Adds rows to the victims until they hold a number of bytes, and returns how many bytes are still missing.
    @discardableResult
    private func collect(
        _ byteCount: Int64, _ condition: String, _ victims: inout [(row: Int64, file: String?)]
    ) throws -> Int64 {
        var rest = byteCount
        try connection.use("SELECT id, size, file FROM entries WHERE \(condition)") { statement in
            statement.bind(1, Date().timeIntervalSinceReferenceDate)
            while rest > 0, victims.count < Self.portion, try statement.step() {
                victims.append((statement.integer(0), statement.isNull(2) ? nil : statement.text(2)))
                // A damaged index may hold any number.
                rest -= max(0, statement.integer(1))
            }
        }
        return rest
    }

    /// Checkpoints and truncates the log, as far as the disk, readers and other processes allow.
    func emptyLog() {
        connection.waiting(atMost: .milliseconds(100)) { _ = connection.emptyLog() }
    }

    // MARK: Bookkeeping

    /// Writes the counter of uses and the changes, at the end of a transaction.
    func finish(_ effects: Effects, writer: Int64) throws {
        if let clock = effects.clock { try connection.run("UPDATE state SET clock = ?1") { $0.bind(1, clock) } }
        if !effects.changes.isEmpty { try note(effects.changes, writer: writer) }
    }

    /// Advances the counter of uses.
    private func nextUse(_ effects: inout Effects) throws -> Int64 {
        let last = if let clock = effects.clock { clock } else { try connection.number("SELECT clock FROM state") ?? 0 }
        guard last < .max else { throw Self.damage("the counter of uses is wrong") }
        effects.clock = last + 1
        return last + 1
    }

    /// The seconds since the reference date; 0 for NaN, which SQLite cannot store.
    private static func seconds(_ date: Date) -> Double {
        let seconds = date.timeIntervalSinceReferenceDate
        return seconds.isNaN ? 0 : seconds
    }
}
