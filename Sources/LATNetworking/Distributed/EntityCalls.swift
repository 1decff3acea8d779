import DomainTableFormat
public import HTTPCore

extension CentralRequestManager {
    /// Makes the call of an entity: resolves its route, fills the address, and adds parameters and files.
    ///
    /// - Throws: ``NetworkError`` of kind `unknownName` for a name that is not in the table, and `invalidRequest` for a
    ///   path parameter without a value, or for parameters and files that cannot be combined.
    func call(
        _ entity: EntityPlan, progress: ProgressHandler? = nil,
        cached: (@Sendable (HTTPResponse, Call) -> Void)? = nil
    ) throws(NetworkError) -> Call {
        do throws(NetworkError) {
            return try uncheckedCall(entity, progress, cached)
        } catch {
            throw error.attaching(HTTPRequest(entity.content.route.method?.rawValue ?? "GET", ""))
        }
    }

    private func uncheckedCall(
        _ entity: EntityPlan, _ progress: ProgressHandler?,
        _ cached: (@Sendable (HTTPResponse, Call) -> Void)?
    ) throws(NetworkError) -> Call {
        let plan = try plans.plan(for: entity.content.route, in: domains, baseURL: baseURL)
        let coding = entity.options.coding.map { CodingRules.of($0) } ?? plan.coding
        var members = entity.content.parameters
        let names = plan.pathParameters
        if !names.isEmpty { members.addMissing(entity.content.properties.only(names)) }
        members = try RequestBuilder.coded(members, by: coding)
        var values = PathValues()
        if !names.isEmpty { values = try PathValues(names, from: &members) }
        members = members.named(by: coding)
        var details = CallDetails(row: plan.row, coding: coding, bodyHandler: entity.bodyHandler)
        let simulation = entity.simulation ?? plan.simulation
        details.simulation = simulation?.isOn ?? false ? simulation : nil
        (details.addresses, details.filledPath) = try plan.addresses(
            values, isSimulated: details.simulation != nil)
        if let address = details.simulation?.address(path: details.filledPath, of: details.addresses.first ?? "") {
            details.addresses = [address]
        }
        members.addMissing(plan.parameters)

        var request = plan.prototype
        request.url = details.addresses.first ?? ""
        entity.options.apply(to: &request)
        if request.timeout == nil, let timeout = entity.standardTimeout { request.timeout = timeout }
        let content = RequestContent(
            members: members.isEmpty ? nil : members, files: entity.content.files,
            encoding: entity.options.parameterEncoding ?? plan.encoding)
        if configuration.parameterProvider != nil || details.addresses.count > 1 { details.content = content }
        try RequestBuilder.put(content, into: &request)

        details.entity = entity.content.reference
        if (request.cachePolicy ?? configuration.cachePolicy) == .cacheThenNetwork { details.deliversCached = cached }
        return makeCall(request, details, progress: progress)
    }

    /// Sends an entity's request and decodes its response.
    func reply<Model: Decodable & Sendable>(
        to entity: EntityPlan, as model: Model.Type, progress: ProgressHandler?,
        cached: (@Sendable (Reply<Model>) -> Void)? = nil
    ) async throws -> Reply<Model> {
        let gate = progress.map { ProgressGate($0, callbacks) }
        var deliversCached: (@Sendable (HTTPResponse, Call) -> Void)?
        if let cached {
            deliversCached = { response, call in
                // An entry that no longer decodes counts as a miss.
                if let reply = try? call.reply(model, from: response) { cached(reply) }
            }
        }
        let call = try await made { () throws(NetworkError) in
            try self.call(entity, progress: gate?.handler, cached: deliversCached)
        }
        return try await run(call, gate) { try $1.reply(model, from: $0) }
    }

    /// Starts an entity's request in closure form.
    ///
    /// - Parameters:
    ///   - refine: makes the delivered reply from the decoded one.
    ///   - deliver: receives the outcome, and before it a cached reply where the policy asks for one.
    func start<Model: Decodable & Sendable>(
        _ entity: Result<EntityPlan, NetworkError>, as model: Model.Type, progress: ProgressHandler? = nil,
        on executor: CallbackExecutor? = nil,
        refine: @escaping @Sendable (Reply<Model>) throws -> Reply<Model> = { $0 },
        deliver: @escaping @Sendable (RequestTask, Result<Reply<Model>, NetworkError>) -> Void
    ) -> RequestTask {
        let gate = progress.map { ProgressGate($0, callbacks) }
        return start(gate, on: executor) { () throws(NetworkError) in
            try call(
                try entity.get(), progress: gate?.handler,
                cached: { [self] response, call in
                    guard let reply = try? refine(call.reply(model, from: response)) else { return }
                    self.deliver(cached: call) { deliver(RequestTask(call), .success(reply)) }
                })
        } conclude: { response, call in
            try refine(call.reply(model, from: response))
        } deliver: { task, result in
            deliver(task, result)
        }
    }
}

extension Call {
    /// Decodes a response with the decoder of the call's route.
    fileprivate func reply<Model: Decodable & Sendable>(
        _ model: Model.Type, from response: HTTPResponse
    ) throws -> Reply<Model> {
        try (details.row?.decoder ?? ReplyDecoder()).reply(model, from: response, to: request)
    }
}

extension CentralRequestManager {
    /// Sends a call of the server table by its name, without an entity type.
    ///
    /// ```swift
    /// let reply = try await manager.startRequest(server: "user.detail", parameters: ["id": 42])
    /// reply.model["name"].string
    /// ```
    ///
    /// The row sets method, path, headers and the rest, as for a ``RequestEntity``. Prefer an entity where the call is
    /// known at compile time: its parameters and its response then have types.
    ///
    /// - Parameters:
    ///   - server: the name of the row.
    ///   - parameters: fill the names in braces of the path; the others go into the query or the body. Default none.
    ///   - files: parts of a multipart body. Default none.
    ///   - cache: the cache policy; `nil`, the default, for the row's.
    ///   - timeout: the total timeout; `nil`, the default, for the row's.
    ///   - headers: override the row's and the provider's; a `nil` value removes a field. Default none.
    ///   - tag: names a group of calls for ``cancelRequests(_:)``. Default `nil`.
    ///   - model: the type that the response is decoded to. Default ``JSONValue``.
    ///   - progress: called on the manager's callback executor, never after the call has ended.
    /// - Throws: ``NetworkError``: `unknownName` for a name that is not in the table, `invalidRequest` for a path
    ///   parameter without a value, `business` when the server answered and reported a failure, `httpStatus`,
    ///   `decoding` and the network kinds; `CancellationError` when the current task was cancelled.
    public func startRequest<Model: Decodable & Sendable>(
        server: ServerName, parameters: Parameters? = nil, files: [UploadFile] = [], cache: CachePolicy? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        as model: Model.Type = JSONValue.self, progress: ProgressHandler? = nil
    ) async throws -> Reply<Model> {
        let content = try EntityContent(route: Route(server: server), parameters: parameters, files: files)
        var options = RequestOptions(timeout: timeout, headers: headers, cachePolicy: cache)
        if let tag { options.tag = tag }
        let plan = EntityPlan(content: content, options: options)
        return try await reply(to: plan, as: model, progress: progress)
    }
}

extension EntityContent {
    /// The content of a request without an entity.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter that cannot be encoded.
    init(route: Route, parameters: Parameters?, files: [UploadFile]) throws(NetworkError) {
        self.route = route
        self.parameters =
            try parameters.map { parameters throws(NetworkError) in
                try RequestBuilder.deferred(parameters)
            } ?? EncodedMembers()
        self.files = files
    }
}
