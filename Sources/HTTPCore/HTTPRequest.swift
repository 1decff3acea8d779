public import FoundationEssentials

/// A request: what to send, and how to send it.
///
/// ```swift
/// var request = HTTPRequest("PUT", "https://api.example.org/items/7")
/// request.headers["If-Match"] = "\"v3\""
/// request.body = .data(png, contentType: "image/png")
/// request.timeout = .seconds(3)
/// let response = try await manager.send(request)
/// ```
///
/// Nothing is checked while the value is built. Sending an invalid request (a
/// method that is not a token, CR or LF in a header, a URL that is not http or
/// https) fails with ``NetworkError/Kind/invalidRequest`` before any byte is
/// sent. Most settings that are `nil` take the manager's value.
///
/// Two requests are equal when all their properties are; what is sent is compared byte by byte. A body that is produced while
/// it is sent (a stream, a value to encode) equals only its own copies.
public struct HTTPRequest: Sendable, Hashable {
    /// The method (RFC 9110 §9).
    public var method: HTTPMethod
    /// An absolute http or https URL, or a path that the manager joins to its base URL.
    /// Spaces and non-ASCII characters are percent-encoded when sent; `%20` stays `%20`.
    public var url: String
    /// The header fields of this request. They take precedence over the manager's.
    public var headers: HTTPHeaders
    /// The content. Default `nil`: none.
    public var body: HTTPBody?

    private var options: OptionsBox

    /// Makes a request, by default without header fields and body. Known methods are recognised in any case.
    public init(
        _ method: String, _ url: String, headers: HTTPHeaders = HTTPHeaders(), body: HTTPBody? = nil
    ) {
        self.method = HTTPMethod(method)
        self.url = url
        self.headers = headers
        self.body = body
        options = .standard
    }

    /// Makes a request with the address as `URL`, by default without header fields and body.
    public init(_ method: String, _ url: URL, headers: HTTPHeaders = HTTPHeaders(), body: HTTPBody? = nil) {
        self.init(method, url.absoluteString, headers: headers, body: body)
    }

    /// How the cache is used. Default `nil`: the manager's policy.
    public var cachePolicy: CachePolicy? {
        get { options.value.cachePolicy }
        set { options.modify { $0.cachePolicy = newValue } }
    }

    /// Whether responses to methods other than GET and HEAD are stored and looked up too. The body is then part of the key
    /// and has to be data, a value or parameters. `PUT`, `PATCH` and `DELETE` are always sent to the server. Default
    /// `false`: the manager's choice.
    public var cachesUnsafeMethods: Bool {
        get { options.value.cachesUnsafeMethods }
        set { options.modify { $0.cachesUnsafeMethods = newValue } }
    }

    /// The part of the cache to use, for example one for each user. Responses of other partitions are never used, and
    /// within a partition credentials are not part of the key. Default `nil`: the manager's partition. Without any
    /// partition, the response to a request with credentials is used for the same credentials only.
    public var cachePartition: String? {
        get { options.value.cachePartition?.text }
        set { options.modify { $0.cachePartition = newValue.map(ExactText.init) } }
    }

    /// Whether redirects are followed. Default ``RedirectPolicy/automatic``: the manager's rule.
    public var redirects: RedirectPolicy {
        get { options.value.redirects }
        set { options.modify { $0.redirects = newValue } }
    }

    /// Whether the request asks for the content codings gzip, br and zstd, and the body is decoded. Default `true`. The
    /// body stays as received when this is `false` or the request sets its own `Accept-Encoding` or `Range`. A body that
    /// ends before its coding does is an error (``NetworkError/Kind/connectionLost``); one without a byte is empty.
    public var decompresses: Bool {
        get { options.value.decompresses }
        set { options.modifyTransfer { $0.decompresses = newValue } }
    }

    /// How often an idempotent request is repeated after a network failure. Overrides only the number of
    /// ``retryPolicy``. Default `nil`: the manager's number.
    public var retries: Int? {
        get { options.value.retries ?? options.value.retryPolicy?.retries }
        set { options.modify { $0.retries = newValue } }
    }

