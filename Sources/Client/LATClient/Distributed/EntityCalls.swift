public import ResponseCache
import CurlTransport
import DomainTables
import HTTPCore

extension CentralRequestManager {
    /// Makes the call of an entity: resolves its route, fills the address, and adds parameters and files.
    ///
    /// - Throws: ``NetworkError`` of kind `unknownName` for a name that is not in the table, and `invalidRequest` for a
    ///   path parameter without a value, or for parameters and files that cannot be combined.
    package func call(
        _ entity: EntityPlan, progress: ProgressHandler? = nil, cached: CachedReplyHandler.Handler? = nil
    ) throws(NetworkError) -> Call {
        do throws(NetworkError) {
            return try uncheckedCall(entity, progress, cached)
        } catch {
            throw error.attaching(HTTPRequest(entity.content.route.method?.rawValue ?? "GET", ""))
        }
    }

    /// How the row of an entity uploads files so that the upload can go on; `nil` for in one request.
    package func uploads(of entity: EntityPlan) -> ResumableUpload? { routePlan(of: entity.content.route)?.row.uploads }

    private func uncheckedCall(
        _ entity: EntityPlan, _ progress: ProgressHandler?, _ cached: CachedReplyHandler.Handler?
    ) throws(NetworkError) -> Call {
        let plan: RoutePlan
        if let kept = entity.followUp?.plan {
            plan = kept
        } else {
            plan = try plans.plan(for: entity.content.route, in: domains, baseURL: baseURL)
        }
        let coding = entity.options.coding.map { CodingRules.of($0) } ?? plan.coding
        var members = entity.content.parameters
        let names = plan.pathParameters
        if !names.isEmpty { members.addMissing(entity.content.properties.only(names)) }
        members = try RequestBuilder.coded(members, by: coding)
        var values = PathValues()
        if !names.isEmpty { values = try PathValues(names, from: &members) }
        members = members.named(by: coding)
        var details = CallDetails(row: plan.row, coding: coding, bodyHandler: entity.bodyHandler)
        if let simulation = entity.simulation ?? plan.simulation, simulation.isOn { details.simulation = simulation }
        do throws(NetworkError) {
            (details.addresses, details.filledPath) = try plan.addresses(
                values, isSimulated: details.simulation != nil)
        } catch {
            guard let type = entity.content.unreadType else { throw error }
            throw .invalidRequest("\(error.message); the properties of \(type) count once it is declared Encodable")
        }
        if let address = details.simulation?.address(path: details.filledPath, of: details.addresses.first ?? "") {
            details.addresses = [address]
        }
        members.addMissing(plan.parameters)

        let asks = entity.followUp?.asks == true
        if let address = entity.followUp?.address {
            details.addresses = [address]
            details.isLinked = true
            // The URL of a page has its parameters.
            if asks || plan.prototype.method.encodesParametersInQuery {
                details.linkedNames = members.names
                members = EncodedMembers()
            }
        }

        if let step = entity.followUp, !step.parameters.isEmpty {
            details.addresses = details.addresses.map(step.removingParameters)
        }

        var request = plan.prototype
        request.url = details.addresses.first ?? ""
        if !entity.options.isStandard {
            request.options = entity.options.over(request.options)
            request.takeHeadersOfOptions()
        }
        if let entry = entity.entry { request.context.entry = entry }
        if entity.streams { request.streamsBody = true }
        if entity.isLive {
            // The limits of the rows are for calls that end by themselves.
            (request.timeout, request.deadline) = (entity.options.timeout, entity.options.deadline)
            request.prepareForLive()
            if entity.upgrades {
                request.prepareForUpgrade()
                details.addresses = details.addresses.map(URLReference.httpForm)
            }
        }
        if request.timeout == nil, let timeout = entity.standardTimeout { request.timeout = timeout }
        let content = RequestContent(
            members: members.isEmpty && (asks || !entity.content.parameters.leavesOutNil) ? nil : members,
            files: asks ? [] : entity.content.files, body: asks ? nil : entity.content.body,
            encoding: entity.options.parameterEncoding ?? plan.encoding, query: plan.query)
        entity.followUp?.ask(&request)
        if configuration.parameterProvider != nil || details.addresses.count > 1 { details.content = content }
        try RequestBuilder.put(content, into: &request)

        if entity.followUp?.hasLeftOrigin == true {
            pipeline.redirect.rule.strip(&request, defaults: configuration.headers)
        }
        details.entity = entity.content.reference
        details.entityHeaders = entity.entityHeaders
        if (request.cachePolicy ?? configuration.cachePolicy) == .cacheThenNetwork {
            details.deliversCached = cached.map(CachedReplyHandler.init)
        }
        return makeCall(request, details, progress: progress)
    }

