/// The settings that most requests leave at their defaults. A request holds them behind one pointer, so that it stays
/// small.
struct RequestOptions: Sendable, Hashable {
    var cachePolicy: CachePolicy?
    var cachesUnsafeMethods = false
    var cachePartition: ExactText?
    var redirects = RedirectPolicy.automatic
    var decompresses = true
    var retries: Int?
    var timeout: Duration?
    var connectTimeout: Duration?
    var idleTimeout: Duration?
    var compressesBody = false
    var trailers: HTTPRequest.Trailers?
    var authentication: Authentication?
    var priority = RequestPriority.normal
    var version = HTTPVersionPolicy.automatic
    var waitsForConnectivity: Bool?
    var unixSocketPath: ExactText?
    var proxy: ProxyPolicy?
    var maxConnectionsPerHost: Int?
    var pinnedPublicKeys: [String] = []
    var tls: HTTPRequest.TLS?
    var maxBodySize: Int64?
    var maxReceiveRate: Int64?
    var maxSendRate: Int64?
    var streamsBody = false
    var isLive = false
    var upgrades = false
    var opensConnection = false
    var sealing = SealingPolicy.automatic
    var tag: String?
    var duplicates: DuplicatePolicy?
    var retryPolicy: RetryPolicy?
    var deadline: Duration?
    var isBarrier = false
    var ignoresLimits = false
    var authenticator = AuthenticatorPolicy.automatic
    var traceParent: TraceParent?
    var replacesGlobalHeaders = false
    var rowHeaders = HTTPHeaders()
    var rowSecrets = Secrets()
    var hasLeftOrigin = false
    var signatureFields: Set<String> = []
    var coding: Coding?
    var acceptedStatuses: Set<Int>?
    var userInfo: [String: JSONValue] = [:]
    var observers: RequestObservers?
}

/// A copy-on-write box: storage that several requests share is never written.
struct OptionsBox: Sendable, Hashable {
    private var storage: Storage

    var value: RequestOptions { storage.value }

    var isStandard: Bool { storage === Storage.standard }

    func isSame(as other: OptionsBox) -> Bool { storage === other.storage }

    /// Whether no setting that changes the engine's plan of a transfer has been set.
    var hasStandardTransfer: Bool { !storage.concernsTransfer }

    static let standard = OptionsBox(storage: .standard)

    mutating func modify(_ change: (inout RequestOptions) -> Void) {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.value, storage.concernsTransfer) }
        change(&storage.value)
    }

    /// Changes a setting that changes the engine's plan of a transfer.
    mutating func modifyTransfer(_ change: (inout RequestOptions) -> Void) {
        modify(change)
        storage.concernsTransfer = true
    }

    static func == (lhs: OptionsBox, rhs: OptionsBox) -> Bool {
        lhs.storage === rhs.storage || lhs.value == rhs.value
    }

    func hash(into hasher: inout Hasher) { hasher.combine(value) }

    // Sendable: both properties are written only while there is a single reference to the storage. For the same reason they
    // need no checks of exclusive access, of which a call would make a dozen.
    private final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) var value: RequestOptions
        @exclusivity(unchecked) var concernsTransfer: Bool

        init(_ value: RequestOptions, _ concernsTransfer: Bool) {
            self.value = value
            self.concernsTransfer = concernsTransfer
        }

        static let standard = Storage(RequestOptions(), false)
    }
}

/// The observers of one request. A module above this one defines their type. Two lists are equal when they are the same
/// object.
package final class RequestObservers: Sendable, ComparedByIdentity {
    package let list: [any Sendable]

    package init(_ list: [any Sendable]) { self.list = list }
}

/// A class whose objects are equal when they are the same one.
package protocol ComparedByIdentity: AnyObject, Hashable {}

extension ComparedByIdentity {
    package static func == (lhs: Self, rhs: Self) -> Bool { lhs === rhs }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
