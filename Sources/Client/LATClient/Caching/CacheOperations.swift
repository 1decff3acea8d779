import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform
import ResponseCache

/// The operations that both cache stages share: keys, look-ups, responses, storing.
struct CacheOperations: Sendable {
    /// A response, and whether a look-up already finds it.
    typealias Fetched = (response: HTTPResponse, isStored: Bool)

    let storage: CacheStorage
    /// The policy of a request that sets none.
    let standard: CachePolicy
    /// The total timeout of a request that sets none.
    let timeout: Duration?
    let limits: TimeLimits
    /// Names of parameters that are not part of cache keys, in addition to those of the request's rows.
    let volatileParameters: Set<String>
    /// The app's version of its stored content.
    let version: Int
    /// Whether responses to methods other than GET and HEAD are stored by default.
    let cachesUnsafeMethods: Bool
    /// The fields that hold credentials.
    let secrets: Secrets
    /// The jar whose cookies are added to requests; `nil` when cookies are not kept.
    let cookies: CookieJar?
    /// Adds the credentials that the netrc file has for a request; `nil` without such a file.
    let fileCredentials: (@Sendable (HTTPRequest) -> HTTPRequest)?
    /// Which redirects requests follow that do not say.
    let redirects: RedirectPolicy
    /// Decides which responses of calls without a judge of their own are stored; `nil` for all.
    let verdict: ReplyDecoder?
    let managerCredentials: ManagerCredentials
    let demands: CacheDemands
    /// The Unix domain socket of requests that name none.
    let unixSocketPath: String?
    /// The maximum number of bytes of a collected body.
    let maxBodySize: Int64
    /// Whether a stale response may replace any network failure (RFC 9111 §4.2.4).
    let servesStaleWhenDisconnected: Bool
    /// After what time a stale response replaces a slow one.
    let staleAfter: Duration?
    /// The name under which the cache adds itself to `Cache-Status`; `nil` for not.
    let cacheStatus: String?
    /// Whether stored responses serve as dictionaries for requests that do not say.
    let usesDictionaries: Bool
    /// Whether the cache is shared by several users.
    let mode: CacheMode
    let flights = FlightTable()
    let dictionaries = DictionaryTable()

    /// The key of a request in the store, with the identity of its sender.
    struct Ticket: Sendable {
        let url: CanonicalURL
        let primary: String
        let identity: RequestIdentity
        /// The lease under which the response is fetched.
        var lease: CacheLease?
        /// The rules for its response.
        let mode: CacheMode

        /// The key of the flight that equal requests share.
        var flight: String { identity.credentials.map { primary + $0 } ?? primary }
    }

    /// The rules for a call's response. A partition belongs to one user, so the rules of a private cache apply to it.
    func mode(of call: Call) -> CacheMode { call.details.partition == nil ? mode : .private }

    func policy(of request: HTTPRequest) -> CachePolicy { request.cachePolicy ?? standard }

    /// The ticket of an ``completed(_:)`` request.
    ///
    /// - Parameter method: The method whose response is looked up; `nil` for the request's own.
    /// - Returns: `nil` if the response is never stored: for a method that is not cached, or a body whose bytes are not
    ///   known before it is sent.
    func ticket(for request: HTTPRequest, _ call: Call, method: HTTPMethod? = nil) async -> Ticket? {
        do {
            return try await place(of: request, call, method: method)
        } catch {
            if method == nil { call.watch?.record(.cache(.bypasses(error))) }
            return nil
        }
    }

    /// The same as ``ticket(for:_:method:)``, but throws the reason if the response is never stored.
    func place(
        of request: HTTPRequest, _ call: Call, method: HTTPMethod? = nil
    ) async throws(CacheRefusal) -> Ticket {
        var body: Data?
        let counted = method ?? request.method
        let isSafe = counted == .get || counted == .head
        guard isSafe || storesUnsafe(request) else { throw .method(counted.rawValue) }
        // The body is part of the key, except for a POST whose response serves later GETs.
        if !isSafe || request.body != nil && method != .get {
            guard let bytes = Self.bytes(of: request.body) else { throw .requestBody }
            body = bytes
        }
        guard let url = CanonicalURL(request.url), let primary = primary(counted, url, request, call, body)
        else { throw .noKey }
        let identity = RequestIdentity(
            of: request, partition: call.details.partition, secrets: secrets,
            cookies: cookieText(for: request), manager: managerCredentials.texts(for: request),
            key: { storage.identityKey.bytes })
        return Ticket(url: url, primary: primary, identity: identity, mode: mode(of: call))
    }

