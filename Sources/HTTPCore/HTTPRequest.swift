/// A request as a value: what to send, and how it should travel.
///
/// ```swift
/// var request = HTTPRequest("PUT", "https://api.example.org/items/7")
/// request.headers["If-Match"] = "\"v3\""
/// request.body = .data(bytes, contentType: "image/png")
/// request.timeout = .seconds(3)
/// let response = try await manager.send(request)
/// ```
///
/// Nothing is checked while the value is built. What cannot be sent (a method
/// that is no token, CR or LF in a header, a URL that is not http or https)
/// fails when it is sent, with ``NetworkError/Kind/invalidRequest``, before a
/// byte leaves. Every setting left `nil` takes the manager's value.
///
/// Two requests are equal when all of that is. A body that is produced while it is sent (a stream, a value to encode)
/// equals only its own copies.
public struct HTTPRequest: Sendable, Hashable {
    /// The method (RFC 9110 §9).
    public var method: HTTPMethod
    /// The address: an absolute http or https URL, or a path that the manager joins to its base URL.
    /// Spaces and non-ASCII characters are percent-encoded when sent; `%20` stays `%20`.
    public var url: String
    /// The header fields of this request. They win over the manager's.
    public var headers: HTTPHeaders
    /// The content, `nil` for none. Default `nil`.
    public var body: HTTPBody?

    private var options: OptionsBox

    /// Makes a request. Known methods are recognised in any case.
    public init(
        _ method: String, _ url: String, headers: HTTPHeaders = HTTPHeaders(), body: HTTPBody? = nil
    ) {
        self.method = HTTPMethod(method)
        self.url = url
        self.headers = headers
        self.body = body
        options = .standard
    }

    /// How a cache may take part. Default `nil`: the manager's policy.
    public var cachePolicy: CachePolicy? {
        get { options.value.cachePolicy }
        set { options.modify { $0.cachePolicy = newValue } }
    }

    /// Whether the answer to a method other than GET and HEAD is stored and looked up too; its body is then part of the
    /// key, and has to be data, a value or parameters. `PUT`, `PATCH` and `DELETE` go to the server all the same. Default
    /// `false`: the manager's choice.
    public var cachesUnsafeMethods: Bool {
        get { options.value.cachesUnsafeMethods }
        set { options.modify { $0.cachesUnsafeMethods = newValue } }
    }

    /// The user, or whatever else, whose answers are stored and found: those of other partitions are never used, and with a
    /// partition credentials do not tell answers apart. Default `nil`: the manager's, and without any an answer to a
    /// request with credentials is for the same ones only.
    public var cachePartition: String? {
        get { options.value.cachePartition }
        set { options.modify { $0.cachePartition = newValue } }
    }

    /// Whether redirects are followed. Default ``RedirectPolicy/automatic``: the manager's rule.
    public var redirects: RedirectPolicy {
        get { options.value.redirects }
        set { options.modify { $0.redirects = newValue } }
    }

    /// Whether gzip, br, zstd and deflate are asked for and taken off the body. Default `true`.
    /// Off, and when the request names its own `Accept-Encoding` or `Range`, the bytes arrive as sent.
    public var decompresses: Bool {
        get { options.value.decompresses }
        set { options.modifyTransfer { $0.decompresses = newValue } }
    }

    /// How often an idempotent request is repeated after a failure of the network. Default `nil`: the manager's number.
    public var retries: Int? {
        get { options.value.retries }
        set { options.modify { $0.retries = newValue } }
    }

    /// The longest time from the start of the transfer to the last byte, redirects included; waiting for a free
    /// connection does not count. Exact to the millisecond. Default `nil`: the manager's, and none for a streamed body,
    /// which may go on for as long as it moves.
    public var timeout: Duration? {
        get { options.value.timeout }
        set { options.modifyTransfer { $0.timeout = newValue } }
    }

    /// The longest time until a connection stands, TLS included. Default `nil`: the manager's.
    public var connectTimeout: Duration? {
        get { options.value.connectTimeout }
        set { options.modifyTransfer { $0.connectTimeout = newValue } }
    }

