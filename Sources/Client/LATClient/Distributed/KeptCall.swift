package import HTTPCore

// What an outbox keeps of a call of a route: the row and the parameters, not what the table makes of them.

extension CentralRequestManager {
    /// The route, parameters and properties of a call as JSON. Body, files, headers and settings are kept apart.
    ///
    /// Dates and other values that depend on the coding are written as the call would write them now.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter that cannot be encoded, and
    ///   ``NetworkError/Kind/unsupported`` for a simulated call.
    package func kept(_ plan: EntityPlan) throws(NetworkError) -> JSONValue {
        guard plan.simulation == nil else {
            throw NetworkError(.unsupported, message: "a simulated call cannot be kept in an outbox; start it instead")
        }
        let content = plan.content
        let coding = coding(of: plan)
        do {
            var object: [String: JSONValue] = ["route": content.route.kept]
            object["parameters"] = try content.parameters.settled(by: coding).kept()
            object["properties"] = try content.properties.settled(by: coding).kept()
            return .object(object)
        } catch {
            throw .invalidRequest("the parameters cannot be encoded: \(error)")
        }
    }

    /// The coding of a call: its own, or that of its row. The row may be added later.
    package func coding(of plan: EntityPlan) -> CodingRules? {
        if let own = plan.options.coding { return CodingRules.of(own) }
        guard let row = routePlan(of: plan.content.route) else { return coding }
        return row.coding
    }

    /// What the manager and the rows of a call count as secret.
    package func secrets(of plan: EntityPlan) -> Secrets {
        configuration.secrets.union(routePlan(of: plan.content.route)?.prototype.context.rowSecrets ?? Secrets())
    }

    /// A parameter, or a property that may fill the path, that is secret and would be in the URL of a call; `nil` if none is.
    /// Without its row, a method that is not known may be one that sends the parameters in the query.
    package func parameter(of plan: EntityPlan, in secrets: Secrets) -> String? {
        let content = plan.content
        let row = routePlan(of: content.route)
        var members = content.parameters
        let path = content.properties.names + (row?.pathParameters ?? []).filter { members.remove($0) != nil }
        if let name = path.first(where: secrets.contains(member:)) { return name }
        guard members.fields(by: row?.query).contains(where: { secrets.contains(parameter: $0.name) }) else {
            return nil
        }
        var request = HTTPRequest((content.route.method ?? row?.prototype.method ?? .get).rawValue, "")
        let parts = RequestContent(
            members: members, files: content.files, body: content.body,
            encoding: plan.options.parameterEncoding ?? row?.encoding ?? .json, query: row?.query)
        try? RequestBuilder.put(parts, into: &request)
        let query = URLParts(request.url).query ?? ""
        return query.split(separator: "&").map { String($0.prefix { $0 != "=" }) }.first(
            where: secrets.contains(parameter:))
    }

    /// Whether a response is a success for the rows of its call, and for the manager's judge.
    ///
    /// - Throws: ``NetworkError`` of kind `httpStatus`, `business` or `decoding`.
    private func judged(_ response: HTTPResponse, of call: Call) throws -> HTTPResponse {
        guard let row = call.details.row else { return try checked(response, of: call) }
        return try row.decoder.reply(Empty.self, from: response, to: call.request).response
    }

    /// Makes a call and runs it to its end.
    ///
    /// - Parameters:
    ///   - make: makes the call; an error is the result.
    ///   - begin: receives the call before anything is sent.
    /// - Returns: the result, and whether a failure may pass.
    package func result(
        of make: () throws(NetworkError) -> Call, begin: (Call) -> Void
    ) async -> (Result<HTTPResponse, NetworkError>, isTransient: Bool) {
        let call: Call
        do throws(NetworkError) {
            call = try await made(make)
        } catch {
            return (.failure(error), false)
        }
        begin(call)
        do {
            // Neither interceptors nor authenticators work for an entry that was dropped.
            try Task.checkCancellation()
            return (.success(try await run(call) { response, call in try judged(response, of: call) }), false)
        } catch {
            let failure = call.failure(error)
            return (.failure(failure), isTransient(failure, of: call))
        }
    }

    /// Whether the failure of a call may pass, by the retry policy of the call, of its rows or of the manager. It has to have
    /// an idempotency key.
    private func isTransient(_ error: NetworkError, of call: Call) -> Bool {
        let request = call.request
        var policy = request.retryPolicy ?? configuration.retryPolicy
        policy.repeatsOnlyIdempotent = false
        var answer = Result<HTTPResponse, NetworkError>.failure(error)
        if let response = error.response, response.status >= 400 { answer = .success(response) }
        return RetryState(policy: policy, retries: 1).isWorthRepeating(answer, request)
    }
}

extension EntityPlan {
    /// The call from the JSON that ``CentralRequestManager/kept(_:)`` made; `nil` if it is no such JSON.
    package init?(kept: JSONValue, body: HTTPBody?, files: [UploadFile], options: RequestOptions) {
        guard let route = Route(kept: kept["route"]) else { return nil }
        var content = EntityContent(
            route: route, parameters: EncodedMembers(kept: kept["parameters"]), files: files)
        content.properties = EncodedMembers(kept: kept["properties"])
        content.body = body
        self.init(content: content, options: options, entityHeaders: HTTPHeaders())
    }

    /// The body that the entity makes itself; `nil` when the parameters are the body.
    package var body: HTTPBody? { content.body }
    /// The settings of the call, over those of the entity.
    package var settings: RequestOptions { options }
}

extension Route {
    fileprivate var kept: JSONValue {
        var object: [String: JSONValue] =
            switch target {
            case .server(let name): ["server": .string(name.rawValue)]
            case .domain(let name, let path): ["domain": .string(name.rawValue), "path": .string(path)]
            case .url(let url): ["url": .string(url)]
            }
        object["method"] = (method?.rawValue).map(JSONValue.string)
        return .object(object)
    }

    fileprivate init?(kept: JSONValue?) {
        let method = kept?["method"]?.string
        if let name = kept?["server"]?.string {
            self = method.map { Route($0, server: ServerName(name)) } ?? Route(server: ServerName(name))
        } else if let method, let domain = kept?["domain"]?.string, let path = kept?["path"]?.string {
            self.init(method, domain: DomainName(domain), path: path)
        } else if let method, let url = kept?["url"]?.string {
            self.init(method, url: url)
        } else {
            return nil
        }
    }

    /// What a person calls it: the name of the row, or domain and path, or the URL.
    package var text: String {
        switch target {
        case .server(let name): name.rawValue
        case .domain(let name, let path): URLParts.join(name.rawValue, path)
        case .url(let url): url
        }
    }
}
