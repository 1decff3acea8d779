import HTTPCore
import Platform

/// Has a request wait for the network when no connection came about, where that is wanted, and sends it again when its
/// server can be connected to.
struct ConnectivityRoom: Room {
    /// The longest a request waits.
    let limit: Duration
    let limits: TimeLimits
    let waitUntilReachable: @Sendable (_ url: String, _ limit: Duration) async -> Bool

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let clock = limits.clock
        var end: Duration?
        var pause = Duration.milliseconds(100)
        while true {
            do {
                return try await chain.proceed(request)
            } catch let error as NetworkError
                where call.isReplayable && call.sent.allows(.connectivity, after: .failure(error))
            {
                let deadline = end ?? clock.now() + limit
                end = deadline
                let left = deadline - clock.now()
                // The server that could not be connected to: that of a mirror, or of a redirect.
                let url = call.sent.last?.url ?? request.url
                call.watch?.record(.waiting(.connectivity))
                guard left > .zero,
                    try await limits.run(for: call, { [waitUntilReachable] in await waitUntilReachable(url, left) })
                else {
                    try Task.checkCancellation()
                    throw error
                }
                // A probe gets through and the request does not: not over and over at full speed.
                try await clock.wait(min(pause, deadline - clock.now()), for: call)
                pause = min(pause * 2, .seconds(5))
            }
        }
    }
}
