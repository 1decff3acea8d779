import FoundationEssentials
import HTTPCore

/// What a store notes on an entry that it gives out, to know the same storing of it again.
struct StorageMark: Sendable {
    /// The storing in memory, as counted there; 0 when it is not from memory.
    var memoryRevision: UInt64 = 0
    /// The row of the index on disk, never used twice; 0 when it is not from disk.
    var row: Int64 = 0
    /// How often the row was updated.
    var version: Int64 = 0
    /// Where the body lies on disk.
    var body: StoredBody?
    /// The look-up that gave it out, when that was on disk and memory was asked before.
    var lookup: Lookup?

    /// What is to be as it was, when a copy is put into memory that was read from disk.
    struct Lookup: Sendable {
        /// The changes of memory that were made when it began.
        var ticket: UInt64
        /// The changes of others on disk that were seen when it began.
        var epoch: Int64
        /// How many variants it found.
        var variantCount: Int
    }
}

/// Where the body of a row lies, and what it must be.
struct StoredBody: Sendable {
    enum Place: Sendable {
        /// In the index, and read with the row.
        case attached(Data)
        /// In the index, to be read yet.
        case inline
        /// In a file of its own.
        case file(String)
    }

    var place: Place
    /// The bytes as they lie there: with tags where they are sealed.
    var storedByteCount: Int64
    /// The SHA-256 digest of the bytes as they lie there.
    var checksum: [UInt8]
    /// From what the keys of the entry are derived; empty when nothing is sealed.
    var salt: [UInt8]
}

extension CacheEntry {
    /// What counts of it besides the body, for limits and reports: texts and fields. The same in every store.
    var headByteCount: Int64 {
        var count = key.primary.utf8.count + key.variant.utf8.count + method.utf8.count + url.utf8.count
        count += (domain?.utf8.count ?? 0) + (server?.utf8.count ?? 0) + (partition?.utf8.count ?? 0)
        count += reason.utf8.count + varyFields.reduce(0) { $0 + $1.utf8.count }
        for field in headers.fields { count += field.name.utf8.count + (field.value?.utf8.count ?? 0) }
        return Int64(count)
    }

    /// The bytes of body and headers.
    var byteCount: Int64 { headByteCount + bodyByteCount }
}

extension CacheSelection {
    /// Whether it means an entry. Texts are compared byte by byte: in Swift, `é` and `e` with an accent are equal.
    func selects(_ entry: CacheEntry) -> Bool {
        switch self {
        case .all: true
        case .key(let key): key == entry.key
        case .primaryKey(let key): Self.areSame(key, entry.key.primary)
        case .url(let url): Self.areSame(url, entry.url)
        case .urlPrefix(let prefix): entry.url.utf8.starts(with: prefix.utf8)
        case .server(let name): entry.server.map { Self.areSame($0, name) } ?? false
        case .domain(let name): entry.domain.map { Self.areSame($0, name) } ?? false
        case .partition(let name): entry.partition.map { Self.areSame($0, name) } ?? false
        case .storedBefore(let time): entry.responseTime < time
        }
    }

    private static func areSame(_ a: String, _ b: String) -> Bool { a.utf8.elementsEqual(b.utf8) }
}