    /// The longest time from the start of the transfer to the last byte, redirects included, with a resolution of one
    /// millisecond. Waiting for a free connection does not count. Default `nil`: the manager's timeout, but none for a
    /// streamed body, which ``idleTimeout`` limits.
    public var timeout: Duration? {
        get { options.value.timeout }
        set { options.modifyTransfer { $0.timeout = newValue } }
    }

    /// The longest time to establish a connection, TLS included. Default `nil`: the manager's.
    public var connectTimeout: Duration? {
        get { options.value.connectTimeout }
        set { options.modifyTransfer { $0.connectTimeout = newValue } }
    }

    /// The longest time in which an established connection neither sends nor receives. Default `nil`: the manager's.
    public var idleTimeout: Duration? {
        get { options.value.idleTimeout }
        set { options.modifyTransfer { $0.idleTimeout = newValue } }
    }

    /// Whether the body is compressed and sent with `Content-Encoding: gzip`. Default `false`: the row's choice, else no
    /// compression. Use it only for servers that are known to accept it.
    ///
    /// Data of at most 64 KiB is compressed in one step, and sent unchanged when that saves nothing. Longer data, a file or
    /// a stream is compressed while it is sent, without `Content-Length`. Multipart bodies, sealed bodies, and bodies of
    /// requests with a `Content-Encoding` are never compressed. A signer sees the compressed body.
    public var compressesBody: Bool {
        get { options.value.compressesBody }
        set { options.modifyTransfer { $0.compressesBody = newValue } }
    }

    /// The fields that are sent after the body. Default `nil`: none.
    public var trailers: Trailers? {
        get { options.value.trailers }
        set { options.modifyTransfer { $0.trailers = newValue } }
    }

    /// The credentials for this request. Default `nil`: none.
    public var authentication: Authentication? {
        get { options.value.authentication }
        set { options.modifyTransfer { $0.authentication = newValue } }
    }

    /// The order in which waiting requests get a connection. Default ``RequestPriority/normal``.
    public var priority: RequestPriority {
        get { options.value.priority }
        set { options.modify { $0.priority = newValue } }
    }

    /// Whether a request that cannot connect waits for the network, and is sent again once its server is reachable.
    /// Default `nil`: the manager's choice.
    public var waitsForConnectivity: Bool? {
        get { options.value.waitsForConnectivity }
        set { options.modify { $0.waitsForConnectivity = newValue } }
    }

    /// The HTTP version to speak. Default ``HTTPVersionPolicy/automatic``.
    public var version: HTTPVersionPolicy {
        get { options.value.version }
        set { options.modifyTransfer { $0.version = newValue } }
    }

    /// The path of a Unix domain socket to connect to instead of the URL's host (`CURLOPT_UNIX_SOCKET_PATH`).
    /// Default `nil`: the manager's.
    public var unixSocketPath: String? {
        get { options.value.unixSocketPath?.text }
        set { options.modifyTransfer { $0.unixSocketPath = newValue.map(ExactText.init) } }
    }

    /// The proxy of this request. Default `nil`: the manager's.
    ///
    /// Write `ProxyPolicy.none` in full for no proxy: `.none` alone means `Optional.none`, the manager's choice.
    public var proxy: ProxyPolicy? {
        get { options.value.proxy }
        set { options.modifyTransfer { $0.proxy = newValue } }
    }

    /// The largest number of connections to the request's host. Default `nil`: the manager's.
    public var maxConnectionsPerHost: Int? {
        get { options.value.maxConnectionsPerHost }
        set { options.modifyTransfer { $0.maxConnectionsPerHost = newValue } }
    }

    /// The accepted public keys of the server, each as `sha256//` and the Base64 of the SHA-256 of its
    /// SubjectPublicKeyInfo (`CURLOPT_PINNEDPUBLICKEY`). Default empty: those of the manager (`tls.pins`), if it has any.
    public var pinnedPublicKeys: [String] {
        get { options.value.pinnedPublicKeys }
        set { options.modifyTransfer { $0.pinnedPublicKeys = newValue } }
    }

