import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

/// What the cache decided for one request, for the `Cache-Status` of its response. It exists only where that was asked for.
final class CacheDecision: Sendable {
    private let last = Mutex<(verdict: CacheExplanation.Verdict?, remaining: Double?)>((nil, nil))

    func note(_ verdict: CacheExplanation.Verdict) { last.withLock { $0.verdict = verdict } }

    /// - Parameter remaining: the seconds for which the stored response is still fresh.
    func note(remaining: Double) { last.withLock { $0.remaining = remaining } }

    /// The response with this cache's member of `Cache-Status` after those of other caches (RFC 9211 §2).
    func marked(_ response: HTTPResponse, by name: String) -> HTTPResponse {
        let (verdict, remaining) = last.withLock { $0 }
        let failure = response.standsInFor
        let status = Self.status(
            response.status, response.source, verdict, remaining: remaining, failure: failure, name)
        guard let field = status.field else { return response }
        var response = response
        response.headers.append("Cache-Status", field)
        return response
    }

    /// - Parameters:
    ///   - status: that of the response.
    ///   - failure: The failure of the network that the response stands in for.
    static func status(
        _ status: Int, _ source: HTTPResponse.Source, _ verdict: CacheExplanation.Verdict?, remaining: Double?,
        failure: NetworkError? = nil, _ name: String
    ) -> HTTPResponse.CacheStatus {
        var result = HTTPResponse.CacheStatus(cache: name)
        switch source {
        case .memoryCache, .diskCache, .remoteCache, .stale:
            guard status != 504 || remaining != nil else {
                // Nothing was stored, and the request was not to be sent.
                result.detail = "only-if-cached"
                return result
            }
            // A request that was sent is no hit, whatever came of it (§2.1).
            result.isHit = failure == nil
            if let failure { (result.forward, result.forwardStatus) = (reason(verdict), failure.response?.status) }
            result.timeToLive = remaining.flatMap { Int(exactly: $0.rounded(.down)) }
        case .revalidated:
            result.forward = reason(verdict)
            result.forwardStatus = 304
        case .network, .simulated:
            result.forward = reason(verdict)
            result.forwardStatus = status
        }
        return result
    }

    /// The value of `fwd` (RFC 9211 §2.2).
    private static func reason(_ verdict: CacheExplanation.Verdict?) -> String {
        switch verdict {
        case .revalidates(let miss)?, .fetches(let miss)?, .fails(let miss)?: reason(miss)
        case .bypasses(.method)?: "method"
        case .bypasses?, nil: "bypass"
        case .answers?, .answersFirst?, .answersStale?: "stale"
        }
    }

    private static func reason(_ miss: CacheMiss) -> String {
        switch miss {
        case .nothingStored: "uri-miss"
        case .otherVariant: "vary-miss"
        case .requestNoStore, .requestNoCache, .olderThanWanted, .notFreshEnough, .condition: "request"
        case .noCache, .expired, .markedExpired, .fromTheFuture: "stale"
        case .range, .incomplete: "partial"
        case .policy: "bypass"
        case .otherCredentials, .older, .redirected, .refused, .bodyLost: "miss"
        }
    }
}

extension CacheOperations {
    /// The name under which this cache adds itself to `Cache-Status`; `nil` if it does not.
    func statusName(of request: HTTPRequest) -> String? {
        guard let name = request.cacheStatus ?? cacheStatus, !name.isEmpty else { return nil }
        return name
    }
}

extension CacheStage {
    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard let name = operations.statusName(of: request) else { return try await answer(to: request, chain) }
        var stage = self
        let decision = CacheDecision()
        stage.decision = decision
        return decision.marked(try await stage.answer(to: request, chain), by: name)
    }

    func note(_ verdict: @autoclosure () -> CacheExplanation.Verdict, _ call: Call) {
        decision?.note(verdict())
        call.watch?.record(.cache(verdict()))
    }
}
