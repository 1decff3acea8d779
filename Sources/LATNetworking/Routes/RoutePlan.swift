import DomainTableFormat
public import HTTPCore
import Synchronization

/// Where an entity's request goes: a row of the server table, or a domain and a path.
///
/// ```swift
/// Route("GET", server: "user.detail")               // a row of the table says domain and path
/// Route(server: "user.detail")                      // and the method
/// Route("GET", domain: "daxiang", path: "/v1/users/{id}")
/// Route("GET", url: "https://example.org/users/{id}") // no table
/// ```
///
/// Names in braces in the path are filled with the parameters of that name, percent-encoded; those are then sent
/// nowhere else.
public struct Route: Hashable, Sendable {
    enum Target: Hashable, Sendable {
        case server(ServerName)
        case domain(DomainName, path: String)
        case url(String)
    }

    /// The method; `nil` for the server row's.
    public let method: HTTPMethod?
    let target: Target

    /// A row of the server table, and the method, which wins over the row's.
    public init(_ method: String, server: ServerName) { self.init(HTTPMethod(method), .server(server)) }

    /// A row of the server table, with its method.
    public init(server: ServerName) { self.init(nil, .server(server)) }

    /// A domain of the table, and a path joined to its base URL.
    public init(_ method: String, domain: DomainName, path: String) {
        self.init(HTTPMethod(method), .domain(domain, path: path))
    }

    /// An address that no table knows: an absolute URL, or a path for the manager's base URL.
    public init(_ method: String, url: String) { self.init(HTTPMethod(method), .url(url)) }

    private init(_ method: HTTPMethod?, _ target: Target) {
        self.method = method
        self.target = target
    }
}

/// What all calls of a route have in common, worked out once for each state of the table: the settings of the rows on a
/// request that only wants its address and content, and how its answers are read.
final class RoutePlan: Sendable {
    /// Method and settings; the address is filled in by each call.
    let prototype: HTTPRequest
    let row: CallRow
    let simulation: Simulation?
    let encoding: ParameterEncoding
    /// Parameters that the rows set, where a call does not.
    let parameters: EncodedMembers
    /// The names of the path's parameters.
    let pathParameters: [String]
    private let target: Target

    /// What a manager says where the rows say nothing.
    struct Standard: Sendable {
        var simulation: Simulation?
        var parameterEncoding: ParameterEncoding
        var successJudge: SuccessJudge?
    }

    private enum Target: Sendable {
        case route(ResolvedRoute)
        /// An address that no table knows, and the base it is joined to.
        case url(PathTemplate)
    }

    /// - Throws: ``NetworkError`` of kind `unknownName` for a name the table does not have, `invalidRequest` for a path
    ///   that cannot be used, and when nobody names the method.
    init(
        _ route: Route, in table: DomainTable?, baseURL: String?, _ standard: Standard
    ) throws(NetworkError) {
        guard case .url(let url) = route.target else {
            let resolved = try Self.resolve(route.target, in: table)
            guard let method = route.method ?? resolved.method else { throw Self.noMethod(resolved) }
            let settings = resolved.settings
            prototype = Self.prototype(method, settings, pins: resolved.pins)
            simulation = Self.simulation(settings.simulation) ?? standard.simulation
            encoding = settings.parameterEncoding ?? standard.parameterEncoding
            parameters = EncodedMembers(settings.parameters)
            var decoder = ReplyDecoder(judge: standard.successJudge)
            if case .rule(let rule) = settings.envelope { decoder.envelope = rule }
            row = CallRow(
                domain: resolved.domain.rawValue, server: resolved.server?.rawValue, path: resolved.path,
                mirrorKey: resolved.key, volatileParameters: Set(settings.volatileParameters ?? []), decoder)
            pathParameters = resolved.pathParameters
            target = .route(resolved)
            return
        }
        prototype = HTTPRequest((route.method ?? .get).rawValue, "")
        simulation = standard.simulation
        encoding = standard.parameterEncoding
        parameters = EncodedMembers()
        row = CallRow(
            path: Simulation.path(of: url, withQuery: false), ReplyDecoder(judge: standard.successJudge))
        let template = try PathTemplate.ofURL(RequestBuilder.absoluteURL(url, base: baseURL))
        pathParameters = template.parameters
        target = .url(template)
    }