    /// The trusted authorities, client certificate and lowest version of TLS. Dropped, like ``pinnedPublicKeys``, when
    /// a redirect changes the origin. Default `nil`: the manager's.
    public var tls: TLS? {
        get { options.value.tls }
        set { options.modifyTransfer { $0.tls = newValue } }
    }

    /// The largest decoded body that is accepted, in bytes. Default `nil`: the manager's limit for collected
    /// bodies, no limit for streams.
    public var maxBodySize: Int64? {
        get { options.value.maxBodySize }
        set { options.modifyTransfer { $0.maxBodySize = newValue } }
    }

    /// The highest rate at which the body is received, in bytes per second. Used in place of
    /// `CURLOPT_MAX_RECV_SPEED_LARGE`, which is less exact. The chunk that crosses the limit is received whole. Default
    /// `nil`: only the manager's limit.
    public var maxReceiveRate: Int64? {
        get { options.value.maxReceiveRate }
        set { options.modifyTransfer { $0.maxReceiveRate = newValue } }
    }

    /// The highest rate at which the body is sent, in bytes per second. Used in place of
    /// `CURLOPT_MAX_SEND_SPEED_LARGE`. Default `nil`: only the manager's limit.
    public var maxSendRate: Int64? {
        get { options.value.maxSendRate }
        set { options.modifyTransfer { $0.maxSendRate = newValue } }
    }

    /// Whether the response is delivered as soon as its head has arrived, with the body as a stream. Default `false`.
    public var streamsBody: Bool {
        get { options.value.streamsBody }
        set { options.modifyTransfer { $0.streamsBody = newValue } }
    }

    /// Whether the connection stays open, as that of an event stream does. It does not count towards the limits of
    /// connections.
    package var isLive: Bool {
        get { options.value.isLive }
        set { options.modifyTransfer { $0.isLive = newValue } }
    }

    /// Whether the request asks for another protocol on its connection (RFC 9110 §7.8), as that of a WebSocket does. The
    /// response 101 then has an ``HTTPResponse/output``.
    package var upgrades: Bool {
        get { options.value.upgrades }
        set { options.modifyTransfer { $0.upgrades = newValue } }
    }

    /// Whether the request is sent on a new connection, which no other request uses.
    package var opensConnection: Bool {
        get { options.value.opensConnection }
        set { options.modifyTransfer { $0.opensConnection = newValue } }
    }

    /// Whether the manager's sealer seals the content. Default ``SealingPolicy/automatic``: the choice of the row or the
    /// manager.
    public var sealing: SealingPolicy {
        get { options.value.sealing }
        set { options.modify { $0.sealing = newValue } }
    }

    /// How ``HTTPBody/json(_:encoder:)`` is written and the response is decoded. Default `nil`: as the row or the manager
    /// says.
    public var coding: Coding? {
        get { options.value.coding }
        set { options.modify { $0.coding = newValue } }
    }

    /// The name of a group of calls that can be cancelled together, such as a screen, a user or a job. Default `nil`: none.
    public var tag: String? {
        get { options.value.tag }
        set { options.modify { $0.tag = newValue } }
    }

    /// What happens when an equal request is already in flight. Default `nil`: the manager's choice.
    public var duplicates: DuplicatePolicy? {
        get { options.value.duplicates }
        set { options.modify { $0.duplicates = newValue } }
    }

    /// When the request is repeated. Setting a policy discards an earlier ``retries``; a later ``retries`` changes
    /// only the policy's number. Default `nil`: the manager's policy.
    public var retryPolicy: RetryPolicy? {
        get { options.value.retryPolicy }
        set {
            options.modify {
                $0.retryPolicy = newValue
                $0.retries = nil
            }
        }
    }

    /// The longest time of the whole call, including repetitions, waits and queues. After it the call fails with
    /// ``NetworkError/Kind/timeout(_:)`` of phase ``NetworkError/TimeoutPhase/deadline``. Default `nil`: the manager's.
    public var deadline: Duration? {
        get { options.value.deadline }
        set { options.modify { $0.deadline = newValue } }
    }

