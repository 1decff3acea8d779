public import FoundationEssentials
public import HTTPCore

// swift-format-ignore
/// A stored response without its body: what was asked, what was answered, and when.
public struct CacheEntry: Sendable {
    /// One for all copies, until one of them is changed: there are many fields, and an entry goes through many hands.
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

    /// `@unchecked Sendable`: changed only while a single entry has it.
    private final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) var fields: Fields

        init(_ fields: Fields) { self.fields = fields }
    }

    private mutating func change(_ body: (inout Fields) -> Void) {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.fields) }
        body(&storage.fields)
    }

    /// What it is found by.
    public var key: CacheKey { get { storage.fields.key } set { change { $0.key = newValue } } }
    /// The method of the request.
    public var method: String { get { storage.fields.method } set { change { $0.method = newValue } } }
    /// The URL of the request, without user information and fragment.
    public var url: String { get { storage.fields.url } set { change { $0.url = newValue } } }
    /// The name of the domain's row, if the request had one.
    public var domain: String? { get { storage.fields.domain } set { change { $0.domain = newValue } } }
    /// The name of the server's row, if the request had one.
    public var server: String? { get { storage.fields.server } set { change { $0.server = newValue } } }
    /// The user whose it is; `nil` for everybody's.
    public var partition: String? { get { storage.fields.partition } set { change { $0.partition = newValue } } }

    /// The status code of the answer.
    public var status: Int { get { storage.fields.status } set { change { $0.status = newValue } } }
    /// The reason phrase of the answer.
    public var reason: String { get { storage.fields.reason } set { change { $0.reason = newValue } } }
    /// The header fields of the answer, in order, without those that must not be stored (RFC 9111 §3.1).
    public var headers: HTTPHeaders { get { storage.fields.headers } set { change { $0.headers = newValue } } }
    /// When the request was sent, by the wall clock.
    public var requestTime: Date { get { storage.fields.requestTime } set { change { $0.requestTime = newValue } } }
    /// When the answer came, by the wall clock.
    public var responseTime: Date { get { storage.fields.responseTime } set { change { $0.responseTime = newValue } } }
    /// When it was used last, by the wall clock: sliding times to live count from here.
    public var lastUse: Date { get { storage.fields.lastUse } set { change { $0.lastUse = newValue } } }
    /// Whether it was found to be expired once. A clock that is put back does not make it fresh again.
    public var isExpired: Bool { get { storage.fields.isExpired } set { change { $0.isExpired = newValue } } }
    /// Whether it is kept when room is made.
    public var isPinned: Bool { get { storage.fields.isPinned } set { change { $0.isPinned = newValue } } }
    /// The names of the request's fields that `Vary` selects, in lower case, sorted.
    public var varyFields: [String] { get { storage.fields.varyFields } set { change { $0.varyFields = newValue } } }

    /// What it can be removed by together with others, besides its URL; see ``CacheSelection/tag(_:)``.
    public var tags: [String] { get { storage.fields.tags } set { change { $0.tags = newValue } } }
    /// The time after which nobody has a use for it, so that a store may drop it; `nil` when there is no such time. A hint:
    /// a store may keep it longer, and room may have to be made before. ``MemoryStore`` and ``DiskStore`` let such entries go
    /// before others when room is made, and all of them when they collect garbage; what is pinned stays.
    public var retainUntil: Date? { get { storage.fields.retainUntil } set { change { $0.retainUntil = newValue } } }
    /// What it is a copy of, in a store that stands before another one. A store keeps it like the other fields.
    public var origin: CacheOrigin? { get { storage.fields.origin } set { change { $0.origin = newValue } } }

    /// The bytes of the body. Known once it was written.
    public var bodyByteCount: Int64 {
        get { storage.fields.bodyByteCount }
        set { change { $0.bodyByteCount = newValue } }
    }
    /// The lease under which it was fetched, on its way to the store; not kept.
    public var lease: CacheLease? { get { storage.fields.lease } set { change { $0.lease = newValue } } }

    // What a store sets when it hands an entry out, and passes over when it takes one in.

    /// Where it was found.
    public var tier: Tier { get { storage.fields.tier } set { change { $0.tier = newValue } } }
    /// Which storing it is; `nil` for one that no store has given out.
    public var version: StoredVersion? { get { storage.fields.version } set { change { $0.version = newValue } } }
    /// The whole body, where it is small and the store brought it along; else ``CacheStore/body(of:)`` gives it.
    public var attachedBody: Data? { get { storage.fields.attachedBody } set { change { $0.attachedBody = newValue } } }
    /// What the store wants to know when it is asked for the body, such as where that lies. Others pass it on.
    public var note: (any Sendable)? { get { storage.fields.note } set { change { $0.note = newValue } } }

    /// Where an entry was found.
    public enum Tier: String, Hashable, Sendable {
        /// In the memory of the process.
        case memory
        /// On disk.
        case disk
    }

    /// An entry for the answer to a request.
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
    /// As it is taken in by a store: without what a store sets.
    var bare: CacheEntry {
        var entry = self
        entry.version = nil
        entry.attachedBody = nil
        entry.note = nil
        return entry
    }

    /// Whether it can be what was asked for: a store of somebody else's may mix up keys, or lose the end of a body.
    package func isCredible(for primaryKey: String) -> Bool {
        key.primary.hasSameBytes(as: primaryKey)
            && (attachedBody.map { Int64($0.count) == bodyByteCount } ?? true)
    }

    /// What counts of it besides the body, for limits and reports: texts and fields. The same in every store.
    var headByteCount: Int64 {
        var count = key.primary.utf8.count + key.variant.utf8.count + method.utf8.count + url.utf8.count
        count += (domain?.utf8.count ?? 0) + (server?.utf8.count ?? 0) + (partition?.utf8.count ?? 0)
        count += reason.utf8.count + varyFields.reduce(0) { $0 + $1.utf8.count }
        count += tags.reduce(0) { $0 + $1.utf8.count }
        for field in headers.fields { count += field.name.utf8.count + (field.value?.utf8.count ?? 0) }
        return Int64(count)
    }

    /// The bytes of body and headers.
    var byteCount: Int64 { headByteCount + bodyByteCount }
}

/// Which storing of a response an entry is: a number that only the store understands that gave it out.
///
/// A store gives another one each time that something is stored under a key, and never the same again; an update keeps it.
/// There are 128 bits: room for a counter, a counter and the number of an epoch, or a UUID.
public struct StoredVersion: Hashable, Sendable {
    /// The number, or its first half.
    public let number: UInt64
    /// The second half.
    public let second: UInt64

    /// A version by its number.
    public init(_ number: UInt64, _ second: UInt64 = 0) {
        self.number = number
        self.second = second
    }
}

/// Of a copy in a tier: what it is a copy of.
public struct CacheOrigin: Hashable, Sendable {
    /// The storing in the store behind; `nil` when that did not take it, so that this is no copy but all there is.
    public let version: StoredVersion?
    /// How many variants the primary key had in the store behind; 0 when that is not known.
    public let variantCount: Int
    /// Which tier has made the copy: another number for each ``TieredStore`` that is made.
    public let epoch: UInt64
    /// When it was looked up there (``CopyGuard``). Not kept.
    var stamp: UInt64?

    /// A copy of a storing.
    public init(version: StoredVersion?, variantCount: Int, epoch: UInt64) {
        self.version = version
        self.variantCount = variantCount
        self.epoch = epoch
    }
}
