import CurlTransport
import HTTPCore
import Platform

/// Follows redirects, hop by hop, as ``RedirectRule`` decides.
///
/// The engine collects a redirect's body when it is short and arrives soon, so that the connection can serve the next
/// hop. Otherwise the body is a stream, which is abandoned when the redirect is followed, and read when it is not.
struct RedirectStage: Stage {
    let policy: RedirectPolicy
    let rule: RedirectRule
    let handler: RedirectHandler?
    /// The total timeout of a request that sets none.
    let timeout: Duration?
    let limits: TimeLimits

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let response = try await chain.proceed(request)
        return mayFollow(response) ? try await follow(response, to: request, chain) : response
    }

    func mayFollow(_ response: HTTPResponse) -> Bool { (300...399).contains(response.status) }

    /// Follows redirects from the first response on. Returns the first response that is not followed.
    func follow(_ first: HTTPResponse, to request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard let limit = limit(for: request) else { return first }
        var response = first
        var request = request
        var hops: [HTTPResponse.Redirect] = []
        var vary: [String] = []
        // The time that is left. Waiting for a free connection does not count.
        var left = request.timeout ?? (request.streamsBody == true ? nil : timeout)
        left? -= Self.duration(of: response)
        var rule = rule
        rule.secrets = rule.secrets.union(request.context.rowSecrets)
        do {
            while true {
                // A body that has not been collected is hidden from the rule, the handler and errors.
                var head = response
                if head.body.isStream { head.body = .empty }
                guard let proposed = try rule.next(after: head, to: request) else { break }
                guard hops.count < limit else { throw tooMany(limit, hops, request, head) }
                guard let following = try await decide(proposed, rule, hops, request, head, chain.call) else { break }
                hops.append(.init(url: response.url, status: response.status))
                vary += response.headers[values: "Vary"]
                response.body.abandon()
                request = following
                if let left {
                    guard left > .zero else { throw late(request) }
                    request.timeout = left
                }
                response = try await chain.following(hop: hops.count).proceed(request)
                left? -= Self.duration(of: response)
            }
            if mayFollow(response), response.body.isStream, request.streamsBody != true {
                response.body = ResponseBody(try await response.body.collect(upTo: .max))
            }
        } catch {
            response.body.abandon()
            throw error
        }
        response.redirects = hops
        if !vary.isEmpty { response.redirectsVary = vary }
        return response
    }

    /// Asks the handler. Returns `nil` when the call ends with this response.
    private func decide(
        _ next: HTTPRequest, _ rule: RedirectRule, _ hops: [HTTPResponse.Redirect], _ request: HTTPRequest,
        _ response: HTTPResponse, _ call: Call
    ) async throws -> HTTPRequest? {
        guard let handler else { return next }
        let hop = RedirectPolicy.Hop(
            request: request, response: response, next: next, hops: hops,
            changesOrigin: URLReference.origin(of: next.url) != URLReference.origin(of: response.url))
        let decision: RedirectPolicy.Decision
        do {
            decision = try await limits.run(for: call) { try await handler(hop) }
        } catch {
            guard !(error is CancellationError), !call.isCancelled else { throw error }
            throw NetworkError(
                .provider, message: "the redirect handler threw: \(error)", request: request, response: response,
                underlying: error)
        }
        switch decision {
        case .stop: return nil
        case .refuse(let reason): throw RedirectRule.refusal(reason, request, response)
        case .follow(var changed):
            // The handler's fields are meant for the origin of `next`; for another origin, secrets are removed.
            guard URLReference.origin(of: changed.url) != URLReference.origin(of: next.url) else { return changed }
            try rule.restrict(&changed, from: next.url, request, response)
            try rule.restrict(&changed, from: response.url, request, response)
            return changed
        }
    }

    private func limit(for request: HTTPRequest) -> Int? {
        switch request.redirects == .automatic ? policy : request.redirects {
        case .none: nil
        case .follow(let limit): max(0, limit)
        case .automatic: 20
        }
    }

    private func tooMany(
        _ limit: Int, _ hops: [HTTPResponse.Redirect], _ request: HTTPRequest, _ response: HTTPResponse
    ) -> NetworkError {
        let isLoop = hops.contains { $0.url == response.url }
        let way = hops.suffix(3).map { URLParts.redacted($0.url) }.joined(separator: " → ")
        return NetworkError(
            .redirect,
            message: (isLoop ? "the redirects form a loop" : "there are more than \(limit) redirects")
                + (way.isEmpty ? "" : ": \(way)")
                + "; raise the limit with redirects = .follow(limit:), or set redirects = .none to see the response itself",
            request: request, response: response)
    }

    private func late(_ request: HTTPRequest) -> NetworkError {
        NetworkError(.timeout(.total), message: "the redirects took the whole timeout; raise it", request: request)
    }

    private static func duration(of response: HTTPResponse) -> Duration {
        response.timings.total ?? response.timings.firstByte ?? .zero
    }
}
