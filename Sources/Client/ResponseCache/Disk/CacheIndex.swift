import CSQLite
import FoundationEssentials
import HTTPCore
import SQLite

/// The index of a store on disk, an SQLite database. Used from one queue at a time, or under one lock.
///
/// Each row is one version of an entry. Its `id` is never reused, so it shows whether that version still exists.
/// Triggers count entries and bytes, so that the counts are right whichever process writes.
final class CacheIndex {
    /// `PRAGMA user_version`, also part of the file's name.
    static let schemaVersion: Int64 = 4
    /// `PRAGMA application_id`: "LATc".
    static let applicationID: Int64 = 0x4C41_5463

    let connection: SQLiteConnection
    let sealer: EntrySealer

    init(_ connection: SQLiteConnection, _ sealer: EntrySealer) {
        self.connection = connection
        self.sealer = sealer
        connection.keepLogOnClose()
    }

    // MARK: Opening

    /// Creates the tables if the file is new, and configures the connection for writing.
    func prepareForWriting() throws {
        if try connection.number("PRAGMA user_version") == 0 {
            // A page of 16 KiB holds three bodies of 4 KiB, and no inline body needs many pages.
            try connection.execute("PRAGMA page_size = 16384; PRAGMA auto_vacuum = INCREMENTAL")
        }
        _ = try connection.number("PRAGMA journal_mode = WAL")
        // A loss of power may lose the last commits but never corrupts the index, and responses can be fetched again.
        try connection.execute(
            "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304; PRAGMA wal_autocheckpoint = 256; "
                + "PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY")
        try connection.transaction {
            if try connection.number("PRAGMA user_version") == 0 { try connection.execute(Self.schema) }
        }
        try checkVersion()
    }

    /// Configures the connection for reading; returns `false` when the tables do not exist yet.
    func prepareForReading() throws -> Bool {
        try connection.execute("PRAGMA query_only = ON; PRAGMA cache_size = -16384")
        if try connection.number("PRAGMA user_version") == 0 { return false }
        try checkVersion()
        return true
    }

    private func checkVersion() throws {
        let version = try connection.number("PRAGMA user_version")
        let application = try connection.number("PRAGMA application_id")
        guard version == Self.schemaVersion, application == Self.applicationID else {
            throw SQLiteError(
                code: SQLITE_NOTADB, message: "the index has another format or version", attempt: "opening the index")
        }
    }

    private static let schema = """
        CREATE TABLE entries(
          id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL, key BLOB NOT NULL, variant BLOB NOT NULL,
          version INTEGER NOT NULL,
          used INTEGER NOT NULL, used_at REAL NOT NULL, stored_at REAL NOT NULL, retain_until REAL,
          pinned INTEGER NOT NULL, expired INTEGER NOT NULL, size INTEGER NOT NULL, body_size INTEGER NOT NULL,
          stored_size INTEGER NOT NULL, checksum BLOB NOT NULL, file BLOB,
          sealer INTEGER NOT NULL, salt BLOB NOT NULL, url BLOB NOT NULL, domain BLOB, server BLOB, partition BLOB,
          head BLOB NOT NULL);
        CREATE TABLE bodies(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
        CREATE INDEX entries_slot ON entries(slot);
        CREATE TABLE tags(tag BLOB NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY(tag, entry)) WITHOUT ROWID;
        CREATE INDEX tags_entry ON tags(entry);
        CREATE INDEX entries_used ON entries(pinned, used);
        CREATE INDEX entries_stored_at ON entries(stored_at);
        CREATE INDEX entries_retain_until ON entries(retain_until) WHERE retain_until IS NOT NULL AND pinned = 0;
        CREATE INDEX entries_url ON entries(url);
        CREATE INDEX entries_domain ON entries(domain) WHERE domain IS NOT NULL;
        CREATE INDEX entries_server ON entries(server) WHERE server IS NOT NULL;
        CREATE INDEX entries_partition ON entries(partition) WHERE partition IS NOT NULL;
        CREATE INDEX entries_file ON entries(file) WHERE file IS NOT NULL;
        CREATE TABLE state(
          id INTEGER PRIMARY KEY CHECK(id = 1), clock INTEGER NOT NULL,
          entries INTEGER NOT NULL, bytes INTEGER NOT NULL, pinned_bytes INTEGER NOT NULL);
        INSERT INTO state VALUES(1, 0, 0, 0, 0);
        CREATE TABLE changes(
          id INTEGER PRIMARY KEY AUTOINCREMENT, writer INTEGER NOT NULL, sealer INTEGER NOT NULL, what BLOB NOT NULL);
        CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
          UPDATE state SET entries = entries + 1, bytes = bytes + new.size,
            pinned_bytes = pinned_bytes + new.size * new.pinned;
        END;
        CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
          UPDATE state SET entries = entries - 1, bytes = bytes - old.size,
            pinned_bytes = pinned_bytes - old.size * old.pinned;
          DELETE FROM bodies WHERE id = old.id;
          DELETE FROM tags WHERE entry = old.id;
        END;
        CREATE TRIGGER entry_changed AFTER UPDATE OF size, pinned ON entries BEGIN
          UPDATE state SET bytes = bytes + new.size - old.size,
            pinned_bytes = pinned_bytes + new.size * new.pinned - old.size * old.pinned;
        END;
        PRAGMA application_id = \(applicationID);
        PRAGMA user_version = \(schemaVersion);
        """

