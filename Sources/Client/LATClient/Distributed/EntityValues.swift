public import HTTPCore

extension EntityRequest {
    /// The values of a response that the server sends one by one, as JSON lines or a JSON sequence.
    ///
    /// ```swift
    /// for try await user in FetchUser(id: 42).values(of: User.self) { print(user.name) }
    /// ```
    ///
    /// The request is sent as by ``stream(on:isolation:)`` when the loop begins: without a total timeout unless the call sets one,
    /// and with the idle timeout. Envelope and judge are not asked.
    ///
    /// - Parameters:
    ///   - model: the type of each value.
    ///   - options: the format, and whether bad lines are left out.
    ///   - manager: sends the request. Default ``CentralRequestManager/shared``.
    public func values<Value: Decodable & Sendable>(
        of model: Value.Type, options: HTTPResponse.ValueOptions = .init(), on manager: CentralRequestManager = .shared
    ) -> HTTPResponse.Values<Value> {
        let call = call
        return manager.values(options) { () throws(NetworkError) in
            var plan = try call.plan()
            plan.streams = true
            plan.options.headers = HTTPResponse.acceptsValues.merging(plan.options.headers)
            return try manager.call(plan)
        }
    }
}

extension CentralRequestManager {
    /// The values of a response that the server sends one by one, as JSON lines or a JSON sequence.
    ///
    /// ```swift
    /// for try await user in central.values("GET", "/users", of: User.self) { print(user.name) }
    /// ```
    ///
    /// The request is sent when the loop begins, as by ``stream(_:_:parameters:files:body:cache:timeout:headers:tag:)``, whose
    /// parameters these are.
    ///
    /// - Parameters:
    ///   - model: the type of each value.
    ///   - options: the format, and whether bad lines are left out.
    public func values<Value: Decodable & Sendable>(
        _ method: String, _ url: some URLConvertible, of model: Value.Type, parameters: Parameters? = nil,
        body: HTTPBody? = nil, timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil,
        options: HTTPResponse.ValueOptions = .init()
    ) -> HTTPResponse.Values<Value> {
        let request = HTTPRequest(method, url.urlText, headers: headers)
        let parts = (parameters: parameters, body: body, timeout: timeout, tag: tag)
        return values(options) { [self] () throws(NetworkError) in
            try call(
                request.acceptingValues,
                CallArguments(
                    parameters: parts.parameters, body: parts.body, timeout: parts.timeout, tag: parts.tag,
                    streams: true))
        }
    }

    /// The values of the response to a request; see ``values(_:_:of:parameters:body:timeout:headers:tag:options:)``.
    public func values<Value: Decodable & Sendable>(
        _ request: HTTPRequest, of model: Value.Type, options: HTTPResponse.ValueOptions = .init()
    ) -> HTTPResponse.Values<Value> {
        values(options) { [self] () throws(NetworkError) in
            try call(request.acceptingValues, CallArguments(streams: true))
        }
    }

    /// The values of the response to a call of the server table.
    ///
    /// ```swift
    /// for try await user in central.values(server: "user.list", of: User.self) { print(user.name) }
    /// ```
    public func values<Value: Decodable & Sendable>(
        server: ServerName, of model: Value.Type, parameters: Parameters? = nil,
        options: HTTPResponse.ValueOptions = .init()
    ) -> HTTPResponse.Values<Value> {
        EntityCall(Route(server: server), parameters: parameters).values(of: model, options: options, on: self)
    }

    fileprivate func values<Value: Decodable & Sendable>(
        _ options: HTTPResponse.ValueOptions, _ make: @escaping @Sendable () throws(NetworkError) -> Call
    ) -> HTTPResponse.Values<Value> {
        HTTPResponse.Values(options) { [self] in
            let call = try await made(make)
            return (try await runStream(call, observed: true), call.request)
        }
    }
}

extension HTTPResponse {
    /// What a request for values accepts, unless it says so itself.
    fileprivate static let acceptsValues: HTTPHeaders = [
        "Accept": "application/x-ndjson, application/jsonl, application/json-seq, application/json;q=0.9, */*;q=0.1"
    ]
}

extension HTTPRequest {
    fileprivate var acceptingValues: HTTPRequest {
        var request = self
        request.headers = HTTPResponse.acceptsValues.merging(headers)
        return request
    }
}
