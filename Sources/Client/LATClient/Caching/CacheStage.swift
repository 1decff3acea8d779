import FoundationEssentials
import HTTPCore
import Platform
import ResponseCache
import Synchronization

/// The cache stage for the app's own policies: all but ``CachePolicy/http``, which ``HTTPCacheStage`` implements.
///
/// It is outside the redirects: it stores the response to the call, whichever redirects led to it, so that a call
/// answered from the cache makes no request at all. Of the server's fields it obeys only `Vary`.
struct CacheStage: Stage {
    let operations: CacheOperations
    var decision: CacheDecision?
    /// Whether a stored response may be delivered before that of the server: not one that is still sealed.
    var deliversAhead = true

    func answer(to request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let request = operations.completed(request)
        let call = chain.call
        let policy = operations.policy(of: request)
        guard let ticket = await operations.ticket(for: request, call) else {
            if policy == .cacheOnly { throw Self.nothingStored(request) }
            return try await chain.proceed(request)
        }
        switch policy {
        case .networkOnly, .http:
            return try await chain.proceed(request)
        case .writeOnly:
            note(.fetches(.policy), call)
            return try await fetch(request, ticket, chain).response
        case .cacheOnly:
            return try await operations.counted {
                guard let stored = try await stored(request, ticket, call, .required, isStale: false) else {
                    note(.fails(.nothingStored), call)
                    throw Self.nothingStored(request)
                }
                note(.answers, call)
                return (stored, true)
            }.response
        case .cacheElseNetwork(let timeToLive):
            return try await cacheElseNetwork(request, ticket, timeToLive, chain)
        case .cacheThenNetwork:
            if deliversAhead, let deliver = call.details.deliversCached {
                let stored = try await stored(request, ticket, call, isStale: false)
                note(stored == nil ? .fetches(.nothingStored) : .answersFirst, call)
                operations.storage.ledger.counters.countLookup(stored?.source ?? .network)
                if var stored {
                    stored.coding = call.details.coding
                    deliver(stored, call)
                }
            }
            return try await fetch(request, ticket, chain).response
        case .networkElseCache:
            return try await networkElseCache(request, ticket, chain)
        }
    }

    private static func nothingStored(_ request: HTTPRequest) -> NetworkError {
        NetworkError(
            .cache, message: "nothing is stored for this request and the policy .cacheOnly forbids the network",
            request: request)
    }

    // MARK: Policies

    private func cacheElseNetwork(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ timeToLive: CachePolicy.TimeToLive, _ chain: Chain
    ) async throws -> HTTPResponse {
        var options = FlightTable.Options(mayWait: request.streamsBody != true)
        while true {
            let ended = operations.flights.endedCount
            if let response = try await usable(request, ticket, timeToLive, chain.call) { return response }
            let fetched = try await operations.fetchOnce(request, ticket, chain.call, &options, since: ended) {
                try await usable(request, ticket, timeToLive, chain.call)
            } fetch: { ticket in
                do {
                    return try await fetch(request, ticket, chain)
                } catch let error as NetworkError where CacheOperations.isNetworkFailure(error) {
                    // The look-up may have been too late, and now only the cache can answer.
                    guard let stored = try await usable(request, ticket, timeToLive, chain.call, .required) else {
                        throw error
                    }
                    return (stored, false)
                }
            } standIn: { _ in
                try await usable(request, ticket, timeToLive, chain.call, .required)
            }
            if let fetched { return fetched }
        }
    }

    /// The stored response, if it has not expired. A look-up that is not required counts.
    private func usable(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ timeToLive: CachePolicy.TimeToLive,
        _ call: Call, _ urgency: WriteBehind.Urgency = .optional
    ) async throws -> HTTPResponse? {
        let entries = await operations.entries(ticket, urgency)
        let now = operations.storage.now()
        switch TimeToLiveRule.find(request, ticket.identity, among: entries, within: timeToLive, at: now) {
        case .usable(let entry):
            let response = try await operations.response(
                entry, to: request, isStale: false, timeToLive: timeToLive, urgency)
            if let response, operations.rejects(response, of: entry, call) {
                note(.fetches(.refused(.businessFailure)), call)
                return nil
            }
            if let response, urgency == .optional { operations.storage.ledger.counters.countLookup(response.source) }
            note(response == nil ? .fetches(.bodyLost) : .answers, call)
            return response
        case .unusable where urgency == .required: return nil
        case .unusable(let miss, let expired):
            note(.fetches(miss), call)
            if let expired = expired.flatMap({ TimeToLiveRule.marked($0, timeToLive, at: now) }) {
                await operations.storage.behind?.update(expired)
            }
            return nil
        }
    }

