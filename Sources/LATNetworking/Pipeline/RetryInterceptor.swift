/// Repeats an idempotent request after a failure of the network, as often as it or the manager allows, after a random
/// wait that doubles its range each time.
struct RetryInterceptor: Interceptor {
    let retries: Int
    var firstWait = Duration.milliseconds(100)
    var longestWait = Duration.seconds(10)

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let allowed = request.retries ?? retries
        guard allowed > 0 else { return try await next(request) }
        var attempt = 1
        while true {
            do {
                return try await next(request)
            } catch let error as NetworkError {
                guard attempt <= allowed, Self.isWorthRepeating(request, error) else {
                    throw error.counting(attempts: max(attempt, error.attempts))
                }
                try await Task.sleep(for: wait(beforeRetry: attempt))
                attempt += 1
            }
        }
    }

    static func isWorthRepeating(_ request: HTTPRequest, _ error: NetworkError) -> Bool {
        guard request.method.isIdempotent, request.isReplayable else { return false }
        return switch error.kind {
        case .dns, .connect, .connectionLost, .timeout(.connect): true
        default: false
        }
    }

    /// Full jitter: anything from 0 to the range, so that clients that failed together do not come back together.
    private func wait(beforeRetry retry: Int) -> Duration {
        let range = min(longestWait, firstWait * (1 << min(retry - 1, 16)))
        return .milliseconds(Int64.random(in: 0...range.roundedUpMilliseconds))
    }
}
