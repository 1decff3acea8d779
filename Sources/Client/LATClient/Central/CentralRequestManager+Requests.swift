public import HTTPCore

// The forms of a call that take a whole request, with its settings.
extension CentralRequestManager {
    /// Sends a request and collects its response, which has to be a success.
    ///
    /// ```swift
    /// var request = HTTPRequest("POST", "/orders", body: .json(order))
    /// request.acceptedStatuses = [201, 409]
    /// let response = try await manager.startRequest(request)
    /// ```
    ///
    /// The body is collected, whatever ``RequestOptions/Values/streamsBody`` says; ``stream(_:)`` does not collect it. ``send(_:)``
    /// returns the response whatever its status, and asks neither judge nor resolver.
    ///
    /// - Parameters:
    ///   - request: the request. Its URL may be a path, which is joined to the base URL.
    ///   - progress: called on the manager's callback executor, never after the call has ended.
    /// - Returns: a response with a status of ``RequestOptions/Values/acceptedStatuses``; 2xx or 304 where that is `nil`.
    /// - Throws: ``NetworkError``, of kind ``NetworkError/Kind/httpStatus`` for any other status; `CancellationError`
    ///   when the current task was cancelled.
    @discardableResult
    public func startRequest(_ request: HTTPRequest, progress: ProgressHandler? = nil) async throws -> HTTPResponse {
        try await response(progress) { (request, CallArguments()) }
    }

    /// Sends a request, collects its response, and calls one of the closures once, as the form with method and URL.
    @discardableResult
    public func startRequest(
        _ request: HTTPRequest, progress: ProgressHandler? = nil,
        success: @escaping @Sendable (_ task: RequestTask, _ response: HTTPResponse) -> Void,
        failure: @escaping @Sendable (_ task: RequestTask, _ error: NetworkError) -> Void
    ) -> RequestTask {
        start(request, CallArguments(), progress, success, failure)
    }

    /// Sends a request and returns its response, which has to be a success, as soon as the head has arrived.
    ///
    /// - Throws: as ``stream(_:_:parameters:files:body:cache:timeout:headers:tag:)``.
    public func stream(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await stream(request, CallArguments(streams: true))
    }

    // Inlined, so that a call in flight does not hold its request and parts a second time.
    @inline(__always)
    func response(
        _ progress: ProgressHandler?, to request: () -> (HTTPRequest, CallArguments)
    ) async throws -> HTTPResponse {
        let gate = progress.map { ProgressGate($0, callbacks) }
        let call = try await made { () throws(NetworkError) in try self.call(gate, request) }
        return try await run(call, gate) { _ = try checked($0, of: $1) }
    }

    @inline(never)
    private func call(
        _ gate: ProgressGate?, _ request: () -> (HTTPRequest, CallArguments)
    ) throws(NetworkError) -> Call {
        let (request, parts) = request()
        return try call(request, parts, progress: gate?.handler)
    }

    func start(
        _ request: HTTPRequest, _ parts: CallArguments, _ progress: ProgressHandler?,
        _ success: @escaping @Sendable (RequestTask, HTTPResponse) -> Void,
        _ failure: @escaping @Sendable (RequestTask, NetworkError) -> Void
    ) -> RequestTask {
        let gate = progress.map { ProgressGate($0, callbacks) }
        return start(gate) { () throws(NetworkError) in
            try call(
                request, parts, progress: gate?.handler,
                cached: { [self] response, call in deliver(cached: call) { success(RequestTask(call), response) } })
        } conclude: { [self] response, call in
            try checked(response, of: call)
        } deliver: { task, result in
            result.deliver(to: success, failure, of: task)
        }
    }

    func stream(_ request: HTTPRequest, _ parts: CallArguments) async throws -> HTTPResponse {
        let call = try await made { () throws(NetworkError) in try self.call(request, parts) }
        return try await runStream(call, observed: true)
    }
}
