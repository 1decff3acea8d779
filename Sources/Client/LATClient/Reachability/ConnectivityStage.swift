import HTTPCore
import Platform

/// Lets a request that could not connect wait for the network, and sends it again when its server can be connected to.
struct ConnectivityStage: Stage {
    let limit: Duration
    let limits: TimeLimits
    /// - Parameter target: A URL, or the name of a domain, whose pins and `tls` then apply.
    let waitUntilReachable: @Sendable (_ target: String, _ limit: Duration) async -> Bool

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let clock = limits.clock
        var end: Duration?
        var backoff = Backoff(first: .milliseconds(100), longest: .seconds(5))
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
                let origin = URLReference.origin(of: url)
                let isOfDomain = call.details.addresses.contains { URLReference.origin(of: $0) == origin }
                let target = isOfDomain ? call.details.row?.domain ?? url : url
                call.watch?.record(.waiting(.connectivity))
                guard left > .zero,
                    try await limits.run(for: call, { [waitUntilReachable] in await waitUntilReachable(target, left) })
                else {
                    try Task.checkCancellation()
                    throw error
                }
                // The wait before each try grows, because a request may keep failing although every probe succeeds.
                try await clock.wait(min(backoff.next(), deadline - clock.now()), for: call)
                call.watch?.record(.waited(.connectivity))
            }
        }
    }
}
