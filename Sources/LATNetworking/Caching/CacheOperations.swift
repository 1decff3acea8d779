import CurlTransport
import FoundationEssentials
import HTTPCore
import ResponseCache

/// What both rooms of the cache do alike: keys, look-ups, answers, storing.
struct CacheOperations: Sendable {
    let storage: CacheStorage
    /// Names of parameters that do not count for keys, beside those of a request's rows.
    let volatileParameters: Set<String>
    /// The app's version of what it stores.
    let version: Int
    /// Whether responses to other methods than GET and HEAD are stored without being asked for.
    let cachesUnsafeMethods: Bool
    /// The fields that hold credentials.
    let secretFields: SecretHeaders
    /// The cookies that are put on requests; `nil` when none are kept.
    let cookies: CookieJar?
    /// The most bytes of a collected body.
    let maxBodySize: Int64
    /// Whether a stale answer stands in whenever the network fails (RFC 9111 §4.2.4).
    let servesStaleWhenDisconnected: Bool
    /// Whether several users share the cache.
    let mode: CacheMode
    let flights = FlightTable()

    /// A request's place in the store.
    struct Ticket: Sendable {
        let url: CanonicalURL
        let primary: String
        let identity: RequestIdentity
        /// Under which its answer is fetched.
        var lease: CacheLease?

        /// Names the request that others may wait for.
        var flight: String { identity.credentials.map { primary + $0 } ?? primary }
    }

    /// Where a request's answer would be.
    ///
    /// - Parameter method: the method whose answer is meant; `nil` for the request's own.
    /// - Returns: `nil` for what is never stored: other methods when nobody asked for them, bodies that can be told
    ///   apart only by sending them.
    func ticket(for request: HTTPRequest, _ call: Call, method: HTTPMethod? = nil) async -> Ticket? {
        try? await place(of: request, call, method: method)
    }

    /// ``ticket(for:_:method:)``, or why there is none.
    func place(
        of request: HTTPRequest, _ call: Call, method: HTTPMethod? = nil
    ) async throws(CacheRefusal) -> Ticket {
        var body: Data?
        let counted = method ?? request.method
        let isSafe = counted == .get || counted == .head
        guard isSafe || storesUnsafe(request) else { throw .method(counted.rawValue) }
        // Some ask by GET with a body; it tells their requests apart. That of a POST that answers GETs does not.
        if !isSafe || request.body != nil && method != .get {
            guard let bytes = Self.bytes(of: request.body) else { throw .requestBody }
            body = bytes
        }
        guard let url = CanonicalURL(request.url), let primary = primary(counted, url, call, body)
        else { throw .noKey }
        let identity = RequestIdentity(
            of: request, partition: call.details.partition, secretFields: secretFields,
            cookies: await cookieText(for: request, url), key: { storage.identityKey.bytes })
        return Ticket(url: url, primary: primary, identity: identity)
    }

    /// All cookies that the jar may put on a request, whatever their paths.
    private func cookieText(for request: HTTPRequest, _ url: CanonicalURL) async -> String? {
        guard let cookies,
            // `Cookie: nil` keeps them all back.
            !request.headers.fields.contains(where: { $0.value == nil && $0.name.equalsIgnoringASCIICase("Cookie") }),
            let all = try? await cookies.all()
        else { return nil }
        let own = all.filter { $0.mayReach(url.host) }
        guard !own.isEmpty else { return nil }
        return own.map { "\($0.domain)\($0.path);\($0.name)=\($0.value)" }.sorted().joined(separator: "\n")
    }

    /// Whether the answer to a method that is not GET or HEAD is to be stored. Those that change what is there
    /// (RFC 9110 §9.3.4, §9.3.5) have to reach the server each time.
    func storesUnsafe(_ request: HTTPRequest) -> Bool {
        switch request.method {
        case .get, .head, .put, .patch, .delete: false
        default: request.cachesUnsafeMethods || cachesUnsafeMethods
        }
    }