    /// A request with the credentials of the netrc file, which the engine would add too, and the manager's rule for redirects.
    func completed(_ request: HTTPRequest) -> HTTPRequest {
        var request = fileCredentials?(request) ?? request
        if redirects != .automatic, request.redirects == .automatic { request.redirects = redirects }
        return request
    }

    /// All cookies that the jar may add to a request, whatever their paths.
    private func cookieText(for request: HTTPRequest) -> String? {
        guard let cookies,
            // `Cookie: nil` suppresses the jar's cookies.
            !request.headers.fields.contains(where: { $0.value == nil && $0.name.equalsIgnoringASCIICase("Cookie") })
        else { return nil }
        let own = cookies.all(reaching: request)
        guard !own.isEmpty else { return nil }
        return own.map { "\($0.domain)\($0.path);\($0.name)=\($0.value)" }.sorted().joined(separator: "\n")
    }

    /// Whether the response to a method other than GET and HEAD is to be stored. QUERY is cacheable as it is (RFC 10008
    /// §2.7). PUT, PATCH and DELETE change the resource (RFC 9110 §9.3.4, §9.3.5), so they always go to the server.
    func storesUnsafe(_ request: HTTPRequest) -> Bool {
        switch request.method {
        case .get, .head, .put, .patch, .delete: false
        case .query: true
        default: request.cachesUnsafeMethods ?? cachesUnsafeMethods
        }
    }

    private func primary(
        _ method: HTTPMethod, _ url: CanonicalURL, _ request: HTTPRequest, _ call: Call, _ body: Data?
    ) -> String? {
        var rule = KeyRule(
            volatileParameters: volatileParameters, partition: call.details.partition, version: version)
        if let row = call.details.row { rule.volatileParameters.formUnion(row.volatileParameters) }
        let unix = UnixAddress.isOne(request.url) ? (try? UnixAddress(request.url))?.socketPath : nil
        let (socket, host) = (unix ?? request.unixSocketPath ?? unixSocketPath, request.headers["Host"])
        var place = socket == nil && host == nil ? [] : [socket ?? "", host?.lowercased() ?? ""]
        place += demands.parts(of: request)
        // What describes the content is part of the question.
        let contentType = body.flatMap { _ in
            let fields = [
                request.headers["Content-Type"] ?? request.body?.contentType, request.headers["Content-Encoding"],
                request.headers["Content-Language"],
            ]
            return fields[1] == nil && fields[2] == nil
                ? fields[0] : fields.map { $0 ?? "" }.joined(separator: ";\u{0}")
        }
        return rule.primary(method: method.rawValue, url: url, body: body, contentType: contentType, place: place)
    }

    private static func bytes(of body: HTTPBody?) -> Data? {
        switch body?.content {
        case nil: Data()
        case .data(let data): data
        case .encoded(let encoder): try? encoder.encode()
        case .parameters, .file, .stream, .multipart: nil
        }
    }

    // MARK: Reading

    func entries(_ ticket: Ticket, _ urgency: WriteBehind.Urgency = .optional) async -> [CacheEntry] {
        let found = await storage.behind?.entries(for: ticket.primary, urgency) ?? []
        if found.indices.allSatisfy({ found[$0].isCredible(for: ticket.primary) }) { return found }
        storage.report(Self.fault("an entry with another key, or a body of the wrong length"), "check its entries")
        return found.filter { $0.isCredible(for: ticket.primary) }
    }

    /// The error for a store of the app that breaks its contract.
    private static func fault(_ what: String) -> NetworkError {
        NetworkError(
            .cache,
            message: "the response cache's store returned \(what), which is ignored; test the store with "
                + "CacheStoreConformance of LATTesting")
    }

    /// The body of an entry in the form the request wants, collected or as a stream; `nil` when it is gone.
    ///
    /// - Throws: ``NetworkError/Kind/bodyTooLarge`` if it exceeds the limit that applies to a body from the network.
    func body(
        of entry: CacheEntry, for request: HTTPRequest, part: Range<Int64>? = nil,
        _ urgency: WriteBehind.Urgency = .optional
    ) async throws -> ResponseBody? {
        let limit = limit(for: request)
        guard Int64(part?.count ?? Int(clamping: entry.bodyByteCount)) <= limit else {
            throw NetworkError.bodyTooLarge(limit: limit)
        }
        guard let stored = await storage.behind?.body(of: entry, urgency),
            // A body attached to the entry was checked by the look-up.
            var body = entry.attachedBody == nil ? measured(stored, of: entry) : stored
        else { return nil }
        if let part {
            guard let cut = body.part(part) else { return nil }
            body = cut
        }
        guard body.isStream, request.streamsBody != true else { return body }
        do {
            return ResponseBody(try await body.collect(upTo: Int(clamping: limit)))
        } catch let error as CancellationError {
            throw error
        } catch {
            storage.report(error, "read")
            return nil
        }
    }