    /// The longest silence on a standing connection, in both directions. Default `nil`: the manager's.
    public var idleTimeout: Duration? {
        get { options.value.idleTimeout }
        set { options.modifyTransfer { $0.idleTimeout = newValue } }
    }

    /// Whether the body is compressed with gzip, and sent with `Content-Encoding: gzip`. Default `false`: the row's choice,
    /// else it goes as it is. Only for servers that are known to take it.
    ///
    /// A body of at most 64 KiB is compressed at once, and sent as it is when that saves nothing; a longer one while it is
    /// sent, without `Content-Length`. Left alone are multipart and sealed bodies and those of requests with a
    /// `Content-Encoding`. A signer sees the compressed body.
    public var compressesBody: Bool {
        get { options.value.compressesBody }
        set { options.modifyTransfer { $0.compressesBody = newValue } }
    }

    /// Fields that are sent after the body. Default `nil`.
    public var trailers: RequestTrailers? {
        get { options.value.trailers }
        set { options.modifyTransfer { $0.trailers = newValue } }
    }

    /// Credentials for this request. Default `nil`.
    public var authentication: Authentication? {
        get { options.value.authentication }
        set { options.modifyTransfer { $0.authentication = newValue } }
    }

    /// Which request is started first when several wait for a connection. Default ``RequestPriority/normal``.
    public var priority: RequestPriority {
        get { options.value.priority }
        set { options.modify { $0.priority = newValue } }
    }

