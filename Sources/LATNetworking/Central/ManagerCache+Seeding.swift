public import FoundationEssentials
public import HTTPCore
import ResponseCache

extension CacheOperations {
    /// Stores an answer that did not come from the network.
    ///
    /// - Returns: Whether it was stored: `false` where another one was in its place already and was to stay.
    /// - Throws: ``NetworkError/Kind/cache`` for an answer that no policy would use, and when the store fails.
    func seed(
        _ response: HTTPResponse, _ body: Data, to request: HTTPRequest, _ call: Call, onlyIfAbsent: Bool
    ) async throws -> Bool {
        let (ticket, entry): (Ticket, CacheEntry)
        do throws(CacheRefusal) {
            (ticket, entry) = try await seed(response, to: request, call, byteCount: Int64(body.count))
        } catch {
            throw NetworkError(.cache, message: "the answer is not stored: \(error)", request: request)
        }
        let store = try await storage.store()
        if ticket.identity.credentials != nil { storage.identityKey.save() }
        let writer = try await store.writer(for: entry, replacing: onlyIfAbsent ? .nothing : .anything)
        if !body.isEmpty { try await writer.append(body) }
        if case .superseded = try await writer.commit() { return false }
        storage.ledger.counters.countStored(body.count)
        return true
    }

    private func seed(
        _ response: HTTPResponse, to request: HTTPRequest, _ call: Call, byteCount: Int64
    ) async throws(CacheRefusal) -> (Ticket, CacheEntry) {
        let ticket = try await place(of: request, call)
        if let refusal = StorageRule.refusal(
            ofSeed: response, to: request, byteCount: byteCount, storesUnsafe: storesUnsafe(request), mode)
        {
            throw refusal
        }
        let now = storage.now()
        guard
            let entry = StoredAnswer.entry(
                response, to: request, ticket.identity, url: ticket.url, primary: ticket.primary,
                varyFields: TimeToLiveRule.varyFields(of: response.headers), requestTime: now, responseTime: now,
                mode)
        else { throw .noKey }
        return (ticket, entry)
    }
}

extension CentralRequestManager.Cache {
    /// Stores an answer to a GET of a URL by hand, from the app's bundle for one.
    ///
    /// ```swift
    /// try await manager.cache.store(cities, for: "/cities", headers: ["Content-Type": "application/json"],
    ///     onlyIfAbsent: true)
    /// let first = try await manager.startRequest("GET", "/cities", cache: .cacheOnly)
    /// ```
    ///
    /// It is as if the server had answered so now: the app's own policies use it as they use any other, and ``CachePolicy/http``
    /// for as long as its fields say (`Cache-Control: max-age=…`), or to ask by its `ETag`. The request is put together
    /// as when it is sent (``explain(_:cache:)``): the credentials of manager and providers count, unless the answer says
    /// `public`, and so do the partition and what `Vary` names.
    ///
    /// - Parameters:
    ///   - body: the body as it is read: without a coding.
    ///   - url: a URL, or a path that is joined to the manager's base URL.
    ///   - status: the status of the answer. Default: 200.
    ///   - headers: the fields of the answer. Default: none.
    ///   - onlyIfAbsent: whether what is stored already stays, however old. Default: `false`, it is replaced.
    /// - Returns: Whether it was stored.
    /// - Throws: ``NetworkError`` of kind `cache` for an answer that no policy would use, such as an error without
    ///   freshness, and when the store fails or has no room.
    @discardableResult
    public func store(
        _ body: Data, for url: String, status: Int = 200, headers: HTTPHeaders = HTTPHeaders(),
        onlyIfAbsent: Bool = false
    ) async throws -> Bool {
        try await store(
            body, for: HTTPRequest("GET", url), status: status, headers: headers, onlyIfAbsent: onlyIfAbsent)
    }

    /// Stores an answer to a request by hand; see ``store(_:for:status:headers:onlyIfAbsent:)``. Its method, fields,
    /// credentials, partition and, where ``HTTPRequest/cachesUnsafeMethods`` is set, its body count.
    @discardableResult
    public func store(
        _ body: Data, for request: HTTPRequest, status: Int = 200, headers: HTTPHeaders = HTTPHeaders(),
        onlyIfAbsent: Bool = false
    ) async throws -> Bool {
        let manager = try living()
        let call = manager.makeCall(manager.located(request))
        let request = try await manager.corridor.requestAtCache(call)
        let response = HTTPResponse(status: status, headers: headers, url: request.url)
        return try await manager.corridor.cacheOperations.seed(
            response, body, to: request, call, onlyIfAbsent: onlyIfAbsent)
    }
}
