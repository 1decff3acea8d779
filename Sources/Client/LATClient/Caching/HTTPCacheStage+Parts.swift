import FoundationEssentials
import HTTPCore
import ResponseCache

extension HTTPCacheStage {
    /// Reports the cache's decision to the call's observers.
    func note(_ verdict: @autoclosure () -> CacheExplanation.Verdict, _ chain: Chain) {
        decision?.note(verdict())
        chain.call.watch?.record(.cache(verdict()), hop: chain.hop)
    }

    /// Handles a partial response (RFC 9111 §3.4): combines it with the stored bytes, for the store, and for a caller who
    /// asked for more than the part.
    ///
    /// - Returns: `nil` if the server has sent something other than the missing part, or if the stored bytes are gone.
    func take(
        part response: HTTPResponse, _ forward: CacheStrategy.Forward, _ request: HTTPRequest,
        _ ticket: CacheOperations.Ticket, _ chain: Chain, _ requestTime: Date, _ responseTime: Date
    ) async throws -> CacheOperations.Fetched? {
        let refusal = StorageRule.refusal(ofPart: response, to: request, ticket.mode)
        if let refusal { operations.refuse(ticket, refusal, chain.call) }
        let isStorable = refusal == nil
        func keep(_ joined: JoinedParts, _ body: ResponseBody) async -> CacheOperations.Fetched {
            var stored = joined.response
            stored.body = body
            guard isStorable else { return (stored, false) }
            return await operations.store(
                stored, to: request, chain.call, ticket, under: .http, replacing: forward.candidate,
                requestTime: requestTime, responseTime: responseTime)
        }
        if let completion = forward.completion {
            let limit = operations.limit(for: request)
            guard completion.wanted.count <= limit else { throw NetworkError.bodyTooLarge(limit: limit) }
            guard let joined = completion.joined(response, at: responseTime),
                let body = try await body(joined, completion.entry, request),
                let place = joined.parts.place(of: completion.wanted)
            else { return nil }
            let kept = await keep(joined, body)
            var answer = completion.answer(joined)
            answer.body = kept.response.body
            if place != 0..<joined.parts.ranges.count {
                guard let part = answer.body.part(place, readsOn: true) else { return nil }
                answer.body = part
            }
            return (answer, kept.isStored)
        }
        guard isStorable else { return (response, false) }
        // Another request may have stored something since.
        let entry = CacheStrategy.stored(request, ticket.identity, among: await operations.entries(ticket))
        guard var joined = JoinedParts(response, kept: entry, at: responseTime) else { return (response, false) }
        var body: ResponseBody?
        if let entry { body = try await self.body(joined, entry, request) }
        if body == nil, let alone = JoinedParts(response, kept: nil, at: responseTime) {
            (joined, body) = (alone, response.body)
        }
        guard let body, let place = joined.parts.place(of: joined.received) else { return (response, false) }
        let kept = await keep(joined, body)
        var answer = response
        if response.body.isStream {
            let isAlone = place == 0..<joined.parts.ranges.count
            answer.body = (isAlone ? nil : kept.response.body.part(place, readsOn: true)) ?? kept.response.body
        }
        return (answer, kept.isStored)
    }

    /// The part's body with the stored bytes around it; `nil` when those are gone.
    private func body(
        _ joined: JoinedParts, _ entry: CacheEntry, _ request: HTTPRequest
    ) async throws -> ResponseBody? {
        var reading = request
        // The reader's limit was checked before; the other bytes are for the store.
        reading.maxBodySize = .max
        var bodies: [ResponseBody] = []
        for place in [joined.before, joined.after] where !place.isEmpty {
            guard let body = try await operations.body(of: entry, for: reading, part: place) else { return nil }
            bodies.append(body)
        }
        if bodies.isEmpty { return joined.response.body }
        bodies.insert(joined.response.body, at: joined.before.isEmpty ? 0 : 1)
        return ResponseBody.joining(bodies, byteCount: joined.parts.ranges.count)
    }

    // MARK: Refreshing

