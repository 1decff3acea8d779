import HTTPCore

extension CentralRequestManager {
    /// Sends an entity's request and decodes its answer.
    func reply<Model: Decodable & Sendable>(
        to plan: EntityPlan, as model: Model.Type, progress: ProgressHandler?, control task: RequestTask?,
        cached: (@Sendable (Reply<Model>) -> Void)? = nil
    ) async throws -> Reply<Model> {
        var (request, decoder): (HTTPRequest, ReplyDecoder)
        do {
            (request, decoder) = try prepare(plan)
        } catch {
            await tell(error, HTTPRequest(plan.content.route.method?.rawValue ?? "GET", ""))
            throw error
        }
        if let cached, (request.cachePolicy ?? configuration.cachePolicy) == .cacheThenNetwork {
            // What is cached and no longer fits the model is none.
            request.context.deliversCached = { [request, decoder] response in
                if let reply = try? decoder.reply(model, from: response, to: request) { cached(reply) }
            }
        }
        request.control = task?.control
        if let task {
            request.progressHandler = gated(progress, task)
            task.note(request)
            return try await outcome(of: request) { try decoder.reply(model, from: $0, to: $1) }
        }
        return try await reporting(progress, &request) { request in
            try await outcome(of: request, entity: plan.content.identity) {
                try decoder.reply(model, from: $0, to: $1)
            }
        }
    }

    /// What a call is found by before its request is made.
    func identity(of plan: EntityPlan) -> CallIdentity {
        CallIdentity(
            tag: plan.options.tag, address: .later { [weak self] in try? self?.prepare(plan).0.url },
            entity: plan.content.identity)
    }

    /// Looks the route up and makes the request, its parts not yet put together.
    ///
    /// - Throws: ``NetworkError`` of kind `unknownName` for a name the table does not have, `invalidRequest` for a path
    ///   parameter without a value.
    private func prepare(_ plan: EntityPlan) throws(NetworkError) -> (HTTPRequest, ReplyDecoder) {
        var decoder = ReplyDecoder(judge: configuration.successJudge)
        var members = plan.content.parameters
        var context = RequestContext()
        var request = HTTPRequest(plan.content.route.method?.rawValue ?? "GET", "")
        var encoding = configuration.parameterEncoding
        if case .url(let url) = plan.content.route.target {
            let template = RequestBuilder.absoluteURL(url, base: baseURL)
            context.addresses = [try PathParameters.fill(template, from: &members)]
            context.path = SimulationInterceptor.path(of: url, withQuery: false)
        } else {
            let route = try resolve(plan.content.route.target)
            if plan.content.route.method == nil {
                guard let method = route.method else { throw Self.noMethod(route) }
                request.method = method
            }
            for name in route.pathParameters where members[name] == nil {
                members[name] = plan.content.properties[name]
            }
            let settings = route.settings
            let isSimulated = (plan.simulation ?? configuration.simulation) != nil || settings.simulation != nil
            if isSimulated, !route.isAbsolute {
                var values = members
                context.filledPath = try? PathParameters.fill(route.path, from: &values)
            }
            let values = try PathParameters.take(route.pathParameters, from: &members)
            for index in route.bases.indices { context.addresses.append(try route.url(values, base: index)) }
            context.mirrorKey = route.key
            context.path = route.path
            context.domain = route.domain.rawValue
            context.server = route.server?.rawValue
            context.volatileParameters = Set(route.settings.volatileParameters ?? [])
            request.pinnedPublicKeys = route.pins
            apply(settings, to: &request, &context)
            if !settings.parameters.isEmpty { members = settings.parameters.merging(members) { $1 } }
            if let choice = settings.parameterEncoding { encoding = choice }
            if case .rule(let rule) = settings.envelope { decoder.envelope = rule }
        }
        apply(plan.options, to: &request)
        if request.timeout == nil, let timeout = plan.standardTimeout { request.timeout = timeout }
        context.replacesGlobalHeaders = plan.options.replacesGlobalHeaders
        if let simulation = plan.simulation { context.simulation = simulation }
        context.content = RequestContent(
            members: members.isEmpty ? nil : members,
            files: plan.content.files, encoding: plan.options.parameterEncoding ?? encoding)
        if decoder.envelope != nil || decoder.judge != nil {
            context.accepts = { [decoder] response in decoder.accepts(response) }
        }
        request.url = context.addresses.first ?? ""
        request.context = context
        return (request, decoder)
    }

