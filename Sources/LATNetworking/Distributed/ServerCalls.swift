public import HTTPCore

extension CentralRequestManager {
    /// Sends a call of the server table by its name alone, without a type of its own for it.
    ///
    /// ```swift
    /// let reply = try await manager.startRequest(server: "user.detail", parameters: ["id": 42])
    /// reply.model["name"].string
    /// ```
    ///
    /// The row says method, path, headers and the rest, as for a ``RequestEntity``. An entity is the better choice
    /// where the program knows what it calls: its parameters and its answer then have types.
    ///
    /// - Parameters:
    ///   - server: the row.
    ///   - parameters: those that the path names in braces go there, the others into query or body. Default none.
    ///   - files: parts of a multipart body. Default none.
    ///   - cache: the cache policy; `nil`, the default, for the row's.
    ///   - timeout: the total timeout; `nil`, the default, for the row's.
    ///   - headers: laid over the row's and the provider's; `nil` values remove. Default none.
    ///   - tag: names a group of calls for ``cancelRequests(_:)``. Default `nil`.
    ///   - model: what the answer is decoded to. Default ``JSONValue``.
    ///   - progress: called where the manager's callbacks run, never after the call is over.
    /// - Throws: ``NetworkError``: `unknownName` for a name the table does not have, `invalidRequest` for a path
    ///   parameter without a value, `business` when the server answered and said no, `httpStatus`, `decoding` and the
    ///   kinds of the network; `CancellationError` when the current task was cancelled.
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
    /// What is said of a request without an entity.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter that does not encode.
    init(route: Route, parameters: Parameters?, files: [UploadFile]) throws(NetworkError) {
        self.route = route
        self.parameters =
            try parameters.map { parameters throws(NetworkError) in
                try RequestBuilder.encoded(parameters)
            } ?? EncodedMembers()
        self.files = files
    }
}
