public import HTTPCore

/// The settings a row of the table may have. `defaults`, a domain and a server each have their own; a request takes, for
/// each setting, the last of the three that sets it. What none of them sets is the manager's.
public struct RouteSettings: Sendable {
    /// The total timeout.
    @Tracked public var timeout: Duration?
    /// The longest time until a connection stands.
    @Tracked public var connectTimeout: Duration?
    /// The longest silence on a standing connection.
    @Tracked public var idleTimeout: Duration?
    /// The most connections to one host. Of `defaults` and domains.
    @Tracked public var maxConnectionsPerHost: Int?
    /// How often an idempotent request is repeated after a failure of the network.
    @Tracked public var retries: Int?
    /// The cache policy, without its time to live.
    @Tracked public var cache: CacheChoice?
    /// How long a stored reply may be used.
    @Tracked public var ttl: CachePolicy.TimeToLive?
    /// How parameters become a body.
    @Tracked public var parameterEncoding: ParameterEncoding?
    /// The proxy. Of `defaults` and domains.
    @Tracked public var proxy: ProxyPolicy?
    /// Whether redirects are followed.
    @Tracked public var redirects: RedirectPolicy?
    /// Whether answers come from somewhere else than the server.
    @Tracked public var simulation: SimulationRule?
    /// Where a response's own verdict stands.
    @Tracked public var envelope: EnvelopeChoice?
    /// Parameters that do not count when a cached reply is looked up: timestamps, nonces.
    @Tracked public var volatileParameters: [String]?
    /// Whose answers are stored and found (``HTTPRequest/cachePartition``).
    @Tracked public var cachePartition: String?
    /// Whether the content is sealed, and by which of the manager's sealers.
    @Tracked public var sealing: SealingPolicy?
    /// Whether the body is compressed with gzip: `compressBody: "gzip"`.
    @Tracked public var compressesBody: Bool?
    /// Header fields that hold secrets, besides those of every manager. Of `defaults` and domains; they add up.
    @Tracked public var secretHeaders: [String]?
    /// Header fields; a `nil` removes what a row above has set. Laid over each other field by field.
    public var headers = HTTPHeaders()
    /// Parameters that every call sends unless it sets them itself. Laid over each other one by one.
    public var parameters: [String: JSONValue] = [:]

    var headerOrigins = OriginMap<String?>()
    var parameterOrigins = OriginMap<JSONValue>()

    /// Nothing is set.
    public init() {}

    /// The words of `cache` in the table.
    public enum CacheChoice: String, Hashable, Sendable, CaseIterable {
        /// ``CachePolicy/networkOnly``.
        case networkOnly
        /// ``CachePolicy/writeOnly``.
        case writeOnly
        /// ``CachePolicy/cacheOnly``.
        case cacheOnly
        /// ``CachePolicy/cacheElseNetwork(_:)`` with the row's time to live.
        case cacheElseNetwork
        /// ``CachePolicy/cacheThenNetwork``.
        case cacheThenNetwork
        /// ``CachePolicy/networkElseCache``.
        case networkElseCache
        /// ``CachePolicy/http``.
        case http
    }

    /// The cache policy with its time to live; `nil` when the rows set none. ``CacheChoice/cacheElseNetwork`` without
    /// a time to live keeps replies for ever.
    public var cachePolicy: CachePolicy? {
        switch cache {
        case nil: nil
        case .networkOnly: .networkOnly
        case .writeOnly: .writeOnly
        case .cacheOnly: .cacheOnly
        case .cacheElseNetwork: .cacheElseNetwork(ttl ?? .forever)
        case .cacheThenNetwork: .cacheThenNetwork
        case .networkElseCache: .networkElseCache
        case .http: .http
        }
    }

    /// These settings laid over others.
    func over(_ other: RouteSettings) -> RouteSettings {
        var merged = RouteSettings()
        merged.$timeout = $timeout.over(other.$timeout)
        merged.$connectTimeout = $connectTimeout.over(other.$connectTimeout)
        merged.$idleTimeout = $idleTimeout.over(other.$idleTimeout)
        merged.$maxConnectionsPerHost = $maxConnectionsPerHost.over(other.$maxConnectionsPerHost)
        merged.$retries = $retries.over(other.$retries)
        merged.$cache = $cache.over(other.$cache)
        merged.$ttl = $ttl.over(other.$ttl)
        merged.$parameterEncoding = $parameterEncoding.over(other.$parameterEncoding)
        merged.$proxy = $proxy.over(other.$proxy)
        merged.$redirects = $redirects.over(other.$redirects)
        merged.$simulation = $simulation.over(other.$simulation)
        merged.$envelope = $envelope.over(other.$envelope)
        merged.$volatileParameters = $volatileParameters.over(other.$volatileParameters)
        merged.$cachePartition = $cachePartition.over(other.$cachePartition)
        merged.$sealing = $sealing.over(other.$sealing)
        merged.$compressesBody = $compressesBody.over(other.$compressesBody)
        let secrets = (other.secretHeaders ?? []) + (secretHeaders ?? [])
        merged.$secretHeaders = Tracked(
            secrets.isEmpty ? nil : secrets, from: $secretHeaders.origin ?? other.$secretHeaders.origin)
        merged.headers = other.headers.merging(headers)
        merged.parameters = other.parameters.merging(parameters) { _, own in own }
        for (settings, fields) in [(other, other.headers.fields), (self, headers.fields)] {
            for field in fields {
                let name = field.name.lowercased()
                merged.headerOrigins.set(field.value, of: name, from: settings.headerOrigins[name, field.value])
            }
        }
        for settings in [other, self] {
            for (name, value) in settings.parameters {
                merged.parameterOrigins.set(value, of: name, from: settings.parameterOrigins[name, value])
            }
        }
        return merged
    }
}

/// Whether a response carries a verdict of its own: `envelope` of the table.
public enum EnvelopeChoice: Hashable, Sendable {
    /// There is no envelope, whatever the rows above say, and every 2xx is a success: `envelope: null`.
    case none
    /// An envelope with these parts.
    case rule(EnvelopeRule)
}

/// Answers from somewhere else than the server: `simulate` of the table.
public enum SimulationRule: Hashable, Sendable {
    /// From the server, whatever the rows above say: `simulate: null`.
    case off
    /// From files of a folder, after a delay.
    case directory(String, delay: Duration?)
    /// From another base URL, after a delay.
    case baseURL(String, delay: Duration?)
}
