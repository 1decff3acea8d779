import FoundationEssentials
import HTTPCore

/// The numbers and choices of a transfer, taken from the request or else the
/// engine's configuration, checked before anything starts.
struct TransferPlan: Sendable {
    /// In milliseconds; 0 stands for none.
    var timeout: Int64
    var connectTimeout: Int64
    var idleTimeout: Int64
    var maxBodySize: Int64
    var maxDecompressionRatio: Int64
    /// What is sent, ready to be sent; `nil` for no body.
    var body: PreparedBody?
    /// The header lines for libcurl, among them those that take libcurl's defaults away.
    var headerLines: [String]
    /// Whether libcurl asks for compressed bodies and takes the compression off.
    var decompresses: Bool
    /// The versions of HTTP that may be spoken.
    var version = VersionChoice.automatic
    /// The proxy on the way; `nil` for none.
    var proxy: ProxySettings.Proxy?
    /// The keys one of which the server must have, for `CURLOPT_PINNEDPUBLICKEY`.
    var pins: String?
    /// Whether it has nothing to do with the manager's cookies.
    var ignoresCookies: Bool
    /// What is sent with the manager's cookies, in one field.
    var ownCookies: String?
    /// Set when only the connection is wanted.
    var warmUp: WarmUp?
    /// The address that stands in for the origin's.
    var alternative: AlternativeService?
    var maxConnectionsPerHost: Int
    /// In bytes per second.
    var maxReceiveRate: Int64?
    var maxSendRate: Int64?
    /// Whether there is a rate of its own.
    var isLimited: Bool { maxReceiveRate != nil || maxSendRate != nil }
    var progress: (@Sendable (TransferProgress) -> Void)?
    /// Whether a setting is used that handles do not carry from one request to the next.
    var needsReset: Bool

    /// The plan of a request that sets nothing of its own.
    init(_ configuration: EngineConfiguration) {
        timeout = configuration.timeout?.roundedUpMilliseconds ?? 0
        connectTimeout = configuration.connectTimeout.roundedUpMilliseconds
        idleTimeout = configuration.idleTimeout?.roundedUpMilliseconds ?? 0
        maxBodySize = configuration.maxBodySize
        maxDecompressionRatio = Int64(configuration.maxDecompressionRatio)
        headerLines = []
        decompresses = true
        ignoresCookies = false
        maxConnectionsPerHost = configuration.maxConnectionsPerHost
        needsReset = false
    }
}

/// What a request's own settings change of the standard plan, checked.
struct TransferSettings: Sendable {
    private let timeout: Int64?
    private let connectTimeout: Int64?
    private let idleTimeout: Int64?
    private let maxBodySize: Int64?
    private let maxConnectionsPerHost: Int?
    private let pins: String?
    private let maxReceiveRate: Int64?
    private let maxSendRate: Int64?
    private let needsReset: Bool

    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the setting.
    init(_ request: HTTPRequest) throws(NetworkError) {
        timeout = try RequestCheck.milliseconds(request.timeout, "timeout") ?? (request.streamsBody ? 0 : nil)
        connectTimeout = try RequestCheck.milliseconds(request.connectTimeout, "connectTimeout")
        idleTimeout = try RequestCheck.milliseconds(request.idleTimeout, "idleTimeout")
        if let size = request.maxBodySize, size < 0 {
            throw .invalidRequest("maxBodySize is \(size); it cannot be negative")
        }
        maxBodySize = request.maxBodySize ?? (request.streamsBody ? .max : nil)
        try RequestCheck.credentials(request.authentication)
        try RequestCheck.unixSocket(request.unixSocketPath)
        try RequestCheck.rate(request.maxReceiveRate, "maxReceiveRate")
        try RequestCheck.rate(request.maxSendRate, "maxSendRate")
        (maxReceiveRate, maxSendRate) = (request.maxReceiveRate, request.maxSendRate)
        maxConnectionsPerHost = request.maxConnectionsPerHost
        if let limit = maxConnectionsPerHost, limit <= 0 { throw RequestCheck.tooFewConnections(limit) }
        pins =
            request.pinnedPublicKeys.isEmpty
            ? nil : try TLSMaterial.joined(request.pinnedPublicKeys, "pinnedPublicKeys")
        needsReset = RequestCheck.needsReset(request)
    }

    func apply(to plan: inout TransferPlan) {
        if let timeout { plan.timeout = timeout }
        if let connectTimeout { plan.connectTimeout = connectTimeout }
        if let idleTimeout { plan.idleTimeout = idleTimeout }
        if let maxBodySize { plan.maxBodySize = maxBodySize }
        if let maxConnectionsPerHost { plan.maxConnectionsPerHost = maxConnectionsPerHost }
        if let pins { plan.pins = pins }
        (plan.maxReceiveRate, plan.maxSendRate) = (maxReceiveRate, maxSendRate)
        plan.needsReset = needsReset
    }
}