    /// The addresses that may be asked, the preferred one first, and what comes after their base, for a stand-in.
    func addresses(
        _ values: PathValues, isSimulated: Bool
    ) throws(NetworkError) -> (addresses: [String], filledPath: String?) {
        switch target {
        case .url(let template): return ([try template.filled(with: values, of: nil)], nil)
        case .route(let route):
            var addresses: [String] = []
            for index in route.bases.indices { addresses.append(try route.url(values, base: index)) }
            guard isSimulated, !route.isAbsolute, let path = try? PathTemplate(route.path) else {
                return (addresses, nil)
            }
            return (addresses, try path.filled(with: values, of: nil))
        }
    }

    // MARK: From the rows

    private static func resolve(_ target: Route.Target, in table: DomainTable?) throws(NetworkError) -> ResolvedRoute {
        guard let table else {
            throw NetworkError(
                .unknownName,
                message: "the route is a row of a table but the manager has none; set configuration.domains")
        }
        switch target {
        case .server(let name): return try table.resolve(server: name)
        case .domain(let name, let path): return try table.resolve(domain: name, path: path)
        case .url: throw .invalidRequest("a URL is no row of a table")
        }
    }

    private static func prototype(_ method: HTTPMethod, _ settings: RouteSettings, pins: [String]) -> HTTPRequest {
        var request = HTTPRequest(method.rawValue, "")
        if !pins.isEmpty { request.pinnedPublicKeys = pins }
        if let timeout = settings.timeout { request.timeout = timeout }
        if let timeout = settings.connectTimeout { request.connectTimeout = timeout }
        if let timeout = settings.idleTimeout { request.idleTimeout = timeout }
        if let retries = settings.retries { request.retries = retries }
        if let policy = settings.cachePolicy { request.cachePolicy = policy }
        if let partition = settings.cachePartition { request.cachePartition = partition }
        if let redirects = settings.redirects { request.redirects = redirects }
        if let proxy = settings.proxy { request.proxy = proxy }
        if let sealing = settings.sealing { request.sealing = sealing }
        if settings.compressesBody == true { request.compressesBody = true }
        if let limit = settings.maxConnectionsPerHost { request.maxConnectionsPerHost = limit }
        if !settings.headers.hasNoFields { request.rowHeaders = settings.headers }
        if let names = settings.secretHeaders {
            var secrets: SecretHeaders = []
            for name in names { secrets.insert(name) }
            request.secretHeaders = secrets
        }
        return request
    }

    private static func simulation(_ rule: SimulationRule?) -> Simulation? {
        switch rule {
        case nil: nil
        case .off: .off
        case .directory(let directory, let delay): .fixtures(directory, after: delay ?? .zero)
        case .baseURL(let url, let delay): .server(url, after: delay ?? .zero)
        }
    }

    private static func noMethod(_ route: ResolvedRoute) -> NetworkError {
        .invalidRequest(
            "neither the entity's route nor the row \"\(route.server?.rawValue ?? route.path)\" names a method; "
                + "give one of them one")
    }
}

/// The plans of a manager, by route, for the present state of its table.
final class RoutePlanCache: Sendable {
    private struct State {
        var snapshot: TableSnapshot?
        var baseURL: String?
        var plans: [Route: RoutePlan] = [:]
    }

    private let standard: RoutePlan.Standard
    private let state = Mutex(State())

    init(_ standard: RoutePlan.Standard) { self.standard = standard }

    /// - Throws: what ``RoutePlan/init(_:in:baseURL:_:)`` throws.
    func plan(for route: Route, in table: DomainTable?, baseURL: String?) throws(NetworkError) -> RoutePlan {
        let known = state.withLock { state -> RoutePlan? in
            if state.snapshot !== table?.current || state.baseURL != baseURL {
                state = State(snapshot: table?.current, baseURL: baseURL)
            }
            return state.plans[route]
        }
        if let known { return known }
        let plan = try RoutePlan(route, in: table, baseURL: baseURL, standard)
        state.withLock { state in
            guard state.snapshot === table?.current, state.baseURL == baseURL else { return }
            // Paths made at run time must not fill the memory.
            if state.plans.count >= 1_024 { state.plans = [:] }
            state.plans[route] = plan
        }
        return plan
    }
}

extension PathTemplate {
    /// The template of a whole URL. One without braces is taken as it is: it is checked when it is sent.
    static func ofURL(_ url: String) throws(NetworkError) -> PathTemplate {
        guard url.utf8.contains(UInt8(ascii: "{")) else { return PathTemplate(literal: url) }
        do throws(Problem) {
            return try PathTemplate(url)
        } catch {
            throw .invalidRequest("the URL \(URLText.visible(URLText.redacted(url))) cannot be used: \(error.reason)")
        }
    }
}
