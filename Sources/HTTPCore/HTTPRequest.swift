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
public struct HTTPRequest: Sendable {
    /// The method (RFC 9110 §9).
    public var method: HTTPMethod
    /// The address: an absolute http or https URL, or a path that the manager joins to its base URL.
    /// Spaces and non-ASCII characters are percent-encoded when sent; `%20` stays `%20`.
    public var url: String
    /// The header fields of this request. They win over the manager's.
    public var headers: HTTPHeaders
    /// The content, `nil` for none. Default `nil`.
    public var body: HTTPBody?

    /// The handle by which the transfer is held, let go on and cancelled. Every call has one, so it lies beside the
    /// options, which most leave as they are.
    package var control: TransferControl?

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
    /// key, and has to be data, a value or parameters. Default `false`: the manager's choice.
    public var cachesUnsafeMethods: Bool {
        get { options.value.cachesUnsafeMethods }
        set { options.modify { $0.cachesUnsafeMethods = newValue } }
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
        set { options.modify { $0.decompresses = newValue } }
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
        set { options.modify { $0.timeout = newValue } }
    }

    /// The longest time until a connection stands, TLS included. Default `nil`: the manager's.
    public var connectTimeout: Duration? {
        get { options.value.connectTimeout }
        set { options.modify { $0.connectTimeout = newValue } }
    }

    /// The longest silence on a standing connection, in both directions. Default `nil`: the manager's.
    public var idleTimeout: Duration? {
        get { options.value.idleTimeout }
        set { options.modify { $0.idleTimeout = newValue } }
    }

    /// Credentials for this request. Default `nil`.
    public var authentication: Authentication? {
        get { options.value.authentication }
        set { options.modify { $0.authentication = newValue } }
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
        set { options.modify { $0.version = newValue } }
    }

    /// The path of a Unix domain socket to connect to instead of the URL's host (`CURLOPT_UNIX_SOCKET_PATH`).
    /// Default `nil`: the manager's.
    public var unixSocketPath: String? {
        get { options.value.unixSocketPath }
        set { options.modify { $0.unixSocketPath = newValue } }
    }

    /// The proxy of this request. Default `nil`: the manager's.
    ///
    /// Write `ProxyPolicy.none` in full for no proxy: `.none` alone is the absence of a choice.
    public var proxy: ProxyPolicy? {
        get { options.value.proxy }
        set { options.modify { $0.proxy = newValue } }
    }

    /// The most connections to the request's host. Default `nil`: the manager's.
    public var maxConnectionsPerHost: Int? {
        get { options.value.maxConnectionsPerHost }
        set { options.modify { $0.maxConnectionsPerHost = newValue } }
    }

    /// The public keys one of which the server must have, each as `sha256//` and the base64 of the SHA-256 of its
    /// SubjectPublicKeyInfo (`CURLOPT_PINNEDPUBLICKEY`). Default none: any key that its certificate vouches for.
    public var pinnedPublicKeys: [String] {
        get { options.value.pinnedPublicKeys }
        set { options.modify { $0.pinnedPublicKeys = newValue } }
    }

    /// The largest decoded body that is accepted, in bytes. Default `nil`: the manager's limit for collected
    /// bodies, none for streams.
    public var maxBodySize: Int64? {
        get { options.value.maxBodySize }
        set { options.modify { $0.maxBodySize = newValue } }
    }

    /// Whether the response is handed over when its head is there, the body as a stream. Default `false`.
    public var streamsBody: Bool {
        get { options.value.streamsBody }
        set { options.modify { $0.streamsBody = newValue } }
    }

    /// Whether the manager's sealer seals the content. Default ``SealingPolicy/automatic``: as the row or the manager
    /// says.
    public var sealing: SealingPolicy {
        get { options.value.sealing }
        set { options.modify { $0.sealing = newValue } }
    }

    /// Called with the transfer's progress, on the engine's thread.
    package var progressHandler: (@Sendable (TransferProgress) -> Void)? {
        get { options.value.progressHandler }
        set { options.modify { $0.progressHandler = newValue } }
    }

    /// What the faces of the SDK tell the rooms of their corridor about a request. Transports do not look at it.
    package var attachment: (any Sendable)? {
        get { options.value.attachment }
        set { options.modify { $0.attachment = newValue } }
    }

    /// How the call goes along with other calls: tag, repetitions, duplicates. Transports do not look at it.
    package var flowOptions: (any Sendable)? {
        get { options.value.flowOptions }
        set { options.modify { $0.flowOptions = newValue } }
    }

    /// Whether nothing but method, URL, headers and body was set, so that the engine's short way will do.
    package var hasOnlyStandardOptions: Bool { options.isStandard }
}

/// The settings most requests leave alone, behind one pointer so that a request stays small to pass around.
private struct RequestOptions: Sendable {
    var cachePolicy: CachePolicy?
    var cachesUnsafeMethods = false
    var redirects = RedirectPolicy.automatic
    var decompresses = true
    var retries: Int?
    var timeout: Duration?
    var connectTimeout: Duration?
    var idleTimeout: Duration?
    var authentication: Authentication?
    var priority = RequestPriority.normal
    var version = HTTPVersionPolicy.automatic
    var waitsForConnectivity: Bool?
    var unixSocketPath: String?
    var proxy: ProxyPolicy?
    var maxConnectionsPerHost: Int?
    var pinnedPublicKeys: [String] = []
    var maxBodySize: Int64?
    var streamsBody = false
    var sealing = SealingPolicy.automatic
    var progressHandler: (@Sendable (TransferProgress) -> Void)?
    var attachment: (any Sendable)?
    var flowOptions: (any Sendable)?
}

/// Copy-on-write: a box that more than one request holds is never written.
private struct OptionsBox: Sendable {
    private var storage: Storage

    var value: RequestOptions { storage.value }

    var isStandard: Bool { storage === Storage.standard }

    static let standard = OptionsBox(storage: .standard)

    mutating func modify(_ change: (inout RequestOptions) -> Void) {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.value) }
        change(&storage.value)
    }

    // Sendable: `value` is written only by `modify`, and only while one reference to the storage exists.
    private final class Storage: @unchecked Sendable {
        var value: RequestOptions

        init(_ value: RequestOptions) { self.value = value }

        static let standard = Storage(RequestOptions())
    }
}
