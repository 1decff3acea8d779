public import FoundationEssentials
public import HTTPCore

// swift-format-ignore
/// A stored response without its body: the request's identity, the response's head, and their times.
public struct CacheEntry: Sendable {
    /// Shared by all copies until one is changed (copy-on-write), since an entry has many fields and is often copied.
    private var storage: Storage

    private struct Fields: Sendable {
        var key: CacheKey
        var method: String
        var url: String
        var domain: String?
        var server: String?
        var partition: String?
        var status: Int
        var reason: String
        var headers: HTTPHeaders
        var requestTime: Date
        var responseTime: Date
        var lastUse: Date
        var isExpired = false
        var isPinned = false
        var varyFields: [String] = []
        var tags: [String] = []
        var retainUntil: Date?
        var origin: CacheOrigin?
        var bodyByteCount: Int64 = 0
        var lease: CacheLease?
        var tier = Tier.memory
        var version: StoredVersion?
        var attachedBody: Data?
        var note: (any Sendable)?
    }

    /// `@unchecked Sendable`: changed only while exactly one entry references it.
    private final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) var fields: Fields

        init(_ fields: Fields) { self.fields = fields }
    }

    private mutating func change(_ body: (inout Fields) -> Void) {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.fields) }
        body(&storage.fields)
    }

    /// The key that it is stored under.
    public var key: CacheKey { get { storage.fields.key } set { change { $0.key = newValue } } }
    /// The method of the request.
    public var method: String { get { storage.fields.method } set { change { $0.method = newValue } } }
    /// The URL of the request, without user information and fragment.
    public var url: String { get { storage.fields.url } set { change { $0.url = newValue } } }
    /// The name of the domain's row, if the request had one.
    public var domain: String? { get { storage.fields.domain } set { change { $0.domain = newValue } } }
    /// The name of the server's row, if the request had one.
    public var server: String? { get { storage.fields.server } set { change { $0.server = newValue } } }
    /// The user to whom it belongs; `nil` for all users.
    public var partition: String? { get { storage.fields.partition } set { change { $0.partition = newValue } } }

    /// The status code of the response.
    public var status: Int { get { storage.fields.status } set { change { $0.status = newValue } } }
    /// The reason phrase of the response.
    public var reason: String { get { storage.fields.reason } set { change { $0.reason = newValue } } }
    /// The header fields of the response, in order, without those that must not be stored (RFC 9111 §3.1).
    public var headers: HTTPHeaders { get { storage.fields.headers } set { change { $0.headers = newValue } } }
    /// When the request was sent, by the wall clock.
    public var requestTime: Date { get { storage.fields.requestTime } set { change { $0.requestTime = newValue } } }
    /// When the response was received, by the wall clock.
    public var responseTime: Date { get { storage.fields.responseTime } set { change { $0.responseTime = newValue } } }
    /// When it was last used, by the wall clock. Sliding times to live start here.
    public var lastUse: Date { get { storage.fields.lastUse } set { change { $0.lastUse = newValue } } }
    /// Whether it was found expired. Setting the clock back does not make it fresh again. Default: `false`.
    public var isExpired: Bool { get { storage.fields.isExpired } set { change { $0.isExpired = newValue } } }
    /// Whether it is exempt from eviction. Default: `false`.
    public var isPinned: Bool { get { storage.fields.isPinned } set { change { $0.isPinned = newValue } } }
    /// The names of the request fields that select it (`Vary`), in lower case, sorted.
    public var varyFields: [String] { get { storage.fields.varyFields } set { change { $0.varyFields = newValue } } }

    /// The tags by which it can be removed together with others; see ``CacheSelection/tag(_:)``.
    public var tags: [String] { get { storage.fields.tags } set { change { $0.tags = newValue } } }
    /// The time after which it is of no use, so that a store may drop it; `nil`, the default, for no such time.
    ///
    /// It is a hint: a store may keep the entry longer or evict it earlier. ``MemoryStore`` and ``DiskStore`` evict such
    /// entries before others and remove all of them when they collect garbage, except pinned ones.
    public var retainUntil: Date? { get { storage.fields.retainUntil } set { change { $0.retainUntil = newValue } } }
    /// What it is a copy of, in the upper store of a ``TieredStore``. A store keeps it like the other fields.
    public var origin: CacheOrigin? { get { storage.fields.origin } set { change { $0.origin = newValue } } }

    /// The length of the body in bytes, known once the body was written.
    public var bodyByteCount: Int64 {
        get { storage.fields.bodyByteCount }
        set { change { $0.bodyByteCount = newValue } }
    }
    /// The lease under which it was fetched. It is passed to the store but not stored.
    public var lease: CacheLease? { get { storage.fields.lease } set { change { $0.lease = newValue } } }

    // A store sets the following when it returns an entry, and ignores them when it stores one.

    /// Where it was found.
    public var tier: Tier { get { storage.fields.tier } set { change { $0.tier = newValue } } }
    /// The version of the stored entry; `nil` for an entry that no store has returned.
    public var version: StoredVersion? { get { storage.fields.version } set { change { $0.version = newValue } } }
    /// The complete body, if it is small and the store returned it with the entry; else see ``CacheStore/body(of:)``.
    public var attachedBody: Data? { get { storage.fields.attachedBody } set { change { $0.attachedBody = newValue } } }
    /// The store's own data for ``CacheStore/body(of:)``, such as the location of the body. Callers pass it back
    /// unchanged.
    public var note: (any Sendable)? { get { storage.fields.note } set { change { $0.note = newValue } } }

    /// Where an entry was found.
    public enum Tier: String, Hashable, Sendable {
        /// In the memory of the process.
        case memory
        /// On disk.
        case disk
        /// In a store that other machines share.
        case remote
    }

    /// Creates an entry for the response to a request. The reason phrase is empty by default.
    public init(
        key: CacheKey, method: String, url: String, status: Int, reason: String = "", headers: HTTPHeaders,
        requestTime: Date, responseTime: Date
    ) {
        storage = Storage(
            Fields(
                key: key, method: method, url: url, status: status, reason: reason, headers: headers,
                requestTime: requestTime, responseTime: responseTime, lastUse: responseTime))
    }
}

