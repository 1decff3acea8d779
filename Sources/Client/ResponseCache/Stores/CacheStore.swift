public import FoundationEssentials
public import HTTPCore

/// A store of responses: the SDK's in memory and on disk, or the app's own.
///
/// A store only stores. The caller decides whether and for how long an entry may be used. All methods may be called from
/// any task at any time. They throw only when the store fails (`NetworkError.Kind.cache`). A missing entry is not a
/// failure, nor is a damaged one, which the store removes.
///
/// Every store has these methods. Other protocols are for what only some stores can do: ``CacheInspecting``,
/// ``CacheInvalidating`` and ``CacheLeasing``. `CacheStoreConformance` of `LATTesting` tests a store against these rules.
public protocol CacheStore: Sendable {
    /// The entries under a primary key, one for each variant, newest first.
    ///
    /// Every entry has a ``CacheEntry/version``. A small body comes along as ``CacheEntry/attachedBody``, checked against
    /// damage.
    func entries(for primaryKey: String) async throws -> [CacheEntry]

    /// The body of an entry from ``entries(for:)``, checked against damage before the first byte is returned. `nil` when the
    /// entry was removed, replaced or damaged. Called only if the entry has no ``CacheEntry/attachedBody``.
    func body(of entry: CacheEntry) async throws -> ResponseBody?

    /// A writer that stores an entry. The entry is not visible until the writer has committed.
    ///
    /// The writer refuses an entry that is larger than the store's limit, or than the room that other pinned entries leave:
    /// ``CacheWriter/append(_:)`` or ``CacheWriter/commit()`` throws an error whose `NetworkError.underlying` is a
    /// ``CacheEntryTooLarge``, and evicts nothing.
    ///
    /// - Parameters:
    ///   - entry: The entry without its body, which is written to the writer.
    ///   - replacing: What the entry may replace, checked at the commit.
    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter

    /// Replaces everything in an entry except its body: fields after a 304, the expiry mark, the pin, the retention time.
    ///
    /// Nothing changes if the stored entry has another ``CacheEntry/version``. Without a version, any stored one is updated.
    ///
    /// - Returns: Whether the entry was found.
    @discardableResult
    func update(_ entry: CacheEntry) async throws -> Bool

    /// Records the use of an entry, for the order of eviction and for sliding times to live.
    func touch(_ key: CacheKey, at time: Date) async throws

    /// Removes the selected entries, pinned ones too, and returns how much was removed. A store that does not count returns
    /// ``CacheUsage/init()``, but must no longer return the selected entries.
    @discardableResult
    func remove(_ selection: CacheSelection) async throws -> CacheUsage

    /// Returns when everything stored so far would survive a loss of power. Default: returns at once.
    func flush() async throws

    /// Evicts down to the limits, and removes unreferenced data and entries whose ``CacheEntry/retainUntil`` has passed.
    /// Returns how much was removed. Default: does nothing.
    @discardableResult
    func collectGarbage() async throws -> CacheUsage

    /// The store as a ``CacheInspecting``; `nil` if it does not conform. Default: the store itself, if it conforms.
    var inspecting: (any CacheInspecting)? { get }

    /// The store as a ``CacheInvalidating``; `nil` if it does not conform. Default: the store itself, if it conforms.
    var invalidating: (any CacheInvalidating)? { get }

    /// The store as a ``CacheLeasing``; `nil` if it does not conform. Default: the store itself, if it conforms.
    var leasing: (any CacheLeasing)? { get }
}

extension CacheStore {
    /// Returns at once.
    public func flush() async throws {}

    /// Does nothing.
    public func collectGarbage() async throws -> CacheUsage { CacheUsage() }

    /// The store itself, if it conforms to ``CacheInspecting``.
    public var inspecting: (any CacheInspecting)? { self as? any CacheInspecting }

    /// The store itself, if it conforms to ``CacheInvalidating``.
    public var invalidating: (any CacheInvalidating)? { self as? any CacheInvalidating }

    /// The store itself, if it conforms to ``CacheLeasing``.
    public var leasing: (any CacheLeasing)? { self as? any CacheLeasing }

    /// A writer that stores an entry and replaces any other; see ``writer(for:replacing:)``.
    public func writer(for entry: CacheEntry) async throws -> any CacheWriter {
        try await writer(for: entry, replacing: .anything)
    }
}

/// What a new entry may replace, so that an older response never replaces a newer one.
///
/// A revalidation names the version of the entry that it validates. If another request has stored a newer response in the
/// meantime, that one stays.
public enum CacheReplacement: Hashable, Sendable {
    /// Any entry.
    case anything
    /// Only this version. The entry is also stored if none is there, since the version may have been removed.
    case version(StoredVersion)
    /// No entry, since the look-up found none.
    case nothing

