public import FoundationEssentials
public import HTTPCore

/// Keeps responses: the memory and disk of the SDK, or an app's own.
///
/// A store only stores. Whether an entry may be used, and for how long, is decided by those who ask. All methods may be
/// called from any task at any time. What throws is a fault of the store (``NetworkError/Kind/cache``); an entry that
/// is not there, or was damaged and has been removed, is no fault but absence.
public protocol CacheStore: Sendable {
    /// The entries under a primary key, one for each variant, the one stored last first.
    func entries(for primaryKey: String) async throws -> [CacheEntry]

    /// The body of an entry that ``entries(for:)`` gave, checked against its checksum before the first byte is given;
    /// `nil` when it is gone or damaged.
    func body(of entry: CacheEntry) async throws -> ResponseBody?

    /// Begins to store a response. Nothing is seen of it until the writer has committed.
    ///
    /// An entry that is larger than the store's limit, or than what pinned entries leave of it, is refused by the
    /// writer: ``CacheWriter/append(_:)`` or ``CacheWriter/commit()`` throw an error whose ``NetworkError/underlying``
    /// is a ``CacheEntryTooLarge``, and all that is stored stays.
    func writer(for entry: CacheEntry) async throws -> any CacheWriter

    /// Replaces what is kept of an entry besides its body, if it is there still: fields after a 304, the expired mark,
    /// the pin. An entry that was stored anew since it was given out stays as it is.
    func update(_ entry: CacheEntry) async throws

    /// Notes that an entry was used, for the order in which room is made and for sliding times to live.
    func touch(_ key: CacheKey, at time: Date) async throws

    /// Removes what is selected, pinned entries too, and says how much that was.
    @discardableResult
    func remove(_ selection: CacheSelection) async throws -> CacheUsage

    /// The entries that are selected, without an order; for reports and tools.
    func entries(_ selection: CacheSelection) async throws -> [CacheEntry]

    /// How much is stored.
    func usage() async throws -> CacheUsage

    /// Returns when all that was stored would survive a loss of power. Default: at once.
    func flush() async throws

    /// Makes room down to the limits and clears away what nobody refers to; says how much went.
    @discardableResult
    func collectGarbage() async throws -> CacheUsage
}

extension CacheStore {
    /// There is nothing to wait for.
    public func flush() async throws {}
}

/// Takes the body of a response that is being stored.
///
/// One task writes. A writer that is let go of without ``commit()`` leaves nothing behind.
public protocol CacheWriter: AnyObject, Sendable {
    /// Adds bytes to the body.
    func append(_ data: Data) async throws
    /// Makes the entry visible, whole, in place of any under the same key. When it returns, the entry is acknowledged:
    /// it outlives the process.
    func commit() async throws
    /// Forgets it.
    func discard() async
}

/// Which entries are meant.
public enum CacheSelection: Hashable, Sendable {
    /// All of them.
    case all
    /// Those under a key: one variant.
    case key(CacheKey)
    /// Those under a primary key: all variants.
    case primaryKey(String)
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
}
