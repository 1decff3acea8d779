import CLibcurl
internal import HTTPCore

/// The checked settings of a transfer, from the request or else from the
/// engine's configuration.
struct TransferPlan: Sendable {
    /// In milliseconds; 0 for none.
    var timeout: Int64
    var connectTimeout: Int64
    var idleTimeout: Int64
    var maxBodySize: Int64
    var maxDecompressionRatio: Int64
    var body: PreparedBody?
    /// The header lines for libcurl, including those that remove libcurl's defaults.
    var headerLines: [String] = []
    /// The dictionary that the header lines offer.
    var dictionary: CompressionDictionary?
    /// Whether compressed bodies are requested and decoded.
    var decompresses = true
    /// Whether bodies are compared with the digests of their responses.
    var checksDigests = true
    var version = VersionChoice.automatic
    var proxy: ProxySettings.Proxy?
    /// The accepted public keys, for `CURLOPT_PINNEDPUBLICKEY`.
    var pins: String?
    /// The TLS settings, if they are not those that the engine was made with.
    var tls: TLSMaterial?
    /// Whether the manager's cookies are neither sent nor changed.
    var ignoresCookies = false
    /// The request's own cookies, sent in one field with the manager's.
    var ownCookies: String?
    /// Set for a transfer that only opens a connection.
    var warmUp: WarmUp?
    /// The alternative service used instead of the origin.
    var alternative: AlternativeService?
    var maxConnectionsPerHost: Int
    /// Which address a new connection goes to; `nil` if libcurl chooses.
    var addresses: RequestOptions.Addresses?
    /// In bytes per second.
    var maxReceiveRate: Int64?
    var maxSendRate: Int64?
    /// Whether it runs in the multi handle of live connections, which have no limits (``EngineServices/live``).
    var isLive = false
    /// Whether the handle has to be reset afterwards, because of options that it does not track.
    var needsReset = false

    /// Makes the plan of a request without settings of its own.
    init(_ configuration: EngineConfiguration) {
        timeout = configuration.timeout?.roundedUpMilliseconds ?? 0
        connectTimeout = configuration.connectTimeout.roundedUpMilliseconds
        idleTimeout = configuration.idleTimeout?.roundedUpMilliseconds ?? 0
        maxBodySize = configuration.maxBodySize
        maxDecompressionRatio = Int64(configuration.maxDecompressionRatio)
        maxConnectionsPerHost = configuration.maxConnectionsPerHost
        addresses = configuration.addresses.choice
    }

    /// Offers a dictionary to the server (RFC 9842 §2.2, §6.1). A stage or an interceptor may have sent the request to another origin.
    mutating func offer(_ dictionary: CompressionDictionary, with request: HTTPRequest) {
        guard decompresses, dictionary.isFor(request), ZstdLibrary.shared != nil,
            let place = headerLines.firstIndex(where: { $0.hasPrefix("Accept-Encoding:") })
        else { return }
        self.dictionary = dictionary
        headerLines[place] += ", \(DictionaryDecoder.name)"
        headerLines += dictionary.fields.map { "\($0.name): \($0.value)" }
    }
}

/// A request's own checked settings, which override the standard plan.
struct TransferSettings: Sendable {
    private let timeout: Int64?
    private let connectTimeout: Int64?
    private let idleTimeout: Int64?
    private let maxBodySize: Int64?
    private let maxConnectionsPerHost: Int?
    private let addresses: RequestOptions.Addresses?
    private let pins: String?
    private let maxReceiveRate: Int64?
    private let maxSendRate: Int64?
    private let checksDigests: Bool
    private let isLive: Bool
    private let needsReset: Bool

    init(_ request: HTTPRequest) throws(NetworkError) {
        let streamsBody = request.streamsBody == true
        timeout = try RequestCheck.milliseconds(request.timeout, "timeout") ?? (streamsBody ? 0 : nil)
        connectTimeout = try RequestCheck.milliseconds(request.connectTimeout, "connectTimeout")
        idleTimeout = try RequestCheck.milliseconds(request.idleTimeout, "idleTimeout")
        if let size = request.maxBodySize, size < 0 {
            throw .invalidRequest("maxBodySize is \(size); give 0 or more")
        }
        maxBodySize = request.maxBodySize ?? (streamsBody ? .max : nil)
        try RequestCheck.credentials(request.authentication)
        try RequestCheck.unixSocket(request.unixSocketPath)
        try RequestCheck.rate(request.maxReceiveRate, "maxReceiveRate")
        try RequestCheck.rate(request.maxSendRate, "maxSendRate")
        (maxReceiveRate, maxSendRate) = (request.maxReceiveRate, request.maxSendRate)
        maxConnectionsPerHost = request.maxConnectionsPerHost
        if let limit = maxConnectionsPerHost, limit <= 0 { throw RequestCheck.tooFewConnections(limit) }
        addresses = request.addresses
        let keys = request.tls.pins ?? []
        pins = keys.isEmpty ? nil : try TLSMaterial.joined(keys, "tls.pins")
        checksDigests = request.digests.checks ?? true
        isLive = request.context.isLive
        needsReset = RequestCheck.needsReset(request)
    }

    func apply(to plan: inout TransferPlan) {
        if let timeout { plan.timeout = timeout }
        if let connectTimeout { plan.connectTimeout = connectTimeout }
        if let idleTimeout { plan.idleTimeout = idleTimeout }
        if let maxBodySize { plan.maxBodySize = maxBodySize }
        if let maxConnectionsPerHost { plan.maxConnectionsPerHost = maxConnectionsPerHost }
        if let addresses { plan.addresses = addresses.choice }
        if let pins { plan.pins = pins }
        (plan.maxReceiveRate, plan.maxSendRate) = (maxReceiveRate, maxSendRate)
        plan.checksDigests = checksDigests
        plan.isLive = isLive
        plan.needsReset = plan.needsReset || needsReset
    }
}

extension RequestOptions.Addresses {
    /// The choice that the engine makes; `nil` for libcurl's.
    var choice: Self? { self == .pickFirst ? nil : self }
}