extension CacheEntry {
    /// The entry without its version, attached body and note, which a store sets.
    var bare: CacheEntry {
        var entry = self
        entry.version = nil
        entry.attachedBody = nil
        entry.note = nil
        return entry
    }

    /// How many unpinned variants of a primary key are kept. Each look-up reads all of them, and a field that differs in each
    /// request would make one for each.
    static let variantLimit = 64

    /// When the origin made the response, by the origin's clock (`Date`); `nil` without that field.
    package var originTime: Date? { headers.date }

    /// Whether the response was made after another one: by the origin's clock if both times are known and differ, since the
    /// clocks of the receiving machines may differ, else by the times at which the responses were received.
    func isNewer(than other: CacheEntry) -> Bool {
        if let time = originTime, let otherTime = other.originTime, time != otherTime { return time > otherTime }
        return responseTime > other.responseTime
    }

    /// Whether the entry can be the result of a look-up. A store of the app's own may mix up keys or truncate a body.
    package func isCredible(for primaryKey: String) -> Bool {
        key.primary.hasSameBytes(as: primaryKey)
            && (attachedBody.map { Int64($0.count) == bodyByteCount } ?? true)
    }

    /// The bytes of strings and header fields, which limits and reports of all stores count in addition to the body.
    var headByteCount: Int64 {
        var count = key.primary.utf8.count + key.variant.utf8.count + method.utf8.count + url.utf8.count
        count += (domain?.utf8.count ?? 0) + (server?.utf8.count ?? 0) + (partition?.utf8.count ?? 0)
        count += reason.utf8.count + varyFields.reduce(0) { $0 + $1.utf8.count }
        count += tags.reduce(0) { $0 + $1.utf8.count }
        for field in headers.fields { count += field.name.utf8.count + (field.value?.utf8.count ?? 0) }
        return Int64(count)
    }