    // MARK: Reading

    /// The maximum number of bytes of inline bodies that a look-up reads.
    private static let attachedByteCount: Int64 = 64 << 10

    private static let columns = """
        SELECT e.id, e.version, e.used_at, e.pinned, e.expired, e.body_size, e.stored_size, e.checksum, e.file, e.salt,
          e.head, e.sealer, e.key, e.variant, e.url, e.domain, e.server, e.partition
        """

    struct Row {
        /// `nil` when the row is damaged or sealed with another key.
        var entry: CacheEntry?
        var body: StoredBody
        /// The stored bytes of an inline body, if they were read.
        var attached: Data?
    }

    /// The rows under a primary key, newest first, with their inline bodies.
    func rows(primaryKey: String) throws -> [Row] {
        let key = try sealer.column("key", primaryKey)
        var rows: [Row] = []
        var attached: Int64 = 0
        try connection.use(
            "\(Self.columns) FROM entries e WHERE e.slot = ?2 AND e.key = ?1 ORDER BY e.id DESC"
        ) { statement in
            statement.bind(1, key)
            statement.bind(2, Self.slot(key))
            while try statement.step() {
                var row = row(statement)
                if let entry = row.entry, !entry.key.primary.hasSameBytes(as: primaryKey) { row.entry = nil }
                if row.entry != nil, row.body.file == nil,
                    attached + row.body.storedByteCount <= Self.attachedByteCount
                {
                    attached += row.body.storedByteCount
                    row.attached = try inlineBody(row.body.row) ?? Data()
                }
                rows.append(row)
            }
        }
        return rows
    }

    func inlineBody(_ row: Int64) throws -> Data? {
        try connection.use("SELECT bytes FROM bodies WHERE id = ?1") { statement in
            statement.bind(1, row)
            return try statement.step() ? statement.data(0) : nil
        }
    }

    /// The selected rows. With an encryption key, a selection by URL prefix decrypts every row.
    func rows(_ selection: CacheSelection) throws -> [Row] {
        let condition = try condition(selection)
        var rows: [Row] = []
        try connection.use("\(Self.columns) FROM entries e WHERE \(condition.sql)") { statement in
            condition.bind(statement)
            while try statement.step() {
                let row = row(statement)
                if condition.isExact || row.entry.map(selection.selects) ?? false { rows.append(row) }
            }
        }
        return rows
    }

    private func row(_ statement: SQLiteStatement) -> Row {
        let salt = statement.bytes(9)
        var row = Row(
            body: StoredBody(
                row: statement.integer(0), file: statement.isNull(8) ? nil : statement.text(8),
                storedByteCount: statement.integer(6), checksum: statement.bytes(7), salt: salt))
        guard statement.integer(11) == sealer.keyNumber,
            EntrySealer.storedByteCount(statement.integer(5), isSealed: sealer.isSealing) == row.body.storedByteCount,
            var entry = sealer.open(
                statement.bytes(10), salt: salt,
                columns: { (12...17).map { statement.isNull($0) ? nil : statement.bytes($0) } })
        else { return row }
        entry.lastUse = Date(timeIntervalSinceReferenceDate: statement.real(2))
        entry.isPinned = statement.integer(3) != 0
        entry.isExpired = statement.integer(4) != 0
        entry.bodyByteCount = statement.integer(5)
        entry.tier = .disk
        entry.version = StoredVersion(UInt64(bitPattern: row.body.row))
        entry.note = row.body
        row.entry = entry
        return row
    }

    func totals() throws -> (usage: CacheUsage, pinnedByteCount: Int64) {
        try connection.use("SELECT entries, bytes, pinned_bytes FROM state") { statement in
            let counts = try statement.step() ? (0..<3).map { statement.integer($0) } : []
            guard counts.count == 3, counts.allSatisfy(Self.plausible.contains) else { throw Self.wrongCounts }
            return (CacheUsage(entryCount: Int(counts[0]), byteCount: counts[1]), counts[2])
        }
    }

    func isKnown(file: String) throws -> Bool {
        try connection.number("SELECT 1 FROM entries WHERE file = ?1") { $0.bind(1, utf8: file) } != nil
    }

    /// The rows whose body is in a file.
    func files() throws -> [(row: Int64, name: String)] {
        try connection.use("SELECT id, file FROM entries WHERE file IS NOT NULL") { statement in
            var files: [(row: Int64, name: String)] = []
            while try statement.step() {
                files.append((statement.integer(0), statement.text(1)))
            }
            return files
        }
    }

