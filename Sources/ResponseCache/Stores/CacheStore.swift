public import FoundationEssentials
public import HTTPCore

/// Keeps responses: the memory and disk of the SDK, or a store of the app's own.
///
/// A store only stores. Whether an entry may be used, and for how long, is decided by those who ask. All methods may be
/// called from any task at any time. What throws is a fault of the store (``NetworkError/Kind/cache``); an entry that
/// is not there, or was damaged and has been removed, is no fault but absence.
///
/// These methods are what every store can do. What only some can do are protocols of their own:
/// ``CacheInspecting``, ``CacheInvalidating`` and ``CacheLeasing``. `CacheStoreConformance` of `LATTesting` runs a store through all the
/// rules that stand here.
public protocol CacheStore: Sendable {
    /// The entries under a primary key, one for each variant, the one stored last first. In one trip: the body of an
    /// entry comes along as ``CacheEntry/attachedBody`` where it is small, checked against damage.
    ///
    /// Every entry has a ``CacheEntry/version``.
    func entries(for primaryKey: String) async throws -> [CacheEntry]

    /// The body of an entry that ``entries(for:)`` gave, checked against damage before the first byte is given; `nil` when
    /// it is gone, damaged, or was stored anew since. Asked for only when the entry has no ``CacheEntry/attachedBody``.
    func body(of entry: CacheEntry) async throws -> ResponseBody?

    /// Begins to store a response. Nothing is seen of it until the writer has committed.
    ///
    /// An entry that is larger than the store's limit, or than what pinned entries leave of it, is refused by the
    /// writer: ``CacheWriter/append(_:)`` or ``CacheWriter/commit()`` throw an error whose ``NetworkError/underlying``
    /// is a ``CacheEntryTooLarge``, and all that is stored stays.
    ///
    /// - Parameter replacing: what the entry may take the place of. It is looked at in the moment of the commit.
    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter

    /// Replaces what is kept of an entry besides its body: fields after a 304, the expired mark, the pin, the time until
    /// which it is retained. An entry that was stored anew since it was given out (``CacheEntry/version``) stays as it is;
    /// one without a version means what is there.
    ///
    /// - Returns: whether it was there still.
    @discardableResult
    func update(_ entry: CacheEntry) async throws -> Bool

    /// Notes that an entry was used, for the order in which room is made and for sliding times to live.
    func touch(_ key: CacheKey, at time: Date) async throws

    /// Removes what is selected, pinned entries too, and says how much that was. A store that invalidates without counting
    /// answers with ``CacheUsage/init()``; what is selected is not given out any more all the same.
    @discardableResult
    func remove(_ selection: CacheSelection) async throws -> CacheUsage

    /// Returns when all that was stored would survive a loss of power. Default: at once.
    func flush() async throws

    /// Makes room down to the limits and clears away what nobody refers to or has a use for (``CacheEntry/retainUntil``); says
    /// how much went. Default: nothing to do.
    @discardableResult
    func collectGarbage() async throws -> CacheUsage

    /// The store as one that lists what it holds; `nil` when it cannot. Default: whether it is one.
    var inspecting: (any CacheInspecting)? { get }

    /// The store as one that tells of changes by others; `nil` when it cannot. Default: whether it is one.
    var invalidating: (any CacheInvalidating)? { get }

    /// The store as one that lets one of several processes fetch; `nil` when it cannot. Default: whether it is one.
    var leasing: (any CacheLeasing)? { get }
}

extension CacheStore {
    /// There is nothing to wait for.
    public func flush() async throws {}

    /// There is nothing to do.
    public func collectGarbage() async throws -> CacheUsage { CacheUsage() }

    /// The store itself, when it conforms to ``CacheInspecting``.
    public var inspecting: (any CacheInspecting)? { self as? any CacheInspecting }

    /// The store itself, when it conforms to ``CacheInvalidating``.
    public var invalidating: (any CacheInvalidating)? { self as? any CacheInvalidating }

