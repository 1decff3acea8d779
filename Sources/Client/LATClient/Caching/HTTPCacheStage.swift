import CurlTransport
import FoundationEssentials
import HTTPCore
import ResponseCache

/// The cache stage for the policy ``CachePolicy/http``, which follows RFC 9111 and RFC 5861.
///
/// At ``StagePlace/httpCache`` it is inside the redirects, so that each hop is stored, validated and invalidated under its
/// own URL, as the RFC requires. A permanent redirect may stay fresh for long while its target changes every minute.
/// At ``StagePlace/httpCacheOfOpened`` it is outside the redirects. ``CacheStrategy`` decides, and this stage acts.
///
/// Under other policies only unsafe requests pass through it, because they invalidate entries (RFC 9111 §4.4).
struct HTTPCacheStage: Stage {
    let operations: CacheOperations
    /// What is decided; `nil` unless the response shows it.
    var decision: CacheDecision?

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard let name = operations.statusName(of: request), operations.policy(of: request) == .http else {
            return try await respond(to: request, chain)
        }
        var stage = self
        let decision = CacheDecision()
        stage.decision = decision
        return decision.marked(try await stage.respond(to: request, chain), by: name)
    }

    /// The same stage for a refresh, whose decisions do not concern the call.
    func undecided() -> HTTPCacheStage { HTTPCacheStage(operations: operations) }

    private func respond(to request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let request = operations.completed(request)
        guard operations.policy(of: request) == .http else {
            let response = try await chain.proceed(request)
            await operations.invalidate(after: response, to: request, chain.call)
            return response
        }
        guard let ticket = await operations.ticket(for: request, chain.call, method: Self.method(of: request)) else {
            return try await pass(request, chain)
        }
        return try await serve(request, ticket, chain)
    }

    /// The method whose response is looked up, if not the request's own: a HEAD is answered from the entry of a GET.
    static func method(of request: HTTPRequest) -> HTTPMethod? {
        request.method == .head && request.body == nil ? .get : nil
    }

    private func serve(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> HTTPResponse {
        // Streams are not waited for, because their reader decides when they end.
        var options = FlightTable.Options(
            mayWait: (request.method == .get || request.method == .query) && request.streamsBody != true
                && !request.headers.contains("Range") && !ValidationRule.hasConditions(request))
        // An `only-if-cached` request waits for a slow store, since nothing else can answer it.
        let isOnlyFromCache =
            request.headers.contains("Cache-Control") && CacheControl(request: request.headers).onlyIfCached
        var isSecondLookup = false
        while true {
            let ended = operations.flights.endedCount
            let forward: CacheStrategy.Forward
            let entries = await operations.entries(ticket, isOnlyFromCache ? .required : .optional)
            switch strategy(for: request, ticket, entries) {
            case .gatewayTimeout(let miss):
                note(.fails(miss), chain)
                return gatewayTimeout(request)
            case .answer(let answer):
                switch try await stored(answer, to: request, ticket, chain, isOnlyFromCache ? .required : .optional) {
                case .usable(let response): return response
                case .unusable(let miss):
                    // Another response may have been stored in its place, so look up once more. If that one cannot be used
                    // either, there is nothing to revalidate.
                    guard isSecondLookup else {
                        isSecondLookup = true
                        continue
                    }
                    guard !isOnlyFromCache else {
                        note(.fails(miss), chain)
                        return gatewayTimeout(request)
                    }
                    forward = CacheStrategy.Forward(request: request, miss)
                }
            case .forward(let decided):
                if let response = try await staleIfSlow(decided, request, ticket, chain) { return response }
                forward = decided
            }
            let fetched = try await operations.fetchOnce(request, ticket, chain.call, &options, since: ended) {
                try await answer(to: request, ticket, chain)
            } fetch: {
                try await exchange(forward, request, $0, chain)
            } standIn: {
                try await standIn(for: $0, forward, request, ticket, chain)
            }
            if let fetched { return fetched }
        }
    }

    func strategy(
        for request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ entries: [CacheEntry]
    ) -> CacheStrategy {
        CacheStrategy(request, ticket.identity, entries: entries, at: operations.storage.now(), ticket.mode)
    }

    /// Sends a request that is never answered from the cache, and invalidates what it may have changed.
    private func pass(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let requestTime = operations.storage.now()
        let response = try await chain.proceed(request)
        guard !request.method.isSafe else { return response }
        await operations.invalidate(after: response, to: request, chain.call)
        let content = response.headers["Content-Location"].flatMap { URLReference.resolve($0, against: response.url) }
        guard StorageRule.isStorableForGet(response, to: request, contentURL: content, operations.mode(of: chain.call)),
            let ticket = await operations.ticket(for: request, chain.call, method: .get)
        else { return response }
        return await operations.store(
            response, to: request, chain.call, ticket, under: .http, requestTime: requestTime,
            responseTime: operations.storage.now()
        ).response
    }

    // MARK: Answers

    /// The stored response, if a new look-up finds a usable one.
    func answer(
        to request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> HTTPResponse? {
        guard case .answer(let answer) = strategy(for: request, ticket, await operations.entries(ticket)),
            case .usable(let response) = try await stored(answer, to: request, ticket, chain)
        else { return nil }
        return response
    }

    /// What an answer of `CacheStrategy` turns out to be.
    private enum Stored {
        case usable(HTTPResponse)
        /// Its body is gone, or the call's envelope or judge rejects it.
        case unusable(CacheMiss)
    }

    /// The response for an answer of `CacheStrategy`. Counts the look-up, and starts a refresh where one is due.
    private func stored(
        _ answer: CacheStrategy.Answer, to request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain,
        _ urgency: WriteBehind.Urgency = .optional
    ) async throws -> Stored {
        let stored = try await stored(answer, to: request, ticket.mode, chain.call, urgency)
        guard case .usable(let response) = stored else { return stored }
        operations.storage.ledger.counters.countLookup(response.source)
        note(answer.isStale ? .answersStale(isRefreshed: answer.refreshes) : .answers, chain)
        if answer.refreshes || isRefreshedEarly(answer, request) { refresh(answer.entry, request, ticket, chain) }
        return stored
    }

    private func stored(
        _ answer: CacheStrategy.Answer, to request: HTTPRequest, _ mode: CacheMode, _ call: Call,
        _ urgency: WriteBehind.Urgency
    ) async throws -> Stored {
        var response = StoredResponseCoding.response(answer, to: request, mode)
        response.source = answer.isStale ? .stale : operations.source(of: answer.entry)
        switch answer.form {
        case .head, .notModified: break
        case .whole:
            guard let body = try await operations.body(of: answer.entry, for: request, urgency) else {
                return .unusable(.bodyLost)
            }
            response.body = body
            if operations.rejects(response, of: answer.entry, call) { return .unusable(.refused(.businessFailure)) }
        case .part(_, _, let place):
            guard let body = try await operations.body(of: answer.entry, for: request, part: place, urgency) else {
                return .unusable(.bodyLost)
            }
            response.body = body
        }
        operations.touchRarely(answer.entry)
        let now = operations.storage.now()
        decision?.note(
            remaining: answer.isStale
                ? -Freshness(of: answer.entry, control: answer.control, at: now).staleness : answer.remaining)
        return .usable(response)
    }

    /// A stale response to replace an error; `nil` if that is not allowed, if its body is gone, or if the call's envelope or
    /// judge rejects it.
    func standIn(
        _ forward: CacheStrategy.Forward, _ request: HTTPRequest, _ mode: CacheMode, _ chain: Chain,
        atAnyAge: Bool = false, isRefreshed: Bool = false
    ) async throws -> HTTPResponse? {
        let now = operations.storage.now()
        guard let entry = forward.candidate,
            CacheStrategy.mayStandIn(entry, for: request, at: now, atAnyAge: atAnyAge, mode)
        else { return nil }
        let control = CacheControl(entry.headers)
        let age = Freshness(of: entry, control: control, at: now).age
        var answer = CacheStrategy.Answer(entry: entry, control, age: age)
        answer.isStale = true
        let found = try await stored(answer, to: request, mode, chain.call, .required)
        guard case .usable(let response) = found else { return nil }
        note(.answersStale(isRefreshed: isRefreshed), chain)
        return response
    }

    /// A stored response to replace a failure of the network; `nil` if there is none.
    private func standIn(
        for error: NetworkError, _ forward: CacheStrategy.Forward, _ request: HTTPRequest,
        _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> HTTPResponse? {
        var forward = forward
        if forward.candidate == nil {
            // The look-up may have been too late, and now only the cache can answer.
            switch strategy(for: request, ticket, await operations.entries(ticket, .required)) {
            case .answer(let answer):
                let found = try await stored(answer, to: request, ticket.mode, chain.call, .required)
                guard case .usable(let response) = found else { return nil }
                note(answer.isStale ? .answersStale(isRefreshed: false) : .answers, chain)
                return response
            case .forward(let found): forward.candidate = found.candidate
            case .gatewayTimeout: break
            }
        }
        let atAnyAge = operations.servesStaleWhenDisconnected
        var stale = try await standIn(forward, request, ticket.mode, chain, atAnyAge: atAnyAge)
        // Other addresses or attempts may still succeed. If all fail, this response is used.
        stale?.standsInFor = error
        return stale
    }

    private func gatewayTimeout(_ request: HTTPRequest) -> HTTPResponse {
        operations.storage.ledger.counters.add(.misses)
        return HTTPResponse(status: 504, reason: "Gateway Timeout", url: request.url, source: .memoryCache)
    }

    // MARK: The network

    /// Sends a request, conditionally if there is a candidate, and stores the response or updates the entry.
    func exchange(
        _ forward: CacheStrategy.Forward, _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> CacheOperations.Fetched {
        let requestTime = operations.storage.now()
        note(forward.isConditional ? .revalidates(forward.miss) : .fetches(forward.miss), chain)
        let response: HTTPResponse
        do {
            response = try await chain.proceed(await operations.offeringDictionary(forward.request, ticket))
        } catch let error as NetworkError where CacheOperations.isNetworkFailure(error) {
            guard let stored = try await standIn(for: error, forward, request, ticket, chain) else { throw error }
            return (stored, false)
        }
        let responseTime = operations.storage.now()
        await operations.invalidate(after: response, to: request, chain.call)
        guard !CacheOperations.isFromElsewhere(chain.call) else { return (response, false) }
        if request.method == .head {
            await takeIn(head: response, request, ticket, requestTime, responseTime)
            return (response, false)
        }
        if request.method == .get, response.status == 206,
            let answer = try await take(part: response, forward, request, ticket, chain, requestTime, responseTime)
        {
            return answer
        }
        // A failed request for the missing part does not answer the caller's request, so request the whole.
        if forward.completion != nil,
            [206, 304, 412, 416].contains(response.status)
                || ContentRange.isPart(status: response.status, response.headers)
        {
            response.body.abandon()
            return try await exchange(CacheStrategy.Forward(request: request, .incomplete), request, ticket, chain)
        }
        if response.status == 304, let entry = forward.candidate {
            if let confirmed = try await confirmed(
                entry, by: response, forward, request, ticket, requestTime, responseTime)
            {
                return (confirmed, true)
            }
            // The store lost the body that the server confirmed, or the server confirmed another entry: fetch it again.
            return try await exchange(CacheStrategy.Forward(request: request, .bodyLost), request, ticket, chain)
        }
        if CacheStrategy.isError(status: response.status),
            var stale = try await standIn(forward, request, ticket.mode, chain)
        {
            stale.standsInFor = CacheOperations.failure(response, to: request)
            return (stale, false)
        }
        if let refusal = StorageRule.refusal(
            of: response, to: request, storesUnsafe: operations.storesUnsafe(request), ticket.mode)
        {
            if response.source == .network { operations.refuse(ticket, refusal, chain.call) }
            // The entry is outdated: the current response may not be stored, or says that there is no content. A part says nothing
            // of it.
            if let entry = forward.candidate, [200, 203, 204, 404, 410].contains(response.status),
                refusal != .incomplete,
                !request.headers.contains("Range")
            {
                await operations.storage.behind?.remove(.key(entry.key))
            }
            return (response, false)
        }
        return await operations.store(
            response, to: request, chain.call, ticket, under: .http, replacing: forward.candidate,
            requestTime: requestTime, responseTime: responseTime)
    }

    /// The stored response after a 304; `nil` if its body is gone or the 304 confirms another one. If the conditions
    /// were the caller's, the result is the 304 itself, and the entry is freshened only if the 304 confirms it.
    private func confirmed(
        _ entry: CacheEntry, by response: HTTPResponse, _ forward: CacheStrategy.Forward, _ request: HTTPRequest,
        _ ticket: CacheOperations.Ticket, _ requestTime: Date, _ responseTime: Date
    ) async throws -> HTTPResponse? {
        let isConfirmed = ValidationRule.confirms(response.headers, entry, isOnlyTag: forward.isConditional)
        var body: ResponseBody?
        if forward.isConditional {
            guard isConfirmed, let stored = try await operations.body(of: entry, for: request) else { return nil }
            body = stored
        }
        var entry = entry
        if isConfirmed, forward.isConditional || ValidationRule.verdict(on: request, by: entry) == .notModified {
            entry = ValidationRule.freshened(
                entry, by: response.headers, for: ticket.identity, requestTime: requestTime,
                responseTime: responseTime, ticket.mode)
            let control = CacheControl(entry.headers)
            if control.noStore, !control.mustUnderstand {
                await operations.storage.behind?.remove(.key(entry.key))
            } else {
                await operations.update(entry)
            }
        }
        guard let body else { return response }
        var confirmed = StoredResponseCoding.response(entry, to: request)
        let cookies = response.headers[values: "Set-Cookie"]
        if !cookies.isEmpty, confirmed.headers[values: "Set-Cookie"] != cookies {
            confirmed.headers.merge(HTTPHeaders(cookies.map { ("Set-Cookie", $0) }))
        }
        confirmed.url = response.url
        confirmed.version = response.version
        confirmed.timings = response.timings
        confirmed.connection = response.connection
        confirmed.body = body
        confirmed.source = .revalidated
        operations.touchRarely(entry)
        return confirmed
    }

    /// Updates or expires the stored response to a GET with the response to a HEAD (RFC 9111 §4.3.5).
    private func takeIn(
        head response: HTTPResponse, _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ requestTime: Date,
        _ responseTime: Date
    ) async {
        // Others, such as the 405 of a server without HEAD, say nothing about the response to a GET.
        guard [200, 404, 410].contains(response.status),
            let entry = TimeToLiveRule.candidate(request, ticket.identity, among: await operations.entries(ticket))
        else { return }
        switch ValidationRule.verdict(of: response, on: entry) {
        case .confirmed:
            await operations.update(
                ValidationRule.freshened(
                    entry, by: response.headers, for: ticket.identity, requestTime: requestTime,
                    responseTime: responseTime, ticket.mode))
        case .outdated: await operations.markExpired(entry)
        case .unknown: break
        }
    }
}