    /// Sends an entity's request and decodes its response.
    func reply<Model: Decodable & Sendable>(
        to entity: EntityPlan, as model: Model.Type, progress: ProgressHandler?,
        cached: (@Sendable (Reply<Model>) -> Void)? = nil
    ) async throws -> Reply<Model> {
        let gate = progress.map { ProgressGate($0, callbacks) }
        var deliversCached: CachedReplyHandler.Handler?
        if let cached {
            deliversCached = { response, call in
                // An entry that no longer decodes is not delivered.
                if let reply = try? call.reply(model, from: response), call.noteCachedReply() { cached(reply) }
            }
        }
        let call = try await made { () throws(NetworkError) in
            try self.call(entity, progress: gate?.handler, cached: deliversCached)
        }
        return try await run(call, gate) { try $1.reply(model, from: $0) }
    }

    /// Sends an entity's request and returns its response with the body as a stream.
    func stream(_ entity: EntityPlan) async throws -> HTTPResponse {
        let call = try await made { () throws(NetworkError) in try self.call(entity) }
        return try await runStream(call, observed: true)
    }

    /// Starts an entity's request in closure form.
    ///
    /// - Parameters:
    ///   - deliversCached: whether a cached reply is delivered before the outcome where the policy asks for one.
    ///   - refine: makes the delivered reply from the decoded one.
    ///   - deliver: receives the outcome, and before it a cached reply.
    package func start<Model: Decodable & Sendable>(
        _ entity: Result<EntityPlan, NetworkError>, as model: Model.Type, progress: ProgressHandler? = nil,
        on executor: CallbackExecutor? = nil, deliversCached: Bool = true,
        refine: @escaping @Sendable (Reply<Model>) throws -> Reply<Model> = { $0 },
        deliver: @escaping @Sendable (RequestTask, Result<Reply<Model>, NetworkError>) -> Void
    ) -> RequestTask {
        let gate = progress.map { ProgressGate($0, callbacks) }
        let cached = { @Sendable [self] (response: HTTPResponse, call: Call) in
            guard let reply = try? refine(call.reply(model, from: response)) else { return }
            self.deliver(cached: call) { deliver(RequestTask(call), .success(reply)) }
        }
        return start(
            gate, on: executor,
            { () throws(NetworkError) in
                try call(entity.get(), progress: gate?.handler, cached: deliversCached ? cached : nil)
            },
            conclude: { response, call in try refine(call.reply(model, from: response)) }, deliver: deliver)
    }
}

extension Call {
    /// Decodes a response with the decoder of the call's route.
    package func reply<Model: Decodable & Sendable>(
        _ model: Model.Type, from response: HTTPResponse
    ) throws -> Reply<Model> {
        let decoder = details.row?.decoder ?? ReplyDecoder()
        guard let watch else { return try decoder.reply(model, from: response, to: request) }
        let (reply, unknown) = try UnknownValues.found { try decoder.reply(model, from: response, to: request) }
        for value in unknown { watch.record(.unknownValue(type: value.type, value: value.text)) }
        return reply
    }
}

extension CentralRequestManager.Cache {
    /// Explains what the cache would do with an entity's request now, and why; see ``explain(_:cache:)``.
    ///
    /// - Throws: ``NetworkError`` when the store fails, or the request cannot be composed.
    public func explain(_ entity: some EntityRequest) async throws -> CacheExplanation {
        let manager = try requireManager()
        let plan = try entity.call.plan()
        let call = try manager.call(plan)
        let source: CacheExplanation.PolicySource =
            plan.options.cachePolicy != nil ? .call : call.request.cachePolicy != nil ? .row : .manager
        return try await manager.explain(call, from: source)
    }
}