    /// The maximum number of bytes of a body that a request reads.
    func limit(for request: HTTPRequest) -> Int64 {
        request.maxBodySize ?? (request.streamsBody == true ? .max : maxBodySize)
    }

    /// Checks the length of a stored body, because a store of the app may truncate it. If it is wrong, a stream throws,
    /// and a collected body gives `nil`.
    private func measured(_ body: ResponseBody, of entry: CacheEntry) -> ResponseBody? {
        let mismatch = Self.fault("a body with another number of bytes than the \(entry.bodyByteCount) stored")
        let measured = ResponseBody.joining([body], byteCount: entry.bodyByteCount, else: mismatch)
        if measured == nil { storage.report(mismatch, "read") }
        return measured
    }

    /// The response of a stored success; `nil` when its body is gone.
    ///
    /// - Parameter timeToLive: The app's lifetime for the entry, if it sets one.
    func response(
        _ entry: CacheEntry, to request: HTTPRequest, isStale: Bool, timeToLive: CachePolicy.TimeToLive? = nil,
        _ urgency: WriteBehind.Urgency = .optional
    ) async throws -> HTTPResponse? {
        guard let body = try await body(of: entry, for: request, urgency) else { return nil }
        var response = StoredResponseCoding.response(entry, to: request)
        response.body = body
        response.source = isStale ? .stale : source(of: entry)
        storage.behind?.touch(entry, interval: TimeToLiveRule.touchInterval(timeToLive))
        return response
    }

    func source(of entry: CacheEntry) -> HTTPResponse.Source {
        switch entry.tier {
        case .memory: .memoryCache
        case .disk: .diskCache
        case .remote: .remoteCache
        }
    }

    /// Records a use only now and then, which is enough for policies that ignore the time of the last use, such as
    /// ``CachePolicy/http``.
    func touchRarely(_ entry: CacheEntry) {
        let interval = TimeToLiveRule.touchInterval(nil)
        guard abs(storage.now().timeIntervalSince(entry.lastUse)) >= interval else { return }
        storage.behind?.touch(entry, interval: interval)
    }

    // MARK: Writing

    /// Whether a response came from another address than that of its request, so that the URL and the identity of the request,
    /// of which cookies are a part, are not those that were sent.
    static func isFromElsewhere(_ call: Call) -> Bool { call.sent.addressIndex != nil }

    /// Marks an entry as expired for every call.
    func markExpired(_ entry: CacheEntry) async {
        let expired = ExpiryMark.set(on: entry)
        guard !entry.isExpired || expired.headers != entry.headers else { return }
        await storage.behind?.update(expired)
    }

    /// Stores a response without waiting for the store. A stream is stored while it is read.
    ///
    /// - Parameters:
    ///   - policy: The cache policy of the request.
    ///   - candidate: The entry that was revalidated. If another response has replaced it since, that one stays.
    func store(
        _ response: HTTPResponse, to request: HTTPRequest, _ call: Call, _ ticket: Ticket, under policy: CachePolicy,
        replacing candidate: CacheEntry? = nil, requestTime: Date, responseTime: Date
    ) async -> Fetched {
        guard response.source == .network, !Self.isFromElsewhere(call) else { return (response, false) }
        if let refusal = verdict(on: response, call) {
            refuse(ticket, refusal, call)
            return (response, false)
        }
        let varyFields =
            policy == .http
            ? VaryRule.fields(of: response.headers) : TimeToLiveRule.varyFields(of: response)
        guard let behind = storage.behind,
            var entry = StoredResponseCoding.entry(
                response, to: request, ticket.identity, url: ticket.url, primary: ticket.primary,
                varyFields: varyFields, requestTime: requestTime, responseTime: responseTime, ticket.mode)
        else { return (response, false) }
        entry.domain = call.details.row?.domain
        entry.server = call.details.row?.server
        entry.lease = ticket.lease
        if policy == .http { markDictionary(&entry, response, to: request, ticket) }
        entry.retainUntil = RetentionRule.end(
            of: entry, under: policy,
            servesStale: servesStaleWhenDisconnected || (request.staleAfter ?? staleAfter) != nil, ticket.mode)
        let replacing = candidate.map { CacheReplacement(of: $0, by: entry) } ?? .anything
        if ticket.identity.credentials != nil { behind.needPreparation() }
        if let data = response.body.data {
            guard StorageRule.isComplete(response, byteCount: Int64(data.count), method: request.method) else {
                refuse(ticket, .incomplete, call)
                return (response, false)
            }
            // What an unsafe request invalidates is not its own response (RFC 9111 §4.4).
            guard request.method.isSafe else {
                return (response, await behind.store(entry, data, replacing: replacing))
            }
            guard !behind.hasRemoved(entry) else {
                refuse(ticket, .invalidated, call)
                return (response, false)
            }
            let isStored = await behind.store(entry, data, replacing: replacing)
            guard behind.hasRemoved(entry) else { return (response, isStored) }
            await behind.remove(.key(entry.key))
            return (response, false)
        }
        var response = response
        response.body = ResponseBody(
            StoringBody(response, to: request.method, into: behind.stream(entry, replacing: replacing)))
        return (response, false)
    }

