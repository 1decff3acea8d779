import DomainTables
public import HTTPCore
import Synchronization

/// Where an entity's request goes: a row of the server table, a domain and a path, or a URL.
///
/// ```swift
/// Route("GET", server: "user.detail")               // domain and path from a row of the table
/// Route(server: "user.detail")                      // and the method, too
/// Route("GET", domain: "daxiang", path: "/v1/users/{id}")
/// Route("GET", url: "https://example.org/users/{id}") // no table
/// ```
///
/// A name in braces in the path is replaced by the percent-encoded parameter of that name, which is not sent elsewhere.
public struct Route: Hashable, Sendable {
    enum Target: Hashable, Sendable {
        case server(ServerName)
        case domain(DomainName, path: String)
        case url(String)
    }

    /// The method; `nil` for the server row's.
    public let method: HTTPMethod?
    let target: Target

    /// Creates a route to a row of the server table with a method, which overrides the row's.
    public init(_ method: String, server: ServerName) { self.init(HTTPMethod(method), .server(server)) }

    /// Creates a route to a row of the server table, with the row's method.
    public init(server: ServerName) { self.init(nil, .server(server)) }

    /// Creates a route to a domain of the table, with a path that is joined to its base URL.
    public init(_ method: String, domain: DomainName, path: String) {
        self.init(HTTPMethod(method), .domain(domain, path: path))
    }

    /// Creates a route without the table: to an absolute URL, or a path that is joined to the manager's base URL.
    public init(_ method: String, url: some URLConvertible) { self.init(HTTPMethod(method), .url(url.urlText)) }

    private init(_ method: HTTPMethod?, _ target: Target) {
        self.method = method
        self.target = target
    }
}

/// What all calls of a route have in common, computed once for each state of the table: the decoder of the responses, and
/// a request with the settings of the rows. Each call adds its address, its own settings and its content.
final class RoutePlan: Sendable {
    /// Method and settings; each call fills in the address.
    let prototype: HTTPRequest
    let row: CallRow
    let simulation: Simulation?
    /// How the rows say that a list is read; `nil` when none does.
    let paging: Paging?
    /// How they say that a job is followed.
    let polling: Polling?
    let encoding: ParameterEncoding
    /// How the rows write queries; `nil` where they do not say.
    let query: ParameterEncoding.QueryRule?
    /// The coding of the manager with the dates and names of the rows; `nil` for the standard one.
    let coding: CodingRules?
    /// The parameters that the rows set, for calls that do not set them.
    let parameters: EncodedMembers
    let pathParameters: [String]
    private let target: Target

    /// The manager's values, for settings that the rows leave unset.
    struct Standard: Sendable {
        var simulation: Simulation?
        var parameterEncoding: ParameterEncoding
        var successJudge: SuccessJudge?
        var coding = Coding()
        var retryPolicy = RetryPolicy()
    }

    private enum Target: Sendable {
        case route(DomainTable.ResolvedRoute)
        /// A URL outside the table, joined to the base URL.
        case url(PathTemplate)
    }

    /// - Parameter revision: Of two states of the table, the later one has the higher number.
    /// - Throws: ``NetworkError`` of kind `unknownName` for a name that is not in the table, and `invalidRequest` for
    ///   an invalid path or a missing method.
    init(
        _ route: Route, in table: DomainTable?, baseURL: String?, revision: UInt64, _ standard: Standard
    ) throws(NetworkError) {
        let resolved: DomainTable.ResolvedRoute
        switch route.target {
        case .server(let name): resolved = try Self.checked(table, for: "row", name.rawValue).resolve(server: name)
        case .domain(let name, let path):
            resolved = try Self.checked(table, for: "domain", name.rawValue).resolve(domain: name, path: path)
        case .url(let url):
            prototype = HTTPRequest((route.method ?? .get).rawValue, "")
            simulation = standard.simulation
            (paging, polling) = (nil, nil)
            encoding = standard.parameterEncoding
            query = nil
            coding = CodingRules.of(standard.coding)
            parameters = EncodedMembers()
            row = CallRow(
                path: Simulation.path(of: url, withQuery: false), ReplyDecoder(judge: standard.successJudge))
            let template = try PathTemplate.ofURL(RequestBuilder.absoluteURL(url, base: baseURL))
            pathParameters = template.parameters
            target = .url(template)
            return
        }
        guard let method = route.method ?? resolved.method else {
            throw .invalidRequest(
                "neither the entity's route nor the row \"\(resolved.server?.rawValue ?? resolved.path)\" names a "
                    + "method; add one to either")
        }
        let settings = resolved.settings
        prototype = try Self.prototype(method, resolved, standard)
        simulation = Self.simulation(settings.simulation) ?? standard.simulation
        paging = settings.pages?.rule
        polling = settings.poll?.rule
        encoding = settings.options.parameterEncoding ?? standard.parameterEncoding
        query = settings.query.rule
        var coding = standard.coding
        if let dates = settings.dates { coding.dates = dates }
        if let keys = settings.keys { coding.keys = keys }
        if let decimals = settings.decimals { coding.decimals = decimals }
        self.coding = CodingRules.of(coding)
        parameters = EncodedMembers(settings.parameters)
        var decoder = ReplyDecoder(judge: standard.successJudge)
        if case .rule(let rule) = settings.envelope { decoder.envelope = rule }
        if case .rule(let rule) = settings.errors { decoder.errors = rule }
        row = CallRow(
            domain: resolved.domain.rawValue, server: resolved.server?.rawValue, path: resolved.path,
            mirrorKey: resolved.key, volatileParameters: Set(settings.volatileParameters ?? []),
            limits: RowLimits(resolved, revision: revision),
            events: settings.events, headerOrigins: settings.originOfHeaders, oauth2: settings.oauth2,
            authenticator: settings.options.authenticator, uploads: settings.uploads?.rule,
            documented: settings.documented, decoder)
        pathParameters = resolved.pathParameters
        target = .route(resolved)
    }

