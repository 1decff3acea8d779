/// The settings of a request, an entity, a call or a row of the table: how to send, besides what.
///
/// ```swift
/// request.timeout = .seconds(3)                                  // of a request
/// var options: RequestOptions { RequestOptions(timeout: .seconds(3), headers: ["X-Client": "demo"]) }   // of an entity
/// try await FetchUser(id: 42).setting(\.timeout, .seconds(3)).startRequest()                            // of a call
/// ```
///
/// Every setting is a property of ``Values``, and is read and written as if it were one of this type. One that is `nil`,
/// `.automatic` or empty is not set: it comes from the next level, which is the entity for a call, then the rows of the
/// table, then the manager. Copies share their storage until one of them changes.
@dynamicMemberLookup
public struct RequestOptions: Sendable, Hashable {
    @usableFromInline var storage: Storage

    // Sendable: written only while there is a single reference. For the same reason it needs no checks of exclusive access,
    // of which a call would make a dozen.
    @usableFromInline
    final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) @usableFromInline var values: Values

        @usableFromInline init(_ values: Values) { self.values = values }

        static let standard = Storage(Values())
    }

    /// Makes options in which nothing is set.
    public init() { storage = .standard }

    private init(_ values: Values) { storage = Storage(values) }

    /// Makes options; the other settings are set as properties.
    public init(
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), cachePolicy: CachePolicy? = nil,
        parameterEncoding: ParameterEncoding? = nil, retries: Int? = nil, redirects: RedirectPolicy = .automatic,
        authentication: Authentication? = nil, priority: RequestPriority? = nil,
        sealing: RequestOptions.Sealing = .automatic, replacesGlobalHeaders: Bool? = nil
    ) {
        var values = Values()
        values.timeout = timeout
        values.headers = headers
        values.cachePolicy = cachePolicy
        values.parameterEncoding = parameterEncoding
        values.retries = retries
        values.redirects = redirects
        values.authentication = authentication
        values.priority = priority
        values.sealing = sealing
        values.replacesGlobalHeaders = replacesGlobalHeaders
        self.init(values)
    }

    /// One setting.
    public subscript<Value>(dynamicMember setting: WritableKeyPath<Values, Value>) -> Value {
        @inlinable get { storage.values[keyPath: setting] }
        @inlinable _modify {
            if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.values) }
            yield &storage.values[keyPath: setting]
        }
    }

    /// Whether no setting was ever set.
    package var isStandard: Bool { storage === Storage.standard }

    /// Whether both share one storage, and so are equal.
    package func isSame(as other: RequestOptions) -> Bool { storage === other.storage }

    /// Returns these settings over those of a broader level.
    package func over(_ broader: RequestOptions) -> RequestOptions {
        if isStandard { return broader }
        if broader.isStandard { return self }
        var values = broader.storage.values
        for key in OptionKey.all { key.set(&values, storage.values) }
        return RequestOptions(values)
    }

    /// Only the settings with one of these roles.
    package func only(_ roles: OptionKey.Roles) -> RequestOptions {
        var values = Values()
        for key in OptionKey.all where !key.roles.isDisjoint(with: roles) { key.set(&values, storage.values) }
        return RequestOptions(values)
    }

    /// Whether all settings are equal; texts are compared byte by byte.
    public static func == (lhs: RequestOptions, rhs: RequestOptions) -> Bool {
        lhs.isSame(as: rhs)
            || OptionKey.all.allSatisfy { $0.areEqual(lhs.storage.values, rhs.storage.values) }
    }

    /// Hashes the settings.
    public func hash(into hasher: inout Hasher) {
        for key in OptionKey.all { key.hash(storage.values, &hasher) }
    }

    /// Every setting, declared once.
    public struct Values: Sendable {
        /// The longest time from the start of the transfer to the last byte, redirects included, with a resolution of one
        /// millisecond. Waiting for a free connection does not count. Default `nil`: the row's or the manager's, but none
        /// for a streamed body, which ``idleTimeout`` limits.
        public var timeout: Duration?
        /// The longest time to establish a connection, TLS included. Default `nil`: the row's or the manager's.
        public var connectTimeout: Duration?
        /// The longest time in which an established connection neither sends nor receives. Default `nil`: the row's or the
        /// manager's.
        public var idleTimeout: Duration?
        /// The longest time of the whole call, including repetitions, waits and queues. After it the call fails with
        /// ``NetworkError/Kind/timeout(_:)`` of phase ``NetworkError/TimeoutPhase/deadline``. Default `nil`: the manager's.
        public var deadline: Duration?
        /// Header fields of an entity or a call; a `nil` value removes the field that the table, the provider or the manager
        /// set. A request has ``HTTPRequest/headers``, which take precedence over these. Default none.
        public var headers = HTTPHeaders()
        /// Whether only the entity's and the call's own header fields are sent, without those of the manager, the rows and
        /// the provider. Default `nil`: no.
        public var replacesGlobalHeaders: Bool?
        /// How the cache is used. Default `nil`: the row's or the manager's policy.
        public var cachePolicy: CachePolicy?
        /// For ``CachePolicy/http``: how long the network may take before a stale stored response is delivered in its place. The
        /// fetch goes on and refreshes the cache. Never against `no-cache` or `must-revalidate`, and only for GET and QUERY
        /// without `Range` and conditions. Default `nil`: the row's or the manager's, else the network is waited for.
        public var staleAfter: Duration?
        /// The name under which the manager's cache adds itself to `Cache-Status` (RFC 9211) of the response, after the caches
        /// of servers; empty for not. ASCII. Default `nil`: as the row or the manager says, else not.
        public var cacheStatus: String?
        /// For ``CachePolicy/http``: whether stored responses serve as compression dictionaries for others of their origin, as
        /// their `Use-As-Dictionary` says (RFC 9842). Only over TLS or to this machine, and only for a GET whose whole response
        /// is decoded. Default `nil`: as the row or the manager says, else not.
        public var usesDictionaries: Bool?
        /// Whether responses to methods other than GET and HEAD are stored and looked up too. The body is then part of the
        /// key and has to be data, a value or parameters. `PUT`, `PATCH` and `DELETE` are always sent to the server. Default
        /// `nil`: the manager's choice.
        public var cachesUnsafeMethods: Bool?
        /// The part of the cache to use, for example one for each user. Responses of other partitions are never used, and
        /// within a partition credentials are not part of the key. Default `nil`: the row's or the manager's. Without any
        /// partition, the response to a request with credentials is used for the same credentials only.
        public var cachePartition: String?
        /// How parameters are encoded as a body. Default `nil`: as the row or the manager says.
        public var parameterEncoding: ParameterEncoding?
        /// How parameters and ``HTTPBody/json(_:encoder:)`` are written and the response is read. Default `nil`: as the row
        /// or the manager says.
        public var coding: Coding?
        /// When the request is repeated. Setting a policy sets ``retries`` to its number; a later ``retries`` changes only
        /// the number. Default `nil`: the policy of the row or the manager.
        public var retryPolicy: RetryPolicy? { didSet { retries = retryPolicy?.retries } }
        /// How often the request is repeated, in place of the number of ``retryPolicy``. Default `nil`: the number of the
        /// row or the manager.
        public var retries: Int?
        /// When the request is sent a second time because it takes long. Default `nil`: as the row or the manager says.
        public var hedge: RequestOptions.Hedge?
        /// Whether redirects are followed. Default ``RedirectPolicy/automatic``: the row's or the manager's rule.
        public var redirects = RedirectPolicy.automatic
        /// Whether the request asks for the manager's `contentCodings`, and the body is decoded. Default `nil`: yes.
        /// The body stays as received when this is `false` or the request sets its own `Accept-Encoding` or `Range`. A body
        /// that ends before its coding does is an error (``NetworkError/Kind/connectionLost``); one without a byte is empty.
        public var decompresses: Bool?
        /// The coding in which the body is sent (`Content-Encoding`). Default `nil`: the row's choice, else none. Use it only
        /// for servers that are known to accept it.
        ///
        /// Data of at most 64 KiB is coded in one step, and sent unchanged when that saves nothing. Longer data, a file or a
        /// stream is coded while it is sent, without `Content-Length`. Multipart bodies, sealed bodies, and bodies of requests
        /// with a `Content-Encoding` are never coded. A signer sees the coded body.
        public var contentCoding: ContentCoding?
        /// What is done with digest fields (RFC 9530). Default: the digests of a response are checked, and none is sent.
        public var digests = RequestOptions.Digests()
        /// The fields that are sent after the body. Default `nil`: none.
        public var trailers: HTTPRequest.Trailers?
        /// The credentials. Default `nil`: none.
        public var authentication: Authentication?
        /// Which of the manager's authenticators adds its token. Default ``RequestOptions/AuthenticatorChoice/automatic``:
        /// the row's or the manager's.
        public var authenticator = RequestOptions.AuthenticatorChoice.automatic
        /// Whether the content is sealed, and by which of the manager's sealers. Default
        /// ``RequestOptions/Sealing/automatic``: the choice of the row or the manager.
        public var sealing = RequestOptions.Sealing.automatic
        /// Which of the manager's signers signs the request. Default ``RequestOptions/SignerChoice/automatic``: the row's or
        /// the manager's.
        public var signer = RequestOptions.SignerChoice.automatic
        /// The order in which waiting requests get a connection. Default `nil`: ``RequestPriority/normal``.
        public var priority: RequestPriority?
        /// Whether a request that cannot connect waits for the network, and is sent again once its server is reachable.
        /// Default `nil`: the manager's choice.
        public var waitsForConnectivity: Bool?
        /// The HTTP version to speak. Default ``HTTPVersionPolicy/automatic``: the manager's.
        public var version = HTTPVersionPolicy.automatic
        /// The path of a Unix domain socket to connect to instead of the URL's host (`CURLOPT_UNIX_SOCKET_PATH`). Default
        /// `nil`: the manager's.
        public var unixSocketPath: String?
        /// The proxy; ``ProxyPolicy/direct`` for none. Default `nil`: the row's or the manager's.
        public var proxy: ProxyPolicy?
        /// The largest number of connections to the request's host. Default `nil`: the row's or the manager's.
        public var maxConnectionsPerHost: Int?
        /// Which address of a name a new connection goes to. Default `nil`: as the row or the manager says.
        public var addresses: RequestOptions.Addresses?
        /// The trusted authorities, client certificate, lowest version of TLS and pins. Each that is `nil`, the default, comes
        /// from the row or the manager. Dropped when a redirect changes the origin.
        public var tls = HTTPRequest.TLS()
        /// The largest decoded body that is accepted, in bytes. Default `nil`: the manager's limit for collected bodies, no
        /// limit for streams.
        public var maxBodySize: Int64?
        /// The highest rate at which the body is received, in bytes per second. Used in place of
        /// `CURLOPT_MAX_RECV_SPEED_LARGE`, which is less exact. The chunk that crosses the limit is received whole. Default
        /// `nil`: only the manager's limit.
        public var maxReceiveRate: Int64?
        /// The highest rate at which the body is sent, in bytes per second. Used in place of `CURLOPT_MAX_SEND_SPEED_LARGE`.
        /// Default `nil`: only the manager's limit.
        public var maxSendRate: Int64?
        /// Whether the response is delivered as soon as its head has arrived, with the body as a stream. Default `nil`: no.
        public var streamsBody: Bool?
        /// The statuses that are a success, in place of 2xx and 304, for all calls but `send` and downloads. A part of the content
        /// that was not asked for is none, whatever its status. An authenticator still renews its token for a 401, and the success
        /// judge is still asked. Default `nil`: 2xx and 304.
        public var acceptedStatuses: Set<Int>?
        /// The name of a group of calls that can be cancelled together, such as a screen, a user or a job. Default `nil`:
        /// none.
        public var tag: String?
        /// What happens when an equal request is already in flight. Default `nil`: the manager's choice.
        public var duplicates: DuplicatePolicy?
        /// Whether requests that are started later wait until this one has ended, including its retries. They do not wait
        /// for the body of a stream, nor for a repetition that a `FailureResolver` asks for. Default `nil`: no.
        public var isBarrier: Bool?
        /// Whether the request is sent without regard to the limits and circuits of the manager and its domain: it waits for
        /// none and counts towards none. Default `nil`: no.
        public var ignoresLimits: Bool?
        /// The faults that are made on purpose, for tests in staging. Default `nil`: those of the row or the manager, else none.
        public var chaos: RequestOptions.Chaos?
        /// The trace the request belongs to (W3C Trace Context). Each attempt gets its own child span. Default `nil`:
        /// ``TraceParent/current``.
        public var traceParent: TraceParent?
        /// Values for the app's own use in observers, interceptors and errors. They are not sent. Default empty.
        public var userInfo: [String: JSONValue] = [:]
        /// The observers of this request alone.
        package var observers: RequestObservers?

        init() {}
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
