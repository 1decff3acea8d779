public import HTTPCore
public import ResponseCache

/// Thrown by the stage that replaces the cache's stages, with the request that has reached it.
struct CacheProbe: Error {
    let request: HTTPRequest

    private struct End: Stage {
        func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
            throw CacheProbe(request: request)
        }
    }

    static let stages: [StagePlace: any Stage] = [
        .cache: End(), .cacheOfSealed: End(), .httpCache: End(), .httpCacheOfOpened: End(),
    ]
}

extension CacheOperations {
    /// Explains what the cache would do with a request that reaches it.
    ///
    /// - Throws: ``NetworkError`` when the store fails.
    func explain(
        _ request: HTTPRequest, _ call: Call, _ policy: CachePolicy, from source: CacheExplanation.PolicySource
    ) async throws -> CacheExplanation {
        let request = completed(request)
        let now = storage.now()
        func question(_ identity: RequestIdentity) -> CacheExplanation.Question {
            CacheExplanation.Question(
                request, identity, policy, from: source, servesStaleWhenDisconnected: servesStaleWhenDisconnected,
                mode(of: call))
        }
        let ticket: Ticket
        do throws(CacheRefusal) {
            ticket = try await place(
                of: request, call,
                method: policy == .http ? HTTPCacheStage.method(of: request) : nil)
        } catch {
            return CacheExplanation(question(.everybody), bypasses: policy == .networkOnly ? .policy : error, at: now)
        }
        let store = try await storage.store()
        let others = try await store.inspecting?.entries(.url(ticket.url.text)) ?? []
        var explanation = CacheExplanation(
            question(ticket.identity), entries: try await store.entries(for: ticket.primary),
            others: others.filter { $0.key.primary != ticket.primary },
            lastRefusal: storage.ledger.refusals.last(of: ticket.primary), at: now)
        if policy == .http, usesDictionaries(request) {
            switch explanation.verdict {
            case .fetches, .revalidates, .answersStale(isRefreshed: true):
                explanation.dictionary = await dictionary(for: request, ticket)?.entry
            default: break
            }
        }
        return explanation
    }
}

extension CentralRequestManager.Cache {
    /// Explains what the cache would do with a GET of a URL now, and why.
    ///
    /// ```swift
    /// print(try await manager.cache.explain("/cities"))
    /// ```
    ///
    /// The request is composed as if it were sent: the app's providers, authenticator and interceptors are called. Nothing is
    /// sent, and nothing stored changes.
    ///
    /// - Parameters:
    ///   - url: an absolute URL, or a path below the base URL.
    ///   - policy: the policy of the call; `nil`, the default, for the manager's.
    /// - Throws: ``NetworkError`` when the store fails, or the request cannot be composed.
    public func explain(_ url: some URLConvertible, cache policy: CachePolicy? = nil) async throws -> CacheExplanation {
        var request = HTTPRequest("GET", url.urlText)
        request.cachePolicy = policy
        return try await explain(request)
    }

    /// Explains what the cache would do with a request now, and why, given its credentials and the fields in `Vary`.
    ///
    /// - Throws: as ``explain(_:cache:)``.
    public func explain(_ request: HTTPRequest) async throws -> CacheExplanation {
        let manager = try requireManager()
        let call = try manager.call(request)
        return try await manager.explain(call, from: request.cachePolicy == nil ? .manager : .call)
    }

    func requireManager() throws -> CentralRequestManager {
        guard let manager = manager() else {
            throw NetworkError(.cache, message: "this cache's manager was released; keep the manager while you use it")
        }
        return manager
    }
}

extension CentralRequestManager {
    func explain(
        _ call: Call, from source: CacheExplanation.PolicySource
    ) async throws -> CacheExplanation {
        let request = try await pipeline.requestAtCache(call)
        return try await pipeline.cacheOperations.explain(
            request, call, request.cachePolicy ?? configuration.cachePolicy, from: source)
    }
}