    /// Returns the addresses to try, the preferred one first. For a simulation, also the filled path without base URL.
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

    private static func checked(
        _ table: DomainTable?, for kind: String, _ name: String
    ) throws(NetworkError) -> DomainTable {
        guard let table else {
            throw NetworkError(
                .unknownName,
                message:
                    "the route names the \(kind) \"\(name)\", but the manager has no table; set configuration.domains")
        }
        try DomainTable.check(table.defaults, of: "the table's defaults")
        return table
    }

    private static func prototype(
        _ method: HTTPMethod, _ route: DomainTable.ResolvedRoute, _ standard: Standard
    ) throws(NetworkError) -> HTTPRequest {
        let settings = route.settings
        var request = HTTPRequest(method.rawValue, "")
        var options = settings.options
        let tls = try settings.tls.request(of: route)
        if tls.isSet { options.tls = tls }
        if let policy = settings.retry.over(standard.retryPolicy) {
            let retries = options.retries
            options.retryPolicy = policy
            if let retries { options.retries = retries }
        }
        if let policy = settings.cachePolicy { options.cachePolicy = policy }
        request.options = options
        if !settings.headers.hasNoFields { request.context.rowHeaders = settings.headers }
        if let names = settings.secretHeaders {
            request.context.rowSecrets = Secrets(headers: names)
        }
        // Whoever reads a log or a recording needs the code, also when its name is that of a secret.
        if case .rule(let envelope) = settings.envelope { request.context.rowSecrets.show(member: envelope.code) }
        if case .rule(let errors) = settings.errors { request.context.rowSecrets.show(member: errors.code) }
        return request
    }

    private static func simulation(_ rule: DomainTable.SimulationRule?) -> Simulation? {
        switch rule {
        case nil: nil
        case .off: .off
        case .directory(let directory, let delay): .fixtures(directory, after: delay ?? .zero)
        case .baseURL(let url, let delay): .server(url, after: delay ?? .zero)
        }
    }
}

/// The route plans of a manager, for the current state of its table.
final class RoutePlanCache: Sendable {
    private struct State {
        var snapshot: TableSnapshot?
        var baseURL: String?
        /// Counts the states. If a late call brings back an older table, the next call with the newer table starts another
        /// state with a higher number, so the limits of the newer table apply.
        var revision: UInt64 = 0
        var plans: [Route: RoutePlan] = [:]
    }

    private let standard: RoutePlan.Standard
    private let state = Mutex(State())

    init(_ standard: RoutePlan.Standard) { self.standard = standard }

    func plan(for route: Route, in table: DomainTable?, baseURL: String?) throws(NetworkError) -> RoutePlan {
        let snapshot = table?.current
        let (known, revision) = state.withLock { state in
            if state.snapshot !== snapshot || state.baseURL != baseURL {
                state = State(snapshot: snapshot, baseURL: baseURL, revision: state.revision + 1)
            }
            return (state.plans[route], state.revision)
        }
        if let known { return known }
        let plan = try RoutePlan(route, in: table, baseURL: baseURL, revision: revision, standard)
        state.withLock { state in
            // Kept only if the table did not change while the plan was made.
            guard state.revision == revision, table?.current === snapshot else { return }
            // Bounds the memory that paths made at run time take.
            if state.plans.count >= 1_024 { state.plans = [:] }
            state.plans[route] = plan
        }
        return plan
    }
}

extension PathTemplate {
    /// The template of a whole URL. A URL without braces is not parsed here; it is checked when it is sent.
    static func ofURL(_ url: String) throws(NetworkError) -> PathTemplate {
        guard url.utf8.contains(UInt8(ascii: "{")) else { return PathTemplate(literal: url) }
        do throws(Problem) {
            return try PathTemplate(url)
        } catch {
            throw .invalidRequest("the URL \(URLText.visible(URLParts.redacted(url))) cannot be used: \(error.reason)")
        }
    }
}