    // MARK: Selecting

    struct Condition {
        var sql: String
        /// The parameters of the statement: bytes, then a number, or a time alone.
        var bytes: [[UInt8]] = []
        var number: Int64?
        var time: Double?
        /// Whether the selection includes every row that the condition finds.
        var isExact = true

        func bind(_ statement: SQLiteStatement) {
            for (index, value) in bytes.enumerated() { statement.bind(Int32(index + 1), value) }
            if let number { statement.bind(Int32(bytes.count + 1), number) }
            if let time { statement.bind(1, time) }
        }
    }

    func condition(_ selection: CacheSelection) throws -> Condition {
        switch selection {
        case .all: return Condition(sql: "1")
        case .key(let key):
            let columns = [try sealer.column("key", key.primary), try sealer.column("variant", key.variant)]
            return Condition(
                sql: "slot = ?3 AND key = ?1 AND variant = ?2", bytes: columns, number: Self.slot(columns[0]))
        case .primaryKey(let key):
            let column = try sealer.column("key", key)
            return Condition(sql: "slot = ?2 AND key = ?1", bytes: [column], number: Self.slot(column))
        case .tag(let tag): return try equality("id IN (SELECT entry FROM tags WHERE tag = ?1)", "tag", tag)
        case .url(let url): return try equality("url = ?1", "url", url)
        case .server(let name): return try equality("server = ?1", "server", name)
        case .domain(let name): return try equality("domain = ?1", "domain", name)
        case .partition(let name): return try equality("partition = ?1", "partition", name)
        case .storedBefore(let time):
            return Condition(sql: "stored_at < ?1", time: time.timeIntervalSinceReferenceDate)
        case .urlPrefix(let prefix):
            guard !sealer.isSealing else {
                return Condition(sql: "sealer = ?1", number: sealer.keyNumber, isExact: false)
            }
            let lower = Array(prefix.utf8)
            // The smallest bytes above all texts with this prefix. UTF-8 has no byte 255, so the last byte can be incremented.
            let upper = lower.last.map { lower.dropLast() + [$0 + 1] } ?? []
            return Condition(
                sql: "url >= ?1 AND sealer = 0" + (upper.isEmpty ? "" : " AND url < ?2"),
                bytes: upper.isEmpty ? [lower] : [lower, upper])
        }
    }

    private func equality(_ sql: String, _ column: String, _ text: String) throws -> Condition {
        Condition(sql: sql + " AND sealer = ?2", bytes: [try sealer.column(column, text)], number: sealer.keyNumber)
    }

    /// A 64-bit hash by which keys are looked up, so that their SQL index is small. Rows are then compared by their full key.
    static func slot(_ key: [UInt8]) -> Int64 {
        // FNV-1a over all bytes, since an app's own keys may share a prefix.
        Int64(bitPattern: key.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 })
    }

    /// The stored version under a key; `nil` when there is none.
    func version(of key: CacheKey) throws -> StoredVersion? {
        let condition = try condition(.key(key))
        return try connection.number("SELECT id FROM entries WHERE \(condition.sql)", bind: condition.bind)
            .map { StoredVersion(UInt64(bitPattern: $0)) }
    }

    /// Whether a selection includes every entry.
    func isEverything(_ selection: CacheSelection) throws -> Bool {
        let condition = try condition(selection)
        let selected =
            condition.isExact
            ? try connection.number("SELECT count(*) FROM entries WHERE \(condition.sql)", bind: condition.bind)
            : Int64(try rows(selection).count)
        return try connection.number("SELECT count(*) FROM entries") == selected
    }

    /// The bytes that a pinned entry under a key leaves to the one that replaces it.
    func pinnedByteCount(of key: CacheKey) throws -> Int64 {
        let condition = try condition(.key(key))
        return try connection.number(
            "SELECT size FROM entries WHERE \(condition.sql) AND pinned = 1", bind: condition.bind) ?? 0
    }

    func variantCount(of primaryKey: String) throws -> Int {
        let condition = try condition(.primaryKey(primaryKey))
        return Int(
            try connection.number("SELECT count(*) FROM entries WHERE \(condition.sql)", bind: condition.bind) ?? 0)
    }

    /// The numbers that counts of bytes may be. A damaged index may hold any.
    static let plausible: ClosedRange<Int64> = 0...1 << 60

    static let wrongCounts = damage("the counts of entries and bytes are wrong")

    static func damage(_ message: String) -> SQLiteError {
        SQLiteError(code: SQLITE_CORRUPT, message: message, attempt: "reading the index")
    }
}

/// The location and checksum of a row's body.
struct StoredBody: Sendable {
    var row: Int64
    /// The name of its file; `nil` for an inline body.
    var file: String?
    /// The number of stored bytes, including the tags of sealed chunks.
    var storedByteCount: Int64
    /// The SHA-256 digest of the stored bytes.
    var checksum: [UInt8]
    /// The salt from which the entry's keys are derived; empty without encryption.
    var salt: [UInt8]
}
