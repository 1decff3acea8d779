public import HTTPCore

/// A type that carries its own request and starts itself: any struct, class, enum or actor of the app.
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
/// A type you already have becomes one by an extension. What is sent is taken from the entity when the request is
/// started; what is changed in it later does not matter to that request. Starting an entity twice is two requests.
public protocol RequestEntity: EntityRequest {
    /// What the answer is decoded to. Default ``JSONValue``. Optional, or ``Empty``, when there may be no content.
    associatedtype Model: Decodable & Sendable = JSONValue

    /// Where the request goes.
    static var route: Route { get }

    /// The parameters. Default `nil`: the encoded properties when the type is `Encodable`, else none. Numbers stay
    /// numbers, `nil` is left out, nested values are kept.
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
    /// No parameters of its own: the encoded properties are.
    public var parameters: Parameters? { nil }

    /// No files.
    public var files: [UploadFile] { [] }

    /// Nothing of its own.
    public var options: RequestOptions { RequestOptions() }
}

/// Settings of one entity or one call; what is `nil` is taken from the rows of the table and the manager.
public struct RequestOptions: Sendable {
    /// The total timeout.
    public var timeout: Duration?
    /// Headers; `nil` values remove what the table, the provider or the manager set.
    public var headers: HTTPHeaders
    /// How a cache may take part.
    public var cachePolicy: CachePolicy?
    /// Whether the answer is stored and looked up also when the method is not GET. Default `false`.
    public var cachesUnsafeMethods = false
    /// The user whose answers are stored and found. Default `nil`: the row's or the manager's.
    public var cachePartition: String?
    /// How parameters become a body.
    public var parameterEncoding: ParameterEncoding?
    /// How often an idempotent request is repeated after a failure of the network.
    public var retries: Int?
    /// Whether redirects are followed.
    public var redirects: RedirectPolicy
    /// Credentials.
    public var authentication: Authentication?
    /// Which request is started first when several wait.
    public var priority: RequestPriority
    /// Whether the content is sealed, and by which sealer.
    public var sealing: SealingPolicy
    /// Whether the body is compressed with gzip (``HTTPRequest/compressesBody``). Default `nil`: the row's choice.
    public var compressesBody: Bool?
    /// Fields that are sent after the body. Default `nil`.
    public var trailers: RequestTrailers?
    /// The most bytes that are received in a second (``HTTPRequest/maxReceiveRate``). Default `nil`: no limit but the
    /// manager's.
    public var maxReceiveRate: Int64?
    /// The most bytes that are sent in a second (``HTTPRequest/maxSendRate``). Default `nil`: no limit but the manager's.
    public var maxSendRate: Int64?
    /// Whether the headers of the manager, the table and the provider are left out, so that only the entity's and the
    /// call's are sent.
    public var replacesGlobalHeaders: Bool
    /// Tells the server that repetitions are one request (`Idempotency-Key`). Default `nil`.
    public var idempotencyKey: String?
    /// Names a group of calls that ``CentralRequestManager/cancelRequests(_:)`` ends together. Default `nil`.
    public var tag: String?
    /// What happens when the same request is under way. Default `nil`: the manager's choice.
    public var duplicates: DuplicatePolicy?
    /// When the request is repeated. Default `nil`: the manager's policy; ``retries`` changes the number alone.
    public var retryPolicy: RetryPolicy?
    /// The longest time of the whole call, repetitions, waits and queues included. Default `nil`: the manager's.
    public var deadline: Duration?
    /// Whether the calls that are started after this one wait until it is over. Default `false`.
    public var isBarrier = false
    /// Whether the manager's ``Authenticator`` has a say. Default `true`.
    public var authenticates = true
    /// The trace the calls belong to. Default `nil`: ``TraceParent/current``.
    public var traceParent: TraceParent?

    /// Makes settings.
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

    /// Lays these settings over those of the rows: what a call says always wins.
    func apply(to request: inout HTTPRequest) {
        request.headers = headers
        if let timeout { request.timeout = timeout }
        if let cachePolicy { request.cachePolicy = cachePolicy }
        if cachesUnsafeMethods { request.cachesUnsafeMethods = true }
        if let cachePartition { request.cachePartition = cachePartition }
        if redirects != .automatic { request.redirects = redirects }
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
        if let retryPolicy {
            request.retryPolicy = retryPolicy
            request.retries = nil
        }
        if let retries { request.retries = retries }
        if let deadline { request.deadline = deadline }
        if isBarrier { request.isBarrier = true }
        if !authenticates { request.authenticates = false }
        if let traceParent { request.traceParent = traceParent }
        if let idempotencyKey { request.idempotencyKey = idempotencyKey }
    }
}