    private func primary(_ method: HTTPMethod, _ url: CanonicalURL, _ call: Call, _ body: Data?) -> String? {
        var rule = KeyRule(
            volatileParameters: volatileParameters, partition: call.details.partition, version: version)
        if let row = call.details.row { rule.volatileParameters.formUnion(row.volatileParameters) }
        return rule.primary(method: method.rawValue, url: url, body: body)
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

    func entries(_ ticket: Ticket, _ urgency: WriteBehind.Urgency = .alternative) async -> [CacheEntry] {
        let found = await storage.behind?.entries(for: ticket.primary, urgency) ?? []
        let areCredible = found.indices.allSatisfy { found[$0].isCredible(for: ticket.primary) }
        guard !areCredible else { return found }
        storage.report(Self.lie("an entry of another key, or a body that is not as long as it says"), "believe")
        return found.filter { $0.isCredible(for: ticket.primary) }
    }

    private static func lie(_ what: String) -> NetworkError {
        NetworkError(
            .cache,
            message: "the response cache's store gave \(what); it is not used: run the store through "
                + "CacheStoreConformance of LATTesting")
    }

    /// The body of an entry as the request wants it: collected, or as a stream. `nil` when it is gone.
    ///
    /// - Throws: ``NetworkError/Kind/bodyTooLarge`` for one that the request would not take from the network either.
    func body(of entry: CacheEntry, for request: HTTPRequest, part: Range<Int64>? = nil) async throws -> ResponseBody? {
        let limit = request.maxBodySize ?? (request.streamsBody ? Int64.max : maxBodySize)
        guard Int64(part?.count ?? Int(clamping: entry.bodyByteCount)) <= limit else {
            throw NetworkError.bodyTooLarge(limit: limit)
        }
        guard let stored = await storage.behind?.body(of: entry),
            // What came with the look-up was measured there.
            var body = entry.attachedBody == nil ? measured(stored, of: entry) : stored
        else { return nil }
        if let part {
            guard let cut = body.part(part) else { return nil }
            body = cut
        }
        guard body.isStream, !request.streamsBody else { return body }
        do {
            return ResponseBody(try await body.collect(upTo: Int(clamping: limit)))
        } catch let error as CancellationError {
            throw error
        } catch {
            storage.report(error, "read")
            return nil
        }
    }

    /// A stored body that has as many bytes as it is to have: a store of somebody else's may lose its end. A stream breaks off
    /// when it does not; `nil` for a collected one.
    private func measured(_ body: ResponseBody, of entry: CacheEntry) -> ResponseBody? {
        let mismatch = Self.lie("another number of bytes than the \(entry.bodyByteCount) of a stored body")
        if let measured = ResponseBody.joining([body], byteCount: entry.bodyByteCount, else: mismatch) {
            return measured
        }
        storage.report(mismatch, "read")
        return nil
    }

    /// A stored success as an answer; `nil` when its body is gone.
    ///
    /// - Parameter timeToLive: how long it lives, where the app says so.
    func response(
        _ entry: CacheEntry, to request: HTTPRequest, isStale: Bool, timeToLive: CachePolicy.TimeToLive? = nil
    ) async throws -> HTTPResponse? {
        guard let body = try await body(of: entry, for: request) else { return nil }
        var response = StoredAnswer.response(entry, to: request)
        response.body = body
        response.source = isStale ? .stale : source(of: entry)
        touch(entry, timeToLive)
        return response
    }

    func source(of entry: CacheEntry) -> HTTPResponse.Source { entry.tier == .memory ? .memoryCache : .diskCache }

    /// Notes a use.
    func touch(_ entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive? = nil) {
        storage.behind?.touch(entry, interval: TimeToLiveRule.touchInterval(timeToLive))
    }

    /// Notes a use where the time of the last one does not count, as with ``CachePolicy/http``: now and then is enough.
    func touchRarely(_ entry: CacheEntry) {
        guard abs(storage.now().timeIntervalSince(entry.lastUse)) >= TimeToLiveRule.touchInterval(nil) else { return }
        touch(entry)
    }

    // MARK: Fetching

    /// Fetches the answer of a look-up that has found none, once for all that ask meanwhile: here, and in other processes
    /// where the store gives leases.
    ///
    /// - Parameters:
    ///   - flight: those who wait here; `nil` for none.
    ///   - look: looks once more, after somebody else has fetched.
    func lead(
        _ ticket: Ticket, _ flight: Flight?, within timeout: Duration?, look: () async throws -> HTTPResponse?,
        fetch: (Ticket) async throws -> (response: HTTPResponse, isStored: Bool)
    ) async throws -> HTTPResponse {
        try await flights.lead(ticket.flight, flight) {
            var ticket = ticket
            switch await storage.behind?.lead(ticket.flight, for: timeout) {
            case .own(let lease)?: ticket.lease = lease
            case .late(let lease)?:
                if let response = try await look() { return (response, true) }
                ticket.lease = lease
            case .others?, nil: break
            }
            return try await counted { try await fetch(ticket) }
        }
    }

    // MARK: Counting

    /// Fetches the answer of a look-up, and counts what became of it.
    func counted(
        _ fetch: () async throws -> (response: HTTPResponse, isStored: Bool)
    ) async throws -> (response: HTTPResponse, isStored: Bool) {
        do {
            let fetched = try await fetch()
            storage.ledger.counters.countLookup(fetched.response.source)
            return fetched
        } catch {
            storage.ledger.counters.add(.misses)
            throw error
        }
    }

    // MARK: Writing

    func update(_ entry: CacheEntry) async {
        await storage.behind?.update(entry)
    }

    /// Notes that an entry was found expired, so that a clock that is put back does not make it good again.
    func markExpired(_ entry: CacheEntry) async {
        guard !entry.isExpired else { return }
        var expired = entry
        expired.isExpired = true
        await update(expired)
    }

    func remove(_ selection: CacheSelection) async {
        await storage.behind?.remove(selection)
    }

    /// Stores an answer, behind: nothing waits for the store. A stream is stored while it is read.
    ///
    /// - Parameters:
    ///   - policy: by which it was asked for.
    ///   - candidate: the entry that the server was asked about. What somebody else has stored in its place since stays.
    /// - Returns: the response to hand on, and whether it is found already.
    func store(
        _ response: HTTPResponse, to request: HTTPRequest, _ call: Call, _ ticket: Ticket, under policy: CachePolicy,
        replacing candidate: CacheEntry? = nil, varyFields: [String], requestTime: Date, responseTime: Date
    ) async -> (response: HTTPResponse, isStored: Bool) {
        guard response.source == .network else { return (response, false) }
        if let refusal = verdict(on: response, call) {
            storage.ledger.refuse(ticket.primary, refusal)
            return (response, false)
        }
        guard
            var entry = StoredAnswer.entry(
                response, to: request, ticket.identity, url: ticket.url, primary: ticket.primary,
                varyFields: varyFields, requestTime: requestTime, responseTime: responseTime, mode)
        else { return (response, false) }
        entry.domain = call.details.row?.domain
        entry.server = call.details.row?.server
        entry.lease = ticket.lease
        entry.retainUntil = RetentionRule.end(of: entry, under: policy, servesStale: servesStaleWhenDisconnected)
        let replacing = candidate.map { CacheReplacement(of: $0, by: entry) } ?? .anything
        guard let behind = storage.behind else { return (response, false) }
        if ticket.identity.credentials != nil { behind.needPreparation() }
        if let data = response.body.data {
            guard StorageRule.isComplete(response, byteCount: Int64(data.count), method: request.method) else {
                storage.ledger.refuse(ticket.primary, .incomplete)
                return (response, false)
            }
            return (response, await behind.store(entry, data, replacing: replacing))
        }
        var response = response
        let announced = StorageRule.announcedLength(of: response, method: request.method)
        response.body = ResponseBody(
            StoringBody(response.body, into: behind.stream(entry, replacing: replacing), announced: announced))
        return (response, false)
    }

    /// Why the call's envelope and judge do not take an answer for a success. A stream cannot be asked, and is not stored.
    private func verdict(on response: HTTPResponse, _ call: Call) -> CacheRefusal? {
        guard let verdict = call.details.row?.verdict, response.isSuccess else { return nil }
        if response.body.isStream { return .unjudgedStream }
        return verdict.accepts(response) ? nil : .businessFailure
    }

    /// Removes what an answer has made wrong (RFC 9111 §4.4).
    func invalidate(after response: HTTPResponse, to request: HTTPRequest, _ call: Call) async {
        guard InvalidationRule.invalidates(response, to: request) else { return }
        var urls = [request.url]
        let origin = URLReference.origin(of: request.url)
        for reference in InvalidationRule.references(in: response) {
            guard let url = URLReference.resolve(reference, against: response.url),
                URLReference.origin(of: url) == origin
            else { continue }
            urls.append(url)
        }
        for url in Set(urls.compactMap { CanonicalURL($0) }) {
            var selections = [CacheSelection.url(url.text)]
            // By key too: the same parameters in another order are the same entry.
            selections += [HTTPMethod.get, .head].compactMap { primary($0, url, call, nil) }.map { .primaryKey($0) }
            for selection in selections { await remove(selection) }
        }
    }

    // MARK: Failures

    /// Whether an error means that the network, not the request, failed.
    static func isNetworkFailure(_ error: NetworkError) -> Bool {
        switch error.kind {
        case .dns, .connect, .tls, .timeout, .connectionLost, .protocolViolation, .proxy, .other: true
        default: false
        }
    }
}

extension Cookie {
    /// Whether it is for a host, or for a domain that the host is in.
    fileprivate func mayReach(_ host: String) -> Bool {
        let domain = domain.lowercased()
        return host == domain || includesSubdomains && host.hasSuffix("." + domain)
    }
}

enum CacheFailure {
    static func nothingStored(_ request: HTTPRequest) -> NetworkError {
        NetworkError(
            .cache, message: "nothing is stored for this request and the policy .cacheOnly forbids the network",
            request: request)
    }
}
