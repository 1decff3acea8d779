public import HTTPCore

/// A row of `domains`: a base URL, its stand-ins, and the settings of all calls to it.
public struct DomainRow: Sendable {
    /// What paths are joined to. Its own path and query are kept.
    @Tracked public var baseURL: String?
    /// For each environment its base URL, then its mirrors. An environment that is not named here has ``baseURL`` and
    /// ``mirrors``.
    public var environments: [String: [String]] = [:] {
        didSet { environmentOrigins = environmentOrigins.filter { environments[$0.key] == oldValue[$0.key] } }
    }
    /// Stand-ins for ``baseURL``, tried in order when no connection comes about. They do not stand in for the URL of an
    /// environment, so that tests never reach the real server; an environment names its own.
    @Tracked public var mirrors: [String]?
    /// Pins of public keys, `sha256//…` (`CURLOPT_PINNEDPUBLICKEY`).
    @Tracked public var pins: [String]?
    /// The settings of all calls to this domain.
    public var settings = RouteSettings()

    var environmentOrigins: [String: SettingOrigin] = [:]

    /// Makes a row.
    public init(baseURL: String) { self.baseURL = baseURL }

    init() {}
}

/// A row of `servers`: one call, by its domain and path.
public struct ServerRow: Sendable {
    /// The domain.
    @Tracked public var domain: DomainName?
    /// The path with its parameters, `v1/users/{id}`.
    @Tracked public var path: String?
    /// The method, for calls that name none. Default `nil`.
    @Tracked public var method: HTTPMethod?
    /// Whether ``path`` may be an absolute URL, which then leaves the domain and takes its headers with it. Default
    /// `nil`, which is no.
    @Tracked public var allowsAbsolute: Bool?
    /// The settings of this call.
    public var settings = RouteSettings()

    /// Makes a row.
    public init(domain: DomainName, path: String, method: HTTPMethod? = nil) {
        self.domain = domain
        self.path = path
        self.method = method
    }

    init() {}
}
