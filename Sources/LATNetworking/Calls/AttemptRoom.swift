import HTTPCore

/// Tells the watchers of each attempt and hop, and gives it its span of the trace.
struct AttemptRoom: Room {
    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        var attempt = request
        if let trace = request.traceParent ?? TraceParent.current, attempt.headers["traceparent"] == nil {
            attempt.headers["traceparent"] = trace.child().description
        }
        guard let watch = chain.call.watch else { return try await chain.proceed(attempt) }
        let number = watch.beginAttempt(attempt)
        do {
            let response = try await chain.proceed(attempt)
            watch.record(.answered(attempt: number, response))
            return response
        } catch {
            watch.record(.failed(attempt: number, NetworkError(ending: error, attempt)))
            throw error
        }
    }
}