    /// Whether requests that are started later wait until this one has ended, including its retries. They do not wait for
    /// the body of a stream, nor for a repetition that a `FailureResolver` asks for. Default `false`.
    public var isBarrier: Bool {
        get { options.value.isBarrier }
        set { options.modify { $0.isBarrier = newValue } }
    }

    /// Whether the request is sent without regard to the limits and circuits of the manager and its domain: it waits for
    /// none and counts towards none. Default `false`.
    public var ignoresLimits: Bool {
        get { options.value.ignoresLimits }
        set { options.modify { $0.ignoresLimits = newValue } }
    }

    /// Which of the manager's authenticators adds its token to the request. Default ``AuthenticatorPolicy/automatic``:
    /// the row's or the manager's.
    public var authenticator: AuthenticatorPolicy {
        get { options.value.authenticator }
        set { options.modify { $0.authenticator = newValue } }
    }

    /// The trace the request belongs to (W3C Trace Context). Each attempt gets its own child span. Default `nil`:
    /// ``TraceParent/current``.
    public var traceParent: TraceParent? {
        get { options.value.traceParent }
        set { options.modify { $0.traceParent = newValue } }
    }

    /// Whether only the request's own headers are sent, without those of the manager, the table's rows and the provider.
    /// Default `false`.
    public var replacesGlobalHeaders: Bool {
        get { options.value.replacesGlobalHeaders }
        set { options.modify { $0.replacesGlobalHeaders = newValue } }
    }

    /// The statuses that are a success, in place of 2xx and 304, for all calls but `send` and downloads. An authenticator
    /// still renews its token for a 401, and the success judge is still asked. Default `nil`: 2xx and 304.
    public var acceptedStatuses: Set<Int>? {
        get { options.value.acceptedStatuses }
        set { options.modify { $0.acceptedStatuses = newValue } }
    }

    /// Values for the app's own use in observers, interceptors and errors. They are not sent. Default empty.
    public var userInfo: [String: JSONValue] {
        get { options.value.userInfo }
        set { options.modify { $0.userInfo = newValue } }
    }

    /// The observers of this request alone.
    package var observers: RequestObservers? {
        get { options.value.observers }
        set { options.modify { $0.observers = newValue } }
    }

    /// The header fields of the table's rows. They take precedence over the manager's. A provider's and ``headers``
    /// take precedence over them.
    package var rowHeaders: HTTPHeaders {
        get { options.value.rowHeaders }
        set { options.modify { $0.rowHeaders = newValue } }
    }

    /// The fields that the request's row declares secret, in addition to the manager's.
    package var rowSecrets: Secrets {
        get { options.value.rowSecrets }
        set { options.modify { $0.rowSecrets = newValue } }
    }

    /// Whether a redirect has led to another origin than the one of the caller's URL.
    package var hasLeftOrigin: Bool {
        get { options.value.hasLeftOrigin }
        set { options.modify { $0.hasLeftOrigin = newValue } }
    }

    /// The names of the fields that the manager's signer has added, in lower case. Their values differ each time.
    package var signatureFields: Set<String> {
        get { options.value.signatureFields }
        set { options.modify { $0.signatureFields = newValue } }
    }

    /// Whether all properties are equal. What is sent is compared byte by byte.
    public static func == (lhs: HTTPRequest, rhs: HTTPRequest) -> Bool {
        lhs.method == rhs.method && lhs.url.hasSameBytes(as: rhs.url) && lhs.headers == rhs.headers
            && lhs.body == rhs.body && lhs.options == rhs.options
    }

    /// A request with the settings of this one and nothing else.
    package var settingsAlone: HTTPRequest {
        var request = HTTPRequest("GET", "")
        request.options = options
        return request
    }

    /// Whether two requests share the storage of their settings, as the calls of one route do.
    package func sharesSettings(with other: HTTPRequest) -> Bool { options.isSame(as: other.options) }

    /// Whether no setting besides method, URL, headers and body was ever set.
    package var hasNoSettings: Bool { options.isStandard }

    /// Whether no setting of the transfer was ever set, so that the engine uses its standard plan.
    package var hasStandardTransfer: Bool { options.hasStandardTransfer }
}
