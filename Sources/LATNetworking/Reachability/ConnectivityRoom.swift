import HTTPCore
import Platform

/// Lets a request that could not connect wait for the network, and sends it again when its server can be connected to.
struct ConnectivityRoom: Room {
    /// The maximum time that a request waits.
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
                // The failed connection may have been to a mirror, or to the target of a redirect.
                let url = call.sent.last?.url ?? request.url
                call.watch?.record(.waiting(.connectivity))
                guard left > .zero,
                    try await limits.run(for: call, { [waitUntilReachable] in await waitUntilReachable(url, left) })
                else {
                    try Task.checkCancellation()
                    throw error
                }
                // If a probe succeeds and the request still fails, wait before the next try.
                try await clock.wait(min(pause, deadline - clock.now()), for: call)
                pause = min(pause * 2, .seconds(5))
            }
        }
    }
}