    /// The store itself, when it conforms to ``CacheLeasing``.
    public var leasing: (any CacheLeasing)? { self as? any CacheLeasing }

    /// Begins to store a response in place of whatever is there.
    public func writer(for entry: CacheEntry) async throws -> any CacheWriter {
        try await writer(for: entry, replacing: .anything)
    }
}

/// What an entry that is being stored may take the place of, so that an older answer never replaces a newer one.
///
/// Whoever asks a server about an entry names the version that it had in hand. If somebody else has stored an answer
/// meanwhile, that one stays.
public enum CacheReplacement: Hashable, Sendable {
    /// Whatever is there.
    case anything
    /// That storing, or nothing: it may have been removed since.
    case version(StoredVersion)
    /// Nothing: whoever asked had found no entry.
    case nothing

    /// What an answer may replace that was fetched to replace an entry in hand: that storing of it. Anything, where the entry
    /// in hand is another variant, or is stored nowhere yet.
    package init(of candidate: CacheEntry, by answer: CacheEntry) {
        if candidate.key == answer.key, let version = candidate.version {
            self = .version(version)
        } else {
            self = .anything
        }
    }

    /// Whether an entry may be stored where a storing is, or nothing.
    public func allows(_ stored: StoredVersion?) -> Bool {
        guard let stored else { return true }
        return switch self {
        case .anything: true
        case .version(let version): version == stored
        case .nothing: false
        }
    }
}

/// What became of a commit.
public enum CacheCommit: Sendable {
    /// The entry is stored, as it stands here: with its ``CacheEntry/version``, its pin and the bytes of its body. And how
    /// many variants its primary key has now; `nil` when the store does not say.
    case stored(CacheEntry, variantCount: Int?)
    /// Another entry was stored under the key since, and stays (``CacheReplacement``). Nothing is kept of this one. No
    /// fault: whoever looks now finds the other.
    case superseded
}

/// Takes the body of a response that is being stored.
///
/// One task writes. A writer that is let go of without ``commit()`` leaves nothing behind.
public protocol CacheWriter: AnyObject, Sendable {
    /// Adds bytes to the body.
    func append(_ data: Data) async throws
    /// Makes the entry visible, whole, in place of what it may replace. When it returns ``CacheCommit/stored(_:variantCount:)``,
    /// the entry is acknowledged: where the store outlives the process, so does the entry.
    @discardableResult
    func commit() async throws -> CacheCommit
    /// Forgets it.
    func discard() async
}

/// Which entries are meant. Texts are compared byte by byte.
public enum CacheSelection: Hashable, Sendable {
    /// All of them.
    case all
    /// Those under a key: one variant.
    case key(CacheKey)
    /// Those under a primary key: all variants.
    case primaryKey(String)
    /// Those with a tag (``CacheEntry/tags``).
    case tag(String)
    /// Those of a URL, whatever the method and the variant.
    case url(String)
    /// Those whose URL begins so.
    case urlPrefix(String)
    /// Those of a server's row.
    case server(String)
    /// Those of a domain's row.
    case domain(String)
    /// Those of a user.
    case partition(String)
    /// Those whose answer came before a time (``CacheEntry/responseTime``).
    case storedBefore(Date)

    /// Whether it means an entry.
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
}

/// How much is stored, or was removed.
public struct CacheUsage: Hashable, Sendable {
    /// The number of entries.
    public var entryCount = 0
    /// The bytes of their bodies and headers.
    public var byteCount: Int64 = 0

    /// Nothing.
    public init() {}

    /// So many entries of so many bytes.
    public init(entryCount: Int, byteCount: Int64) {
        self.entryCount = entryCount
        self.byteCount = byteCount
    }

    /// Adds another one.
    package static func += (sum: inout CacheUsage, usage: CacheUsage) {
        sum.entryCount += usage.entryCount
        sum.byteCount += usage.byteCount
    }
}
