import HTTPCore

/// Has a request wait for the network when no connection came about, where that is wanted, and sends it again when its
/// server can be connected to.
///
/// Nothing of such a request has left, so that this is right for every method; but for a body that can be read only
/// once.
struct ConnectivityInterceptor: Interceptor {
    /// The manager's choice.
    let waits: Bool
    let limit: Duration
    let waitUntilReachable: @Sendable (_ url: String, _ limit: Duration) async -> Bool

    func isIdle(for request: HTTPRequest) -> Bool { !(request.waitsForConnectivity ?? waits) }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let clock = ContinuousClock()
        var end: ContinuousClock.Instant?
        var pause = Duration.milliseconds(100)
        while true {
            do {
                return try await next(request)
            } catch let error as NetworkError where Self.isWaitedFor(error) && request.isReplayable {
                let deadline = end ?? clock.now + limit
                end = deadline
                let url = error.request?.url ?? request.context.addresses.first ?? request.url
                guard clock.now < deadline, await waitUntilReachable(url, deadline - clock.now) else {
                    try Task.checkCancellation()
                    throw error
                }
                // A probe gets through and the request does not: not over and over at full speed.
                try await clock.sleep(for: min(pause, deadline - clock.now))
                pause = min(pause * 2, .seconds(5))
            }
        }
    }

    private static func isWaitedFor(_ error: NetworkError) -> Bool {
        switch error.kind {
        case .dns, .connect, .timeout(.connect): true
        default: false
        }
    }
}