    /// What a response that was fetched for a stored entry may replace: the version of that entry, or anything if the
    /// response is another variant or the entry has no version.
    package init(of candidate: CacheEntry, by answer: CacheEntry) {
        if candidate.key == answer.key, let version = candidate.version {
            self = .version(version)
        } else {
            self = .anything
        }
    }

    /// Whether an entry may replace the stored version; `nil` stands for none.
    public func allows(_ stored: StoredVersion?) -> Bool {
        guard let stored else { return true }
        return switch self {
        case .anything: true
        case .version(let version): version == stored
        case .nothing: false
        }
    }
}

/// The outcome of a commit.
public enum CacheCommit: Sendable {
    /// The entry is stored. The associated values are the entry with its ``CacheEntry/version``, pin and body length, and
    /// the number of variants of its primary key, or `nil` when the store does not know it.
    case stored(CacheEntry, variantCount: Int?)
    /// The entry was not stored, since it may not replace the one under its key (``CacheReplacement``). This is not a failure:
    /// a look-up finds the other entry.
    case superseded
}

/// A writer for the body of an entry.
///
/// One task uses a writer. A writer that is released without ``commit()`` leaves nothing behind.
public protocol CacheWriter: AnyObject, Sendable {
    /// Adds bytes to the body.
    func append(_ data: Data) async throws
    /// Makes the complete entry visible and replaces the previous one. Once it returns
    /// ``CacheCommit/stored(_:variantCount:)``, the entry outlives the process if the store does.
    @discardableResult
    func commit() async throws -> CacheCommit
    /// Drops the entry.
    func discard() async
}

/// A selection of entries. Strings are compared byte by byte.
public enum CacheSelection: Hashable, Sendable {
    /// All entries.
    case all
    /// The entry under a key, which is one variant.
    case key(CacheKey)
    /// The entries under a primary key: all variants.
    case primaryKey(String)
    /// The entries with a tag (``CacheEntry/tags``).
    case tag(String)
    /// The entries of a URL, for all methods and variants.
    case url(String)
    /// The entries whose URL has a prefix.
    case urlPrefix(String)
    /// The entries of a server's row.
    case server(String)
    /// The entries of a domain's row.
    case domain(String)
    /// The entries of a user.
    case partition(String)
    /// The entries whose ``CacheEntry/responseTime`` is before a time.
    case storedBefore(Date)

    /// Whether both are the same selection.
    public static func == (one: CacheSelection, other: CacheSelection) -> Bool {
        switch (one, other) {
        case (.all, .all): true
        case (.key(let a), .key(let b)): a == b
        case (.primaryKey(let a), .primaryKey(let b)), (.tag(let a), .tag(let b)), (.url(let a), .url(let b)),
            (.urlPrefix(let a), .urlPrefix(let b)), (.server(let a), .server(let b)), (.domain(let a), .domain(let b)),
            (.partition(let a), .partition(let b)):
            areSame(a, b)
        case (.storedBefore(let a), .storedBefore(let b)): a == b
        case (.all, _), (.key, _), (.primaryKey, _), (.tag, _), (.url, _), (.urlPrefix, _), (.server, _), (.domain, _),
            (.partition, _), (.storedBefore, _):
            false
        }
    }

    /// Whether the selection includes an entry.
    public func selects(_ entry: CacheEntry) -> Bool {
        switch self {
        case .all: true
        case .key(let key): key == entry.key
        case .primaryKey(let key): Self.areSame(key, entry.key.primary)
        case .tag(let tag): entry.tags.contains { Self.areSame(tag, $0) }
        case .url(let url): Self.areSame(url, entry.url)
        case .urlPrefix(let prefix): entry.url.utf8.starts(with: prefix.utf8)
        case .server(let name): entry.server.map { Self.areSame($0, name) } ?? false
        case .domain(let name): entry.domain.map { Self.areSame($0, name) } ?? false
        case .partition(let name): entry.partition.map { Self.areSame($0, name) } ?? false
        case .storedBefore(let time): entry.responseTime < time
        }
    }

    private static func areSame(_ a: String, _ b: String) -> Bool { a.hasSameBytes(as: b) }

    /// The primary key of all selected entries; `nil` when they may have several.
    var primaryKey: String? {
        switch self {
        case .key(let key): key.primary
        case .primaryKey(let key): key
        default: nil
        }
    }
}

/// An amount of stored or removed entries.
public struct CacheUsage: Hashable, Sendable {
    /// The number of entries.
    public var entryCount = 0
    /// The bytes of their bodies and headers.
    public var byteCount: Int64 = 0

    /// Creates an amount of zero.
    public init() {}

    /// Creates an amount of entries and their bytes.
    public init(entryCount: Int, byteCount: Int64) {
        self.entryCount = entryCount
        self.byteCount = byteCount
    }

    package static func += (sum: inout CacheUsage, usage: CacheUsage) {
        sum.entryCount += usage.entryCount
        // A damaged index may hold any number.
        sum.byteCount &+= usage.byteCount
    }
}
