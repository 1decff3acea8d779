public import HTTPCore

/// A type that describes its own request and can start it: any struct, class, enum or actor of the app.
///
/// ```swift
/// struct FetchUser: RequestEntity, Encodable {
///     typealias Model = User                                   // leave it out and Model is JSONValue
///     static let route = Route("GET", server: "user.detail")
///     var id: Int                                              // goes into {id} of the path, or into the parameters
/// }
/// let user = try await FetchUser(id: 42).startRequest()
/// ```
///
/// An extension makes an existing type an entity. The entity is read when the request is started; later changes do not
/// affect that request. Starting an entity twice sends two requests.
public protocol RequestEntity: EntityRequest {
    /// The type that the response is decoded to. Default ``JSONValue``. If it is an optional or ``Empty``, the response may
    /// have no content.
    associatedtype Model: Decodable & Sendable = JSONValue

    /// Where the request goes: a row of the table, a domain with a path, or a URL.
    static var route: Route { get }

    /// The parameters. Default `nil`: the encoded properties when the type is `Encodable`, otherwise none. Numbers stay
    /// numbers, `nil` properties are left out unless the type encodes them itself (`encode(nil, forKey:)`), nested values are
    /// kept. A body without other members is `{}`.
    var parameters: Parameters? { get }

    /// Files of a multipart request. Default none.
    var files: [UploadFile] { get }

    /// The entity's own settings: headers, timeout, cache policy and the rest. Default none.
    ///
    /// ```swift
    /// var options: RequestOptions { RequestOptions(timeout: .seconds(5), headers: ["X-Client": "demo"]) }
    /// ```
    var options: RequestOptions { get }
}

extension RequestEntity {
    /// `nil`: the encoded properties are the parameters.
    public var parameters: Parameters? { nil }

    /// No files.
    public var files: [UploadFile] { [] }

    /// No settings.
    public var options: RequestOptions { RequestOptions() }

    /// A call with the current values of this entity.
    public var call: EntityCall<Model> { EntityCall(self) }
}

/// The settings of one entity or one call: every setting of an ``HTTPRequest``. One that is `nil` comes from the rows of the
/// table or the manager.
public struct RequestOptions: Sendable {
    /// The total timeout. Default `nil`.
    public var timeout: Duration?
    /// The time limit for connecting, TLS included. Default `nil`.
    public var connectTimeout: Duration?
    /// The longest time without data on an open connection. Default `nil`.
    public var idleTimeout: Duration?
    /// Header fields; a `nil` value removes the field that the table, the provider or the manager set. Default none.
    public var headers: HTTPHeaders
    /// How the cache is used. Default `nil`.
    public var cachePolicy: CachePolicy?
    /// Whether responses to methods other than GET and HEAD are stored and looked up too; never those to `PUT`, `PATCH` and
    /// `DELETE`. Default `false`.
    public var cachesUnsafeMethods = false
    /// The user whose responses are stored and found. Default `nil`: the row's or the manager's.
    public var cachePartition: String?
    /// How parameters are encoded as a body. Default `nil`.
    public var parameterEncoding: ParameterEncoding?
    /// How parameters are written and the response is read. Default `nil`: as the rows and the manager say.
    public var coding: Coding?
    /// How often an idempotent request is retried after a network failure, in place of the number of ``retryPolicy``. Default
    /// `nil`.
    public var retries: Int?
    /// Whether redirects are followed. Default ``RedirectPolicy/automatic``.
    public var redirects: RedirectPolicy
    /// Whether compressed bodies are asked for and decoded (``HTTPRequest/decompresses``). Default `nil`: they are.
    public var decompresses: Bool?
    /// The largest decoded body that is accepted, in bytes (``HTTPRequest/maxBodySize``). Default `nil`.
    public var maxBodySize: Int64?
    /// Whether the call waits for the network when it cannot connect (``HTTPRequest/waitsForConnectivity``). Default `nil`.
    public var waitsForConnectivity: Bool?
    /// The HTTP version. Default `nil`: the manager's.
    public var version: HTTPVersionPolicy?
    /// The Unix domain socket to connect to instead of the URL's host. Default `nil`.
    public var unixSocketPath: String?
    /// The proxy. Write `ProxyPolicy.none` in full for no proxy. Default `nil`.
    public var proxy: ProxyPolicy?
    /// The largest number of connections to the host. Default `nil`.
    public var maxConnectionsPerHost: Int?
    /// Authorities, client certificate and oldest version of TLS. Each that is `nil`, the default, comes from the row or
    /// the manager.
    public var tls = HTTPRequest.TLS()
    /// The accepted public keys of the server (``HTTPRequest/pinnedPublicKeys``); empty for those of the manager alone,
    /// whatever the row says. Default `nil`.
    public var pinnedPublicKeys: [String]?
    /// The credentials. Default `nil`.
    public var authentication: Authentication?
    /// The priority: waiting requests of a higher priority start first. Default ``RequestPriority/normal``.
    public var priority: RequestPriority
    /// Whether the content is sealed, and by which sealer. Default ``SealingPolicy/automatic``.
    public var sealing: SealingPolicy
    /// Whether the body is compressed with gzip (``HTTPRequest/compressesBody``). Default `nil`: the row's choice.
    public var compressesBody: Bool?
    /// Fields that are sent after the body. Default `nil`.
    public var trailers: HTTPRequest.Trailers?
    /// The most bytes received per second (``HTTPRequest/maxReceiveRate``). Default `nil`: the manager's limit.
    public var maxReceiveRate: Int64?
    /// The most bytes sent per second (``HTTPRequest/maxSendRate``). Default `nil`: the manager's limit.
    public var maxSendRate: Int64?
    /// Whether the headers of manager, table and provider are left out of the request. Default `false`.
    public var replacesGlobalHeaders: Bool
    /// The `Idempotency-Key`, by which the server recognizes a retry as the same request. Default `nil`.
    public var idempotencyKey: String?
    /// Names a group of calls that ``CentralRequestManager/cancelRequests(_:)`` ends together. Default `nil`.
    public var tag: String?
    /// What happens when an equal request is running. Default `nil`: the manager's choice.
    public var duplicates: DuplicatePolicy?
    /// When the request is retried. Setting a policy discards an earlier ``retries``; a later ``retries`` changes
    /// only the policy's number. Default `nil`: the policy of the row or the manager.
    public var retryPolicy: RetryPolicy? { didSet { retries = nil } }
    /// The time limit of the whole call, including retries, waits and queues. Default `nil`: the manager's.
    public var deadline: Duration?
    /// Whether the calls that are started after this one wait until it has ended. Default `false`.
    public var isBarrier = false
    /// Whether the request ignores limits and circuits (``HTTPRequest/ignoresLimits``). Default `false`.
    public var ignoresLimits = false
    /// Which ``Authenticator`` is used. Default ``AuthenticatorPolicy/automatic``: the row's or the manager's.
    public var authenticator = AuthenticatorPolicy.automatic
    /// The trace that the calls belong to. Default `nil`: ``TraceParent/current``.
    public var traceParent: TraceParent?
    /// The statuses that are a success (``HTTPRequest/acceptedStatuses``). Default `nil`: 2xx and 304.
    public var acceptedStatuses: Set<Int>?
    /// What the app wants to find again in observers and errors (``HTTPRequest/userInfo``). Default empty.
    public var userInfo: [String: JSONValue] = [:]
    /// The observers of these calls alone, called after the manager's. Default none.
    public var accessories: [any RequestAccessory] = []

