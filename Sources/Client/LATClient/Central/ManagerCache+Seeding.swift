public import FoundationEssentials
public import HTTPCore
import ResponseCache

extension CacheOperations {
    /// Stores a response that did not come from the network, and returns whether it was stored: with `onlyIfAbsent` an
    /// existing entry stays.
    ///
    /// - Throws: ``NetworkError/Kind/cache`` for a response that no policy would use, and when the store fails.
    func seed(
        _ response: HTTPResponse, _ body: Data, to request: HTTPRequest, _ call: Call, onlyIfAbsent: Bool
    ) async throws -> Bool {
        let ticket: Ticket
        let entry: CacheEntry
        do throws(CacheRefusal) {
            ticket = try await place(of: completed(request), call)
            if let refusal = StorageRule.refusal(
                ofAppResponse: response, to: request, byteCount: Int64(body.count), storesUnsafe: storesUnsafe(request),
                ticket.mode)
            {
                throw refusal
            }
            let now = storage.now()
            guard
                let made = StoredResponseCoding.entry(
                    response, to: request, ticket.identity, url: ticket.url, primary: ticket.primary,
                    varyFields: TimeToLiveRule.varyFields(of: response), requestTime: now, responseTime: now,
                    ticket.mode)
            else { throw CacheRefusal.noKey }
            entry = made
        } catch {
            throw NetworkError(.cache, message: "the response is not stored: \(error)", request: request)
        }
        let store = try await storage.store()
        if ticket.identity.credentials != nil { storage.identityKey.save() }
        let writer = try await store.writer(for: entry, replacing: onlyIfAbsent ? .nothing : .anything)
        if !body.isEmpty { try await writer.append(body) }
        if case .superseded = try await writer.commit() { return false }
        storage.ledger.counters.countStored(body.count)
        return true
    }
}

extension CentralRequestManager.Cache {
    /// Stores a response to a GET of a URL by hand, for example one from the app's bundle.
    ///
    /// ```swift
    /// try await manager.cache.store(data, for: "/cities", headers: ["Content-Type": "application/json"],
    ///     onlyIfAbsent: true)
    /// let first = try await manager.startRequest("GET", "/cities", cache: .cacheOnly)
    /// ```
    ///
    /// The entry is the same as if the server had sent the response now. The app's own policies use it like any other;
    /// ``CachePolicy/http`` uses it for as long as its fields say (`Cache-Control: max-age=…`), or revalidates it by its
    /// `ETag`. The request is composed as if it were sent (``explain(_:cache:)``), so its key includes the credentials of
    /// manager and providers (unless the response is `public`), the partition, and the fields that `Vary` names.
    ///
    /// - Parameters:
    ///   - body: the body without a content coding.
    ///   - url: a URL, or a path that is joined to the manager's base URL.
    ///   - status: the status of the response. Default: 200.
    ///   - headers: the fields of the response. Default: none.
    ///   - onlyIfAbsent: whether an existing entry stays, however old. Default: `false`, it is replaced.
    /// - Returns: whether it was stored.
    /// - Throws: ``NetworkError`` of kind `cache` for a response that no policy would use, such as an error without
    ///   freshness, and when the store fails or is full.
    @discardableResult
    public func store(
        _ body: Data, for url: String, status: Int = 200, headers: HTTPHeaders = HTTPHeaders(),
        onlyIfAbsent: Bool = false
    ) async throws -> Bool {
        try await store(
            body, for: HTTPRequest("GET", url), status: status, headers: headers, onlyIfAbsent: onlyIfAbsent)
    }

    /// Stores a response to a request by hand; see ``store(_:for:status:headers:onlyIfAbsent:)``. The key also includes
    /// the request's method and body.
    ///
    /// - Throws: as ``store(_:for:status:headers:onlyIfAbsent:)``.
    @discardableResult
    public func store(
        _ body: Data, for request: HTTPRequest, status: Int = 200, headers: HTTPHeaders = HTTPHeaders(),
        onlyIfAbsent: Bool = false
    ) async throws -> Bool {
        let manager = try requireManager()
        let call = try manager.call(request)
        let request = try await manager.pipeline.requestAtCache(call)
        let response = HTTPResponse(status: status, headers: headers, url: request.url)
        return try await manager.pipeline.cacheOperations.seed(
            response, body, to: request, call, onlyIfAbsent: onlyIfAbsent)
    }
}
