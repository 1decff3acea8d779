public import HTTPCore

extension DomainTable {
    /// The settings of a row of the table. `defaults`, a domain and a server each have their own; a request takes each
    /// setting from the last of the three that sets it, and from the manager when none does.
    public struct RouteSettings: Sendable {
        /// The total timeout. Default `nil`, as for all settings: not set here.
        @Tracked public var timeout: Duration?
        /// The time limit for connecting.
        @Tracked public var connectTimeout: Duration?
        /// The longest time without data on an open connection.
        @Tracked public var idleTimeout: Duration?
        /// The most connections to one host.
        @Tracked public var maxConnectionsPerHost: Int?
        /// How often a request is retried, in the cases that ``retry`` names.
        @Tracked public var retries: Int?
        /// When a request is retried, and after which delay.
        public var retry = RetrySettings()
        /// How event streams are read, and whether they are opened again.
        public var events = EventSettings()
        /// The authorities, client certificate, oldest version and pins of connections.
        public var tls = TLSSettings()
        /// The limits of the row's calls. A call passes those of its server row, of its domain and of the manager; `defaults`
        /// sets those of each domain. If a server row has limits that set no number, the limits of the domain do not apply
        /// to its calls.
        @Tracked public var limits: RequestLimits?
        /// When requests to a failing host are held back. The circuit of a server row counts its own calls alone.
        @Tracked public var circuit: RequestLimits.CircuitChoice?
        /// The cache policy, without its time to live.
        @Tracked public var cache: CacheChoice?
        /// How long a stored response may be used.
        @Tracked public var ttl: CachePolicy.TimeToLive?
        /// How parameters are encoded as a body.
        @Tracked public var parameterEncoding: ParameterEncoding?
        /// How dates are written and read.
        @Tracked public var dates: Coding.Dates?
        /// How the names of properties become the names of members.
        @Tracked public var keys: Coding.Keys?
        /// The proxy.
        @Tracked public var proxy: ProxyPolicy?
        /// Whether redirects are followed.
        @Tracked public var redirects: RedirectPolicy?
        /// Whether responses come from a source other than the server.
        @Tracked public var simulation: SimulationRule?
        /// The envelope around the data in responses, with its success codes.
        @Tracked public var envelope: EnvelopeChoice?
        /// Parameters that are ignored when a cached response is looked up: timestamps, nonces.
        @Tracked public var volatileParameters: [String]?
        /// The user whose responses are stored and found (``HTTPRequest/cachePartition``).
        @Tracked public var cachePartition: String?
        /// Which of the manager's authenticators is used, or none.
        @Tracked public var authenticator: AuthenticatorPolicy?
        /// Whether the content is sealed, and by which of the manager's sealers.
        @Tracked public var sealing: SealingPolicy?
        /// Whether the body is compressed with gzip: `compressBody: "gzip"`.
        @Tracked public var compressesBody: Bool?
        /// Header fields that hold secrets, in addition to the manager's; those of all rows count.
        @Tracked public var secretHeaders: [String]?
        /// Header fields, merged field by field; a `nil` value removes a field that a broader row sets. Default none.
        public var headers = HTTPHeaders()
        /// Parameters that every call sends unless it sets them itself, merged one by one. Default none.
        public var parameters: [String: JSONValue] = [:]

        var headerOrigins = OriginMap<String?>()
        /// What set each header, by its name in lower case.
        var originOfHeaders: [String: SettingOrigin] {
            headers.fields.reduce(into: [:]) { origins, field in
                let name = field.name.lowercased()
                origins[name] = field.value == nil ? nil : headerOrigins[name, field.value]
            }
        }
        var parameterOrigins = OriginMap<JSONValue>()

        /// Creates settings in which nothing is set.
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

        /// The cache policy with its time to live; `nil` when no row sets one. ``CacheChoice/cacheElseNetwork`` without a
        /// time to live keeps responses forever.
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

        /// Returns these settings over others: a setting that is unset here comes from the other.
        func over(_ other: RouteSettings) -> RouteSettings {
            var merged = RouteSettings()
            merged.$timeout = $timeout.over(other.$timeout)
            merged.$connectTimeout = $connectTimeout.over(other.$connectTimeout)
            merged.$idleTimeout = $idleTimeout.over(other.$idleTimeout)
            merged.$maxConnectionsPerHost = $maxConnectionsPerHost.over(other.$maxConnectionsPerHost)
            merged.$retries = $retries.over(other.$retries)
            merged.retry = retry.over(other.retry)
            merged.events = events.over(other.events)
            merged.tls = tls.over(other.tls)
            merged.$limits = $limits.over(other.$limits)
            merged.$circuit = $circuit.over(other.$circuit)
            merged.$cache = $cache.over(other.$cache)
            merged.$ttl = $ttl.over(other.$ttl)
            merged.$parameterEncoding = $parameterEncoding.over(other.$parameterEncoding)
            merged.$dates = $dates.over(other.$dates)
            merged.$keys = $keys.over(other.$keys)
            merged.$proxy = $proxy.over(other.$proxy)
            merged.$redirects = $redirects.over(other.$redirects)
            merged.$simulation = $simulation.over(other.$simulation)
            merged.$envelope = $envelope.over(other.$envelope)
            merged.$volatileParameters = $volatileParameters.over(other.$volatileParameters)
            merged.$cachePartition = $cachePartition.over(other.$cachePartition)
            merged.$authenticator = $authenticator.over(other.$authenticator)
            merged.$sealing = $sealing.over(other.$sealing)
            merged.$compressesBody = $compressesBody.over(other.$compressesBody)
            let secrets = (other.secretHeaders ?? []) + (secretHeaders ?? [])
            merged.$secretHeaders = Tracked(
                secrets.isEmpty ? nil : secrets, from: $secretHeaders.origin ?? other.$secretHeaders.origin)
            merged.headers = other.headers.merging(headers)
            merged.parameters = other.parameters.merging(parameters) { _, own in own }
            for settings in [other, self] {
                for field in settings.headers.fields {
                    let name = field.name.lowercased()
                    merged.headerOrigins.set(field.value, of: name, from: settings.headerOrigins[name, field.value])
                }
                for (name, value) in settings.parameters {
                    merged.parameterOrigins.set(value, of: name, from: settings.parameterOrigins[name, value])
                }
            }
            return merged
        }
    }

    /// Whether responses have an envelope with a success code: `envelope` of the table.
    public enum EnvelopeChoice: Hashable, Sendable {
        /// No envelope, whatever the broader rows say, so that no code is checked: `envelope: null`.
        case none
        /// An envelope with these parts.
        case rule(Envelope.Rule)
    }

    /// A source of responses other than the server: `simulate` of the table.
    public enum SimulationRule: Hashable, Sendable {
        /// The server, whatever the broader rows say: `simulate: null`.
        case off
        /// Files of a directory, after a delay.
        case directory(String, delay: Duration?)
        /// Another base URL, after a delay.
        case baseURL(String, delay: Duration?)
    }
}