    /// Creates settings.
    public init(
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), cachePolicy: CachePolicy? = nil,
        parameterEncoding: ParameterEncoding? = nil, retries: Int? = nil, redirects: RedirectPolicy = .automatic,
        authentication: Authentication? = nil, priority: RequestPriority = .normal,
        sealing: SealingPolicy = .automatic, replacesGlobalHeaders: Bool = false
    ) {
        self.timeout = timeout
        self.headers = headers
        self.cachePolicy = cachePolicy
        self.parameterEncoding = parameterEncoding
        self.retries = retries
        self.redirects = redirects
        self.authentication = authentication
        self.priority = priority
        self.sealing = sealing
        self.replacesGlobalHeaders = replacesGlobalHeaders
    }

    /// Applies these settings to a request; they override those of the rows.
    func apply(to request: inout HTTPRequest) {
        request.headers = headers
        if let timeout { request.timeout = timeout }
        if let connectTimeout { request.connectTimeout = connectTimeout }
        if let idleTimeout { request.idleTimeout = idleTimeout }
        if let cachePolicy { request.cachePolicy = cachePolicy }
        if cachesUnsafeMethods { request.cachesUnsafeMethods = true }
        if let cachePartition { request.cachePartition = cachePartition }
        if redirects != .automatic { request.redirects = redirects }
        if let decompresses { request.decompresses = decompresses }
        if let maxBodySize { request.maxBodySize = maxBodySize }
        if let waitsForConnectivity { request.waitsForConnectivity = waitsForConnectivity }
        if let version { request.version = version }
        if let unixSocketPath { request.unixSocketPath = unixSocketPath }
        if let proxy { request.proxy = proxy }
        if let maxConnectionsPerHost { request.maxConnectionsPerHost = maxConnectionsPerHost }
        if !tls.isEmpty { request.tls = tls.over(request.tls) }
        if let pinnedPublicKeys { request.pinnedPublicKeys = pinnedPublicKeys }
        if let authentication { request.authentication = authentication }
        if priority != .normal { request.priority = priority }
        if sealing != .automatic { request.sealing = sealing }
        if let compressesBody { request.compressesBody = compressesBody }
        if let trailers { request.trailers = trailers }
        if let maxReceiveRate { request.maxReceiveRate = maxReceiveRate }
        if let maxSendRate { request.maxSendRate = maxSendRate }
        if replacesGlobalHeaders { request.replacesGlobalHeaders = true }
        if let tag { request.tag = tag }
        if let duplicates { request.duplicates = duplicates }
        if let retryPolicy { request.retryPolicy = retryPolicy }
        if let retries { request.retries = retries }
        if let deadline { request.deadline = deadline }
        if isBarrier { request.isBarrier = true }
        if ignoresLimits { request.ignoresLimits = true }
        if authenticator != .automatic { request.authenticator = authenticator }
        if let traceParent { request.traceParent = traceParent }
        if let idempotencyKey { request.idempotencyKey = idempotencyKey }
        if let acceptedStatuses { request.acceptedStatuses = acceptedStatuses }
        if !userInfo.isEmpty { request.userInfo = userInfo }
        if !accessories.isEmpty { request.accessories = accessories }
    }
}