    var byteCount: Int64 { headByteCount + bodyByteCount }
}

/// The version of a stored entry: a number with a meaning only to its store.
///
/// A store makes a new version each time it stores under a key and never reuses one. An update keeps the version. It has
/// 128 bits, enough for a counter with an epoch or for a UUID.
public struct StoredVersion: Hashable, Sendable {
    /// The number, or its first half.
    public let number: UInt64
    /// The second half.
    public let second: UInt64

    /// Creates a version with a number. The second half is 0 by default.
    public init(_ number: UInt64, _ second: UInt64 = 0) {
        self.number = number
        self.second = second
    }
}

/// What an entry in the upper store of a ``TieredStore`` is a copy of.
public struct CacheOrigin: Hashable, Sendable {
    /// The version in the lower store; `nil` when the lower store did not take the entry, so that only the upper one
    /// has it.
    public let version: StoredVersion?
    /// How many variants the primary key had in the lower store; 0 when that is not known.
    public let variantCount: Int
    /// The ``TieredStore`` object that made the copy; each has its own number.
    public let epoch: UInt64
    /// The ``CopyGuard`` number at the look-up in the lower store. Not stored.
    var stamp: UInt64?

    /// Creates the origin of a copy.
    public init(version: StoredVersion?, variantCount: Int, epoch: UInt64) {
        self.version = version
        self.variantCount = variantCount
        self.epoch = epoch
    }
}

/// The error of a store that has no room for an entry, even if it evicted all unpinned ones.
///
/// This is not a failure of the store. A ``CacheWriter`` throws it as the `NetworkError.underlying` error of a
/// `NetworkError` of kind `NetworkError.Kind.cache`.
public struct CacheEntryTooLarge: Error, Hashable {
    /// The bytes of body and headers received so far.
    public let byteCount: Int64
    /// The maximum number of bytes that the store would have accepted.
    public let limit: Int64

    /// Creates an error for an entry of `byteCount` bytes where `limit` are allowed.
    public init(byteCount: Int64, limit: Int64) {
        self.byteCount = byteCount
        self.limit = limit
    }

    var error: NetworkError {
        NetworkError(
            .cache,
            message: "the response of at least \(byteCount) bytes is not stored: the cache accepts \(limit) at most; "
                + "raise its limit or unpin entries",
            underlying: self)
    }
}

/// The key of a stored response: digests of what identifies a request, which reveal no secrets.
///
/// Keys are compared byte by byte, unlike strings, which are equal if they are canonically equivalent.
public struct CacheKey: Sendable {
    /// The digest of method, URL, parameters, body, partition and schema version: 64 hexadecimal digits.
    public let primary: String
    /// The digest of what else selects the response: the request fields that `Vary` names (RFC 9111 §4.1), the
    /// credentials, and whether a coded body is decoded; empty when nothing else selects it.
    public var variant: String

    /// Creates a key from its parts. The variant is empty by default.
    public init(primary: String, variant: String = "") {
        self.primary = primary
        self.variant = variant
    }
}

extension String {
    /// The group of a primary key among `count` groups, which must be a power of two.
    func index(among count: Int) -> Int {
        var hasher = Hasher()
        hashBytes(into: &hasher)
        return Int(truncatingIfNeeded: UInt(bitPattern: hasher.finalize())) & (count - 1)
    }
}

extension CacheKey: Hashable {
    /// Whether the bytes of both parts are the same.
    public static func == (a: CacheKey, b: CacheKey) -> Bool {
        a.primary.hasSameBytes(as: b.primary) && a.variant.hasSameBytes(as: b.variant)
    }

    /// Hashes the bytes of both parts.
    public func hash(into hasher: inout Hasher) {
        primary.hashBytes(into: &hasher)
        variant.hashBytes(into: &hasher)
    }
}