    /// The refusal if the call rejects the response, by its accepted statuses, envelope or judge. An envelope or judge
    /// refuses every stream, because it cannot judge one.
    private func verdict(on response: HTTPResponse, _ call: Call) -> CacheRefusal? {
        guard response.isSuccess else { return nil }
        // A response that the call rejects would be rejected again each time it is found.
        guard StatusRule.isSuccess(response, to: call.request) else { return .businessFailure }
        guard let verdict = call.details.verdict ?? verdict else { return nil }
        if response.body.isStream { return .unjudgedStream }
        return verdict.accepts(response) ? nil : .businessFailure
    }

    /// Whether the call's envelope or judge rejects a stored response, which a call without them may have stored.
    /// Responses of the same row were judged when they were stored.
    func rejects(_ response: HTTPResponse, of entry: CacheEntry, _ call: Call) -> Bool {
        guard let verdict = call.details.verdict, response.isSuccess, !response.body.isStream else { return false }
        if let row = call.details.row, row.domain != nil, entry.domain == row.domain, entry.server == row.server {
            return false
        }
        return !verdict.accepts(response)
    }

    /// Removes the entries that a response invalidates (RFC 9111 §4.4).
    func invalidate(after response: HTTPResponse, to request: HTTPRequest, _ call: Call) async {
        guard InvalidationRule.invalidates(response, to: request), let behind = storage.behind else { return }
        // A response after a redirect is that to another request, which may have been a safe one.
        var groups =
            response.redirects.isEmpty ? InvalidationRule.invalidatedGroups(response.headers, at: response.url) : []
        let origin = URLReference.origin(of: request.url)
        let references = InvalidationRule.references(in: response)
            .compactMap { URLReference.resolve($0, against: response.url) }
            .filter { URLReference.origin(of: $0) == origin }
        for url in Set(([request.url] + references).compactMap { CanonicalURL($0) }) {
            // What is invalid makes its groups invalid too (RFC 9875 §2.2.1), and those no further ones.
            if behind.mayHoldGroups, let key = primary(.get, url, request, call, nil) {
                groups += await behind.entries(for: key, .required).flatMap {
                    InvalidationRule.groups(of: $0, at: url.text)
                }
            }
            await behind.remove(.url(url.text))
            // Also by key, because the same parameters in another order have the same entry.
            for method in [HTTPMethod.get, .head] {
                guard let key = primary(method, url, request, call, nil) else { continue }
                await behind.remove(.primaryKey(key))
                flights.leave(key)
            }
        }
        for group in Set(groups) { await behind.remove(.tag(group)) }
        if !groups.isEmpty { flights.leave() }
    }

    // MARK: Failures

    /// Turns an error response of the server into the failure that a stored response replaces. Abandons its stream.
    static func failure(_ response: HTTPResponse, to request: HTTPRequest) -> NetworkError {
        var response = response
        if response.body.isStream {
            response.body.abandon()
            response.body = .empty
        }
        return StatusRule.failure(response, to: request)
    }

    /// Whether an error means that the network, not the request, failed.
    static func isNetworkFailure(_ error: NetworkError) -> Bool {
        switch error.kind {
        case _ where error.isEndOfCall: false
        case .dns, .connect, .tls, .timeout, .connectionLost, .protocolViolation, .proxy, .circuitOpen, .other: true
        default: false
        }
    }
}