    /// Whether the request waits for the network when no connection comes about, and is sent again when its server can be
    /// connected to. Default `nil`: the manager's choice.
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
        get { options.value.unixSocketPath }
        set { options.modifyTransfer { $0.unixSocketPath = newValue } }
    }

    /// The proxy of this request. Default `nil`: the manager's.
    ///
    /// Write `ProxyPolicy.none` in full for no proxy: `.none` alone is the absence of a choice.
    public var proxy: ProxyPolicy? {
        get { options.value.proxy }
        set { options.modifyTransfer { $0.proxy = newValue } }
    }

    /// The most connections to the request's host. Default `nil`: the manager's.
    public var maxConnectionsPerHost: Int? {
        get { options.value.maxConnectionsPerHost }
        set { options.modifyTransfer { $0.maxConnectionsPerHost = newValue } }
    }

    /// The public keys one of which the server must have, each as `sha256//` and the base64 of the SHA-256 of its
    /// SubjectPublicKeyInfo (`CURLOPT_PINNEDPUBLICKEY`). Default none: any key that its certificate vouches for.
    public var pinnedPublicKeys: [String] {
        get { options.value.pinnedPublicKeys }
        set { options.modifyTransfer { $0.pinnedPublicKeys = newValue } }
    }

    /// The largest decoded body that is accepted, in bytes. Default `nil`: the manager's limit for collected
    /// bodies, none for streams.
    public var maxBodySize: Int64? {
        get { options.value.maxBodySize }
        set { options.modifyTransfer { $0.maxBodySize = newValue } }
    }

    /// The most bytes of the body that are received in a second, in place of `CURLOPT_MAX_RECV_SPEED_LARGE`, which is
    /// coarse. The piece that crosses the limit is taken whole. Default `nil`: no limit but the manager's.
    public var maxReceiveRate: Int64? {
        get { options.value.maxReceiveRate }
        set { options.modifyTransfer { $0.maxReceiveRate = newValue } }
    }

    /// The most bytes of the body that are sent in a second, in place of `CURLOPT_MAX_SEND_SPEED_LARGE`. Default `nil`:
    /// no limit but the manager's.
    public var maxSendRate: Int64? {
        get { options.value.maxSendRate }
        set { options.modifyTransfer { $0.maxSendRate = newValue } }
    }

    /// Whether the response is handed over when its head is there, the body as a stream. Default `false`.
    public var streamsBody: Bool {
        get { options.value.streamsBody }
        set { options.modifyTransfer { $0.streamsBody = newValue } }
    }

    /// Whether the manager's sealer seals the content. Default ``SealingPolicy/automatic``: as the row or the manager
    /// says.
    public var sealing: SealingPolicy {
        get { options.value.sealing }
        set { options.modify { $0.sealing = newValue } }
    }

    /// Names a group of calls that can be cancelled together: a screen, a user, a job. Default `nil`.
    public var tag: String? {
        get { options.value.tag }
        set { options.modify { $0.tag = newValue } }
    }

    /// What happens when the same request is under way already. Default `nil`: the manager's choice.
    public var duplicates: DuplicatePolicy? {
        get { options.value.duplicates }
        set { options.modify { $0.duplicates = newValue } }
    }

    /// When the request is repeated. Default `nil`: the manager's policy; ``retries`` changes the number alone.
    public var retryPolicy: RetryPolicy? {
        get { options.value.retryPolicy }
        set { options.modify { $0.retryPolicy = newValue } }
    }

    /// The longest time of the whole call, repetitions, waits and queues included; then it fails with
    /// ``NetworkError/Kind/timeout(_:)`` of phase ``NetworkError/TimeoutPhase/deadline``. Default `nil`: the manager's.
    public var deadline: Duration? {
        get { options.value.deadline }
        set { options.modify { $0.deadline = newValue } }
    }

    /// Whether the requests that are started after this one wait until it is over, its repetitions included. Default
    /// `false`.
    public var isBarrier: Bool {
        get { options.value.isBarrier }
        set { options.modify { $0.isBarrier = newValue } }
    }

    /// Whether the manager's authenticator puts its token on the request. Default `true`.
    public var authenticates: Bool {
        get { options.value.authenticates }
        set { options.modify { $0.authenticates = newValue } }
    }

    /// The trace the request belongs to (W3C Trace Context); each attempt gets a span of its own below it. Default
    /// `nil`: ``TraceParent/current``.
    public var traceParent: TraceParent? {
        get { options.value.traceParent }
        set { options.modify { $0.traceParent = newValue } }
    }

    /// Whether only the request's own headers are sent: none of the manager, of the table's rows, of the provider.
    /// Default `false`.
    public var replacesGlobalHeaders: Bool {
        get { options.value.replacesGlobalHeaders }
        set { options.modify { $0.replacesGlobalHeaders = newValue } }
    }

    /// Header fields of the table's rows: they win over the manager's, and lose to a provider's and to ``headers``.
    package var rowHeaders: HTTPHeaders {
        get { options.value.rowHeaders }
        set { options.modify { $0.rowHeaders = newValue } }
    }

    /// The fields that the request's row declares secret, besides the manager's.
    package var secretHeaders: SecretHeaders {
        get { options.value.secretHeaders }
        set { options.modify { $0.secretHeaders = newValue } }
    }

    /// A request that has the same settings and nothing else of this one.
    package var settingsAlone: HTTPRequest {
        var request = HTTPRequest("GET", "")
        request.options = options
        return request
    }

    /// Whether the settings of two requests come from one and the same place, as those of a route's calls do.
    package func sharesSettings(with other: HTTPRequest) -> Bool { options.isSame(as: other.options) }

    /// Whether there is no setting at all besides method, URL, headers and body.
    package var hasNoSettings: Bool { options.isStandard }

    /// Tells the server that repetitions are one request, so that a `POST` may be repeated too: the field
    /// `Idempotency-Key`, the same for all attempts. Default `nil`.
    ///
    /// ```swift
    /// request.idempotencyKey = HTTPRequest.randomIdempotencyKey()
    /// ```
    public var idempotencyKey: String? {
        get { headers.hasNoFields ? nil : headers["Idempotency-Key"] }
        set { headers["Idempotency-Key"] = newValue }
    }

    /// A key that no other request has: 128 random bits in hexadecimal.
    public static func randomIdempotencyKey() -> String { Hexadecimal.random(byteCount: 16) }

    /// Whether no setting of this request concerns the transfer itself, so that the engine takes its standard plan.
    package var hasStandardTransfer: Bool { options.hasStandardTransfer }
}
