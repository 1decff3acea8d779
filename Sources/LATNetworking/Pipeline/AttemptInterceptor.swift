import HTTPCore

/// Tells of each attempt, and gives it its span of the trace.
struct AttemptInterceptor: Interceptor {
    func isIdle(for request: HTTPRequest) -> Bool {
        if let flow = request.flowOptions as? FlowOptions, flow.timeline != nil || flow.traceParent != nil {
            return false
        }
        return TraceParent.current == nil
    }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var attempt = request
        let flow = request.flow
        if let trace = flow.traceParent ?? TraceParent.current, attempt.headers["traceparent"] == nil {
            attempt.headers["traceparent"] = trace.child().description
        }
        guard let timeline = flow.timeline else { return try await next(attempt) }
        let number = timeline.beginAttempt(attempt)
        do {
            let response = try await next(attempt)
            timeline.record(.answered(attempt: number, response))
            return response
        } catch {
            timeline.record(.failed(attempt: number, NetworkError(ending: error, attempt)))
            throw error
        }
    }
}

extension NetworkError {
    /// Any error a call can end with as one of this type.
    init(ending error: any Error, _ request: HTTPRequest?) {
        if let error = error as? NetworkError {
            self = request.map(error.attaching) ?? error
        } else if error is CancellationError {
            self = NetworkError(.cancelled, message: "the request was cancelled", request: request, underlying: error)
        } else {
            self = NetworkError(.other, message: "\(error)", request: request, underlying: error)
        }
    }
}