    private func networkElseCache(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> HTTPResponse {
        note(.fetches(.policy), chain.call)
        do {
            let response = try await fetch(request, ticket, chain).response
            guard CacheStrategy.isError(status: response.status),
                var answer = try await standIn(request, ticket, chain.call)
            else { return response }
            answer.standsInFor = CacheOperations.failure(response, to: request)
            return answer
        } catch let error as NetworkError where CacheOperations.isNetworkFailure(error) {
            guard var answer = try await standIn(request, ticket, chain.call) else { throw error }
            // Other addresses or attempts may still succeed. If all fail, this response is used.
            answer.standsInFor = error
            return answer
        }
    }

    // MARK: Acting

    /// The stored response, to replace an error.
    private func standIn(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ call: Call
    ) async throws -> HTTPResponse? {
        let stored = try await stored(request, ticket, call, .required, isStale: true)
        if stored != nil { note(.answersStale(isRefreshed: false), call) }
        operations.storage.ledger.counters.countLookup(stored?.source ?? .network)
        return stored
    }

    private func stored(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ call: Call,
        _ urgency: WriteBehind.Urgency = .optional, isStale: Bool
    ) async throws -> HTTPResponse? {
        // Another response may be stored between the look-up and the reading of the body.
        for _ in 0..<2 {
            let entries = await operations.entries(ticket, urgency)
            guard
                case .usable(let entry) = TimeToLiveRule.find(
                    request, ticket.identity, among: entries, within: .forever, at: operations.storage.now())
            else { return nil }
            if let response = try await operations.response(entry, to: request, isStale: isStale, urgency) {
                return operations.rejects(response, of: entry, call) ? nil : response
            }
        }
        return nil
    }

    private func fetch(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> CacheOperations.Fetched {
        let requestTime = operations.storage.now()
        let response = try await chain.proceed(request)
        if let refusal = TimeToLiveRule.refusal(of: response) {
            if response.source == .network { operations.refuse(ticket, refusal, chain.call) }
            return (response, false)
        }
        return await operations.store(
            response, to: request, chain.call, ticket, under: operations.policy(of: request),
            requestTime: requestTime, responseTime: operations.storage.now())
    }
}

extension CacheOperations {
    /// Fetches the response after a look-up found none, once for all concurrent requests with the same key. They
    /// include those of other processes if the store grants leases.
    ///
    /// - Parameters:
    ///   - options: What the request may do. A wait or a repeated look-up changes it.
    ///   - ended: ``FlightTable/endedCount`` before the look-up.
    ///   - look: Repeats the look-up after another lease holder has fetched the response.
    ///   - standIn: A stored response for a failure of the network: the request's own timeout while it waits for another.
    /// - Returns: `nil` to look up again: another request with the same key has ended.
    func fetchOnce(
        _ request: HTTPRequest, _ ticket: Ticket, _ call: Call, _ options: inout FlightTable.Options,
        since ended: UInt64,
        look: () async throws -> HTTPResponse?, fetch: (Ticket) async throws -> Fetched,
        standIn: (NetworkError) async throws -> HTTPResponse?
    ) async throws -> HTTPResponse? {
        guard options.mayWait else { return try await counted { try await fetch(ticket) }.response }
        switch flights.join(ticket.flight, since: options.mayLookAgain ? ended : nil) {
        case .lookAgain:
            options.mayLookAgain = false
            return nil
        case .lead(let flight):
            flights.starts(flight, with: call)
            return try await lead(ticket, flight, within: request.timeout ?? timeout, look: look, fetch: fetch)
        case .alone:
            return try await flights.lead(ticket.flight, nil) { try await counted { try await fetch(ticket) } }
        case .follow(let flight):
            do {
                options.mayWait = try await FlightTable.follow(flight, request, call, timeout, limits)
                return nil
            } catch let error as NetworkError where Self.isNetworkFailure(error) {
                return try await counted {
                    guard let stored = try await standIn(error) else { throw error }
                    return (stored, false)
                }.response
            }
        }
    }

    private func lead(
        _ ticket: Ticket, _ flight: Flight, within timeout: Duration?, look: () async throws -> HTTPResponse?,
        fetch: (Ticket) async throws -> Fetched
    ) async throws -> HTTPResponse {
        try await flights.lead(ticket.flight, flight) {
            var ticket = ticket
            let start = ContinuousClock.now
            waiting: while true {
                switch await storage.behind?.lead(ticket.flight, for: timeout, waitingSince: start) {
                case .own(let lease)?:
                    ticket.lease = lease
                    break waiting
                case .late(let lease)?:
                    if let response = try await look() { return (response, true) }
                    ticket.lease = lease
                    break waiting
                case .ended?: if let response = try await look() { return (response, true) }
                case .others?, nil: break waiting
                }
            }
            let fetched = try await counted { try await fetch(ticket) }
            if !fetched.isStored, FlightTable.isUnshared(fetched.response) { ticket.lease?.pass() }
            return fetched
        }
    }

    /// Fetches the response after a look-up and counts the outcome.
    func counted(_ fetch: () async throws -> Fetched) async throws -> Fetched {
        do {
            let fetched = try await fetch()
            storage.ledger.counters.countLookup(fetched.response.source)
            return fetched
        } catch {
            storage.ledger.counters.add(.misses)
            throw error
        }
    }

    /// Notes that a response is not stored.
    func refuse(_ ticket: Ticket, _ refusal: CacheRefusal, _ call: Call) {
        storage.ledger.refuse(ticket.primary, refusal)
        call.watch?.record(.notStored(refusal))
    }
}
