import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

/// The cache by the app's own policies: all but ``CachePolicy/http``, which is ``HTTPCacheRoom``'s.
///
/// It stands outside the redirects: what is stored is the answer to the call, whatever way led to it, so that a call that
/// is answered from the cache makes no request at all. The server's fields do not count here, but for `Vary`.
struct CacheRoom: Room {
    let standard: CachePolicy
    let operations: CacheOperations
    /// The total timeout of a request that names none.
    let timeout: Duration?

    let limits: TimeLimits

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let policy = request.cachePolicy ?? standard
        guard let ticket = await operations.ticket(for: request, call) else {
            if policy == .cacheOnly { throw CacheFailure.nothingStored(request) }
            return try await chain.proceed(request)
        }
        switch policy {
        case .networkOnly, .http:
            return try await chain.proceed(request)
        case .writeOnly:
            return try await fetch(request, ticket, chain).response
        case .cacheOnly:
            if let stored = try await stored(request, ticket, isStale: false) { return stored }
            throw CacheFailure.nothingStored(request)
        case .cacheElseNetwork(let timeToLive):
            return try await cacheElseNetwork(request, ticket, timeToLive, chain)
        case .cacheThenNetwork:
            if let deliver = call.details.deliversCached,
                let stored = try await stored(request, ticket, isStale: false)
            {
                deliver(stored, call)
            }
            return try await fetch(request, ticket, chain).response
        case .networkElseCache:
            return try await networkElseCache(request, ticket, chain)
        }
    }

    // MARK: Policies

    private func cacheElseNetwork(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ timeToLive: CachePolicy.TimeToLive, _ chain: Chain
    ) async throws -> HTTPResponse {
        var mayWait = !request.streamsBody
        var mayLookAgain = true
        while true {
            let ended = mayLookAgain ? operations.flights.endedCount : nil
            if let entry = TimeToLiveRule.candidate(request, ticket.identity, among: await operations.entries(ticket)) {
                if TimeToLiveRule.isAlive(entry, timeToLive, at: operations.storage.now()) {
                    if let response = try await operations.response(entry, to: request, isStale: false) {
                        return response
                    }
                } else {
                    await operations.markExpired(entry)
                }
            }
            guard mayWait else { return try await fetch(request, ticket, chain).response }
            switch operations.flights.join(ticket.flight, since: ended) {
            case .lookAgain: mayLookAgain = false
            case .lead(let flight):
                return try await operations.flights.lead(ticket.flight, flight) {
                    try await fetch(request, ticket, chain)
                }
            case .follow(let flight):
                mayWait = try await FlightTable.follow(flight, request, chain.call, timeout, limits)
            }
        }
    }

    private func networkElseCache(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> HTTPResponse {
        do {
            let response = try await fetch(request, ticket, chain).response
            guard CacheStrategy.isError(status: response.status),
                let stored = try await stored(request, ticket, isStale: true)
            else { return response }
            return stored
        } catch let error as NetworkError where CacheOperations.isNetworkFailure(error) {
            guard let stored = try await stored(request, ticket, isStale: true) else { throw error }
            // There may be other addresses and attempts; when all have failed, this is the answer.
            var answer = stored
            answer.standsInFor = error
            return answer
        }
    }

    // MARK: Acting

    private func stored(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, isStale: Bool
    ) async throws -> HTTPResponse? {
        guard let entry = TimeToLiveRule.candidate(request, ticket.identity, among: await operations.entries(ticket))
        else { return nil }
        return try await operations.response(entry, to: request, isStale: isStale)
    }

    private func fetch(
        _ request: HTTPRequest, _ ticket: CacheOperations.Ticket, _ chain: Chain
    ) async throws -> (response: HTTPResponse, isStored: Bool) {
        let requestTime = operations.storage.now()
        let response = try await chain.proceed(request)
        guard TimeToLiveRule.isStorable(status: response.status) else { return (response, false) }
        return await operations.store(
            response, to: request, chain.call, ticket, under: request.cachePolicy ?? standard,
            varyFields: TimeToLiveRule.varyFields(of: response.headers), requestTime: requestTime,
            responseTime: operations.storage.now())
    }
}

extension FlightTable {
    /// Waits for somebody else's request.
    ///
    /// - Returns: whether another one may be waited for after this.
    /// - Throws: ``NetworkError/Kind/timeout(_:)`` when the request's own time is over before.
    static func follow(
        _ flight: Flight, _ request: HTTPRequest, _ call: Call, _ timeout: Duration?, _ limits: TimeLimits
    ) async throws -> Bool {
        let timeout = request.timeout ?? timeout
        let outcome = try await limits.run(
            within: timeout, for: call,
            late: {
                NetworkError(
                    .timeout(.total),
                    message:
                        "an equal request, whose answer this one waited for, took longer than \(timeout ?? .zero)",
                    request: request)
            }
        ) { try await flight.value() }
        return outcome == .abandoned
    }

    /// What an error of the one that leads means to the others: one that was cancelled says nothing of the server.
    static func ending(of error: any Error) -> Ending {
        if error is CancellationError || Task.isCancelled { return .abandoned }
        if let error = error as? NetworkError, error.kind == .cancelled { return .abandoned }
        return .notStored
    }
}

/// Requests on their way whose answers others wait for: one for each key.
final class FlightTable: Sendable {
    /// How a request ended for those that waited for it.
    enum Ending: Sendable {
        /// Its answer is stored: look again.
        case stored
        /// There is nothing to share: go yourself.
        case notStored
        /// It was given up: somebody else may lead.
        case abandoned
    }

    /// What somebody who needs an answer is to do.
    enum Role: Sendable {
        /// Fetch it, and say how it ended.
        case lead(Flight)
        /// Wait for it.
        case follow(Flight)
        /// One has come meanwhile: look again.
        case lookAgain
    }

    private struct State {
        var flights: [String: Flight] = [:]
        var endedCount: UInt64 = 0
    }

    private let state = Mutex(State())

    /// How many flights have ended. Who looks into the store remembers it, to see whether one has ended since.
    var endedCount: UInt64 { state.withLock(\.endedCount) }

    /// Joins the flight of a key.
    ///
    /// - Parameter endedCount: what it was before the store was looked into. `nil`: it does not matter.
    func join(_ key: String, since endedCount: UInt64?) -> Role {
        state.withLock { state in
            if let flight = state.flights[key] { return .follow(flight) }
            if let endedCount, endedCount != state.endedCount { return .lookAgain }
            let flight = Flight()
            state.flights[key] = flight
            return .lead(flight)
        }
    }

    /// Fetches the answer that others wait for, and tells them how that ended.
    func lead(
        _ key: String, _ flight: Flight, _ fetch: () async throws -> (response: HTTPResponse, isStored: Bool)
    ) async throws -> HTTPResponse {
        do {
            let (response, isStored) = try await fetch()
            end(key, flight, isStored ? .stored : .notStored)
            return response
        } catch {
            end(key, flight, Self.ending(of: error))
            throw error
        }
    }

    /// Ends a flight and lets those that wait go on.
    func end(_ key: String, _ flight: Flight, _ ending: Ending) {
        state.withLock { state in
            state.endedCount += 1
            if state.flights[key] === flight { state.flights[key] = nil }
        }
        flight.settle(.success(ending))
    }
}

/// A request on its way, and those that wait for it.
typealias Flight = Outcome<FlightTable.Ending>
