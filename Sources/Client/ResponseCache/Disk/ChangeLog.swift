import FoundationEssentials
import HTTPCore

/// The log of changes in the index, for processes that hold copies: one row for each of the newest few thousand changes.
///
/// A change is stored as the selection of the entries that it affects. With an encryption key it is sealed, since a
/// plain primary key would let an attacker confirm a guess. A process ignores changes that were sealed with another
/// key. A change that affects the rows of every key is never sealed.
extension CacheIndex {
    /// How many changes are kept. A reader that is further behind treats everything as changed.
    static let changeLimit: Int64 = 4_096

    /// Logs changes, within the transaction that makes them.
    func note(_ changes: [CacheSelection], writer: Int64) throws {
        for change in changes {
            try connection.run("INSERT INTO changes(writer, sealer, what) VALUES(?1, ?2, ?3)") { statement in
                statement.bind(1, writer)
                statement.bind(2, Self.affectsEveryKey(change) ? 0 : sealer.keyNumber)
                let bytes = change.encoded
                statement.bind(3, Self.affectsEveryKey(change) ? bytes : try sealer.sealChange(bytes))
            }
        }
        // The log is trimmed only now and then, since a few extra rows do no harm.
        guard connection.lastInsertedRow % 256 < Int64(changes.count) else { return }
        let end = connection.lastInsertedRow - Self.changeLimit
        try connection.run("DELETE FROM changes WHERE id <= ?1") { $0.bind(1, end) }
    }

    /// The number of the last change; 0 before the first.
    func lastChange() throws -> Int64 { try connection.number("SELECT max(id) FROM changes") ?? 0 }

    /// What other writers changed after the change `last`, and the number of the last change.
    func changes(
        since last: Int64, exceptBy writer: Int64
    ) throws -> (last: Int64, selections: [CacheSelection]) {
        var changes = (last: last, selections: [CacheSelection]())
        var count = 0
        let isTrimmed = try connection.use(
            "SELECT id, writer, sealer, what FROM changes WHERE id > ?1 ORDER BY id LIMIT 1000"
        ) { statement in
            statement.bind(1, last)
            while try statement.step() {
                let id = statement.integer(0)
                if id != changes.last &+ 1 { return true }
                changes.last = id
                count += 1
                guard statement.integer(1) != writer, [0, sealer.keyNumber].contains(statement.integer(2)) else {
                    continue
                }
                var bytes: [UInt8]? = statement.bytes(3)
                if statement.integer(2) != 0 { bytes = bytes.flatMap(sealer.openChange) }
                changes.selections.append(bytes.flatMap { CacheSelection(encoded: $0) } ?? .all)
            }
            return false
        }
        // Some changes were trimmed, so it is unknown what they affected.
        if isTrimmed { return (try lastChange(), [.all]) }
        // This far behind, it costs less to treat everything as changed.
        if count == 1_000 { return (try lastChange(), [.all]) }
        if count == 0, try lastChange() < last { return (try lastChange(), [.all]) }
        return changes
    }

    /// Whether a change affects rows of every encryption key and reveals nothing about them.
    private static func affectsEveryKey(_ change: CacheSelection) -> Bool {
        switch change {
        case .all, .storedBefore: true
        default: false
        }
    }
}

extension CacheSelection {
    /// The selection as bytes. A selection of one variant is rare. It is encoded as the selection of all variants of its primary
    /// key.
    package var encoded: [UInt8] {
        switch self {
        case .all: [0]
        case .primaryKey(let text): [1] + text.utf8
        case .key(let key): [1] + key.primary.utf8
        case .tag(let text): [2] + text.utf8
        case .url(let text): [3] + text.utf8
        case .urlPrefix(let text): [4] + text.utf8
        case .server(let text): [5] + text.utf8
        case .domain(let text): [6] + text.utf8
        case .partition(let text): [7] + text.utf8
        case .storedBefore(let time): [8] + "\(time.timeIntervalSinceReferenceDate.bitPattern)".utf8
        }
    }

    /// The selection of ``encoded`` bytes; `nil` when they are malformed.
    package init?(encoded bytes: some Collection<UInt8>) {
        guard let kind = bytes.first, let text = String(validating: Array(bytes.dropFirst()), as: UTF8.self) else {
            return nil
        }
        switch kind {
        case 0: self = .all
        case 1: self = .primaryKey(text)
        case 2: self = .tag(text)
        case 3: self = .url(text)
        case 4: self = .urlPrefix(text)
        case 5: self = .server(text)
        case 6: self = .domain(text)
        case 7: self = .partition(text)
        case 8:
            guard let time = UInt64(text).map({ Double(bitPattern: $0) }), time.isFinite else { return nil }
            self = .storedBefore(Date(timeIntervalSinceReferenceDate: time))
        default: return nil
        }
    }
}
