public import HTTPCore

// The forms of a call that go to a row of the table or to a path of a domain, without an entity type. An `EntityCall` of
// a route has every setting.
extension CentralRequestManager {
    /// Sends a call of a route: a row of the server table, or a path of a domain.
    ///
    /// ```swift
    /// let route = Route("GET", domain: "daxiang", path: "v1/users/{id}")
    /// let reply = try await manager.startRequest(route, parameters: ["id": 42])
    /// reply.model["name"].string
    /// ```
    ///
    /// The rows set method, path, headers and the rest, as for a ``RequestEntity``. Prefer an entity where the call is
    /// known at compile time: its parameters and its response then have types.
    ///
    /// - Parameters:
    ///   - route: where the call goes.
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
    @discardableResult
    public func startRequest<Model: Decodable & Sendable>(
        _ route: Route, parameters: Parameters? = nil, files: [UploadFile] = [], cache: CachePolicy? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        as model: Model.Type = JSONValue.self, progress: ProgressHandler? = nil
    ) async throws -> Reply<Model> {
        let options = RequestOptions(timeout: timeout, headers: headers, cachePolicy: cache)
        let call = EntityCall(route, parameters: parameters, files: files, options, tag: tag, as: model)
        return try await reply(to: call.plan(), as: model, progress: progress)
    }

    /// Sends a call of a route and reports its end to exactly one of `success` and `failure`, once, never synchronously.
    ///
    /// The closures are called as in the form with method and URL; the parameters are those of the asynchronous form.
    @discardableResult
    public func startRequest<Model: Decodable & Sendable>(
        _ route: Route, parameters: Parameters? = nil, files: [UploadFile] = [], cache: CachePolicy? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        as model: Model.Type, progress: ProgressHandler? = nil,
        success: @escaping @Sendable (_ task: RequestTask, _ reply: Reply<Model>) -> Void,
        failure: @escaping @Sendable (_ task: RequestTask, _ error: NetworkError) -> Void
    ) -> RequestTask {
        let options = RequestOptions(timeout: timeout, headers: headers, cachePolicy: cache)
        let call = EntityCall(route, parameters: parameters, files: files, options, tag: tag, as: model)
        let plan = Result { () throws(NetworkError) in try call.plan() }
        return start(plan, as: model, progress: progress) { task, result in
            result.deliver(to: success, failure, of: task)
        }
    }

    /// Sends a call of the server table by its name, as
    /// ``startRequest(_:parameters:files:cache:timeout:headers:tag:as:progress:)``.
    ///
    /// ```swift
    /// let reply = try await manager.startRequest(server: "user.detail", parameters: ["id": 42])
    /// ```
    @discardableResult
    public func startRequest<Model: Decodable & Sendable>(
        server: ServerName, parameters: Parameters? = nil, files: [UploadFile] = [], cache: CachePolicy? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        as model: Model.Type = JSONValue.self, progress: ProgressHandler? = nil
    ) async throws -> Reply<Model> {
        try await startRequest(
            Route(server: server), parameters: parameters, files: files, cache: cache, timeout: timeout,
            headers: headers, tag: tag, as: model, progress: progress)
    }

    /// Sends a call of a route and returns its response as soon as the head has arrived, as
    /// ``EntityRequest/stream(on:isolation:)``.
    public func stream(
        _ route: Route, parameters: Parameters? = nil, files: [UploadFile] = [], cache: CachePolicy? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil
    ) async throws -> HTTPResponse {
        let options = RequestOptions(timeout: timeout, headers: headers, cachePolicy: cache)
        return try await EntityCall(route, parameters: parameters, files: files, options, tag: tag, as: JSONValue.self)
            .stream(on: self)
    }
}

extension EntityCall {
    package init(
        _ route: Route, parameters: Parameters?, files: [UploadFile], _ options: RequestOptions, tag: String? = nil,
        as model: Model.Type
    ) {
        self.init(route, parameters: parameters, files: files, as: model)
        self.options = options
        self.options.tag = tag
    }
}