    /// Whether a fresh response is refreshed before it expires (``EarlyRefresh``), where a store asks for it.
    func isRefreshedEarly(_ answer: CacheStrategy.Answer, _ request: HTTPRequest) -> Bool {
        guard let factor = operations.storage.behind?.earlyRefreshFactor, factor > 0, answer.remaining > 0,
            request.method == .get, answer.form == .whole, answer.entry.status != 206
        else { return false }
        let entry = answer.entry
        return EarlyRefresh.isDue(
            remaining: answer.remaining, fetchDuration: entry.responseTime.timeIntervalSince(entry.requestTime),
            factor: factor, random: 1 - Double.random(in: 0..<1))
    }

    /// Refreshes a stored response in the background (RFC 5861 §3), once for all concurrent requests.
    ///
    /// - Returns: The flight that fetches it; `nil` if there is none.
    @discardableResult func refresh(
        _ entry: CacheEntry, _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) -> Flight? {
        let flight: Flight
        switch operations.flights.join(ticket.flight, since: nil) {
        case .lead(let new): flight = new
        case .follow(let running): return running
        case .alone, .lookAgain: return nil
        }
        // Request the whole response, without the caller's range and conditions.
        var request = request
        request.method = request.method == .head ? .get : request.method
        if !request.headers.hasNoFields {
            let own = ["range", "if-range", "if-none-match", "if-modified-since"]
            request.headers.removeAll { own.contains($0.lowercased()) }
        }
        // A body that a judge checks has to be collected.
        request.streamsBody = chain.call.details.verdict == nil
        request.timeout = request.timeout ?? operations.timeout
        // Nobody waits for it longer than `staleAfter`.
        request.hedge = .off
        // The caller's call ends with the stored response, so the refresh is a call of its own without observers.
        let chain = chain.on(Call(request, details: chain.call.details))
        operations.flights.starts(flight, with: chain.call)
        let behind = operations.storage.behind
        let number = behind?.beginRefresh()
        Task {
            operations.flights.end(flight, await undecided().refresh(entry, ticket, chain))
            if let number { behind?.endRefresh(number) }
        }
        return flight
    }

    /// The stale response that ``RequestOptions/Values/staleAfter`` allows when the network is slow, or the refreshed one when it
    /// is not. The fetch is a refresh, which goes on after the call.
    ///
    /// - Returns: `nil` if the request has to be sent by this call.
    func staleIfSlow(
        _ forward: CacheStrategy.Forward, _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> HTTPResponse? {
        guard let limit = request.staleAfter ?? operations.staleAfter, let entry = forward.candidate,
            request.method == .get || request.method == .query,
            CacheStrategy.mayStandIn(entry, for: request, at: operations.storage.now(), atAnyAge: true, ticket.mode),
            let flight = refresh(entry, request, ticket, chain)
        else { return nil }
        do {
            _ = try await operations.limits.run(within: limit, for: chain.call, late: { IsLate() }) {
                try await flight.ending.value()
            }
        } catch is IsLate {
            let stale = try await standIn(forward, request, ticket.mode, chain, atAnyAge: true, isRefreshed: true)
            if let stale { operations.storage.ledger.counters.countLookup(stale.source) }
            return stale
        }
        return try await answer(to: request, ticket, chain)
    }

    private struct IsLate: Error {}

    /// Refreshes an entry with the request of the chain's call.
    private func refresh(
        _ entry: CacheEntry, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async -> FlightTable.Ending {
        let request = chain.call.request
        var ticket = ticket
        switch await operations.storage.behind?.lead(ticket.flight, for: request.timeout, waitingSince: nil) {
        case .own(let lease)?, .late(let lease)?: ticket.lease = lease
        // Requests that wait for this flight look up again, and start another flight if they find nothing to use.
        case .ended?, .others?, nil: return .abandoned
        }
        // Another lease holder may have refreshed it between the look-up and the lease.
        if ticket.lease != nil,
            case .answer(let answer) = strategy(for: request, ticket, await operations.entries(ticket)),
            !answer.refreshes,
            answer.entry.version != entry.version || answer.entry.responseTime != entry.responseTime
        {
            return .stored
        }
        guard
            case .forward(let forward) = CacheStrategy(
                request, ticket.identity, entries: [entry], at: operations.storage.now(), ticket.mode,
                isRevalidating: true),
            let (response, isStored) = try? await exchange(forward, request, ticket, chain)
        else { return .notStored }
        if isStored { return .stored }
        do {
            // Reading the stream stores it.
            for try await _ in response.body {}
            return .stored
        } catch {
            return .notStored
        }
    }
}