    private func resolve(_ target: Route.Target) throws(NetworkError) -> ResolvedRoute {
        guard let table = domains else {
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

    private func apply(_ settings: RouteSettings, to request: inout HTTPRequest, _ context: inout RequestContext) {
        if let timeout = settings.timeout { request.timeout = timeout }
        if let timeout = settings.connectTimeout { request.connectTimeout = timeout }
        if let timeout = settings.idleTimeout { request.idleTimeout = timeout }
        if let retries = settings.retries { request.retries = retries }
        if let policy = settings.cachePolicy { request.cachePolicy = policy }
        if let redirects = settings.redirects { request.redirects = redirects }
        if let proxy = settings.proxy { request.proxy = proxy }
        if let sealing = settings.sealing { request.sealing = sealing }
        request.maxConnectionsPerHost = settings.maxConnectionsPerHost
        context.rowHeaders = settings.headers
        for name in settings.secretHeaders ?? [] { context.secretHeaders.insert(name) }
        switch settings.simulation {
        case nil: break
        case .off: context.simulation = .off
        case .directory(let directory, let delay): context.simulation = .fixtures(directory, after: delay ?? .zero)
        case .baseURL(let url, let delay): context.simulation = .server(url, after: delay ?? .zero)
        }
    }

    private func apply(_ options: RequestOptions, to request: inout HTTPRequest) {
        request.headers = options.headers
        if let timeout = options.timeout { request.timeout = timeout }
        if let policy = options.cachePolicy { request.cachePolicy = policy }
        if options.cachesUnsafeMethods { request.cachesUnsafeMethods = true }
        if let retries = options.retries { request.retries = retries }
        if options.redirects != .automatic { request.redirects = options.redirects }
        if let authentication = options.authentication { request.authentication = authentication }
        if options.priority != .normal { request.priority = options.priority }
        if options.sealing != .automatic { request.sealing = options.sealing }
        if let flow = options.flow { request.flow = flow }
        if let key = options.idempotencyKey { request.idempotencyKey = key }
    }

    private static func noMethod(_ route: ResolvedRoute) -> NetworkError {
        .invalidRequest(
            "neither the entity's route nor the row \"\(route.server?.rawValue ?? route.path)\" names a method; "
                + "give one of them one")
    }
}

/// Takes the values of a path's parameters out of the others.
enum PathParameters {
    /// The values by name, as text.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for one that is no text, number or Boolean.
    static func take(
        _ names: [String], from members: inout [String: JSONValue]
    ) throws(NetworkError) -> [String: String] {
        var values: [String: String] = [:]
        for name in names {
            guard let value = members.removeValue(forKey: name) else { continue }
            values[name] = try text(value, name)
        }
        return values
    }

    /// A URL with the names in braces filled.
    static func fill(_ template: String, from members: inout [String: JSONValue]) throws(NetworkError) -> String {
        guard template.contains("{") else { return template }
        var filled = ""
        var rest = template[...]
        while let open = rest.firstIndex(of: "{"), let close = rest[open...].firstIndex(of: "}") {
            let name = String(rest[rest.index(after: open)..<close])
            guard let value = members.removeValue(forKey: name) else {
                throw .invalidRequest(
                    "the path parameter {\(name)} has no value; give the entity a property \"\(name)\"")
            }
            let text = try text(value, name)
            guard !text.isEmpty, !text.isDotSegment else {
                throw .invalidRequest("the path parameter {\(name)} is \"\(text)\", which would make it another path")
            }
            filled += rest[..<open] + text.percentEncodedComponent
            rest = rest[rest.index(after: close)...]
        }
        return filled + rest
    }

    private static func text(_ value: JSONValue, _ name: String) throws(NetworkError) -> String {
        switch value {
        case .string(let text): return text
        case .int, .double, .decimal, .bool: return value.description
        case .null, .array, .object:
            throw .invalidRequest("the path parameter {\(name)} is \(value), not a text, number or Boolean")
        }
    }
}
