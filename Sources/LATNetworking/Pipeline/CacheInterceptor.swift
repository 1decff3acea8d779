import FoundationEssentials
import HTTPCore
import ResponseCache

/// The cache by the app's own policies: all but ``CachePolicy/http``, which is ``HTTPCache``'s.
///
/// It stands outside the redirects: what is stored is the answer to the call, whatever way led to it, so that a call that
/// is answered from the cache makes no request at all. The server's fields do not count here, but for `Vary`.
struct CacheInterceptor: Interceptor {
    let standard: CachePolicy
    let desk: CacheDesk
    /// The total timeout of a request that names none.
    let timeout: Duration?

    typealias Next = @Sendable (HTTPRequest) async throws -> HTTPResponse

    func intercept(_ request: HTTPRequest, next: Next) async throws -> HTTPResponse {
        let policy = request.cachePolicy ?? standard
        guard let ticket = desk.ticket(for: request) else {
            if policy == .cacheOnly { throw CacheFailure.nothingStored(request) }
            let response = try await next(request)
            if !request.method.isSafe { await desk.invalidate(after: response, to: request) }
            return response
        }
        switch policy {
        case .networkOnly, .http:
            return try await next(request)
        case .writeOnly:
            return try await fetch(request, ticket, next).response
        case .cacheOnly:
            if let stored = try await stored(request, ticket, isStale: false) { return stored }
            throw CacheFailure.nothingStored(request)
        case .cacheElseNetwork(let timeToLive):
            return try await cacheElseNetwork(request, ticket, timeToLive, next)
        case .cacheThenNetwork:
            if let deliver = request.context.deliversCached,
                let stored = try await stored(request, ticket, isStale: false)
            {
                deliver(stored)
            }
            return try await fetch(request, ticket, next).response
        case .networkElseCache:
            return try await networkElseCache(request, ticket, next)
        }
    }

    // MARK: Policies

    private func cacheElseNetwork(
        _ request: HTTPRequest, _ ticket: CacheDesk.Ticket, _ timeToLive: CachePolicy.TimeToLive, _ next: Next
    ) async throws -> HTTPResponse {
        var mayWait = !request.streamsBody
        var mayLookAgain = true
        while true {
            let landings = mayLookAgain ? desk.flights.landings : nil
            if let entry = TimeToLiveRule.candidate(request, among: await desk.entries(ticket)) {
                if TimeToLiveRule.isAlive(entry, timeToLive, at: desk.storage.now()) {
                    if let response = try await desk.response(entry, to: request, isStale: false) { return response }
                } else {
                    await desk.markExpired(entry)
                }
            }
            guard mayWait else { return try await fetch(request, ticket, next).response }
            switch desk.flights.join(ticket.primary, since: landings) {
            case .lookAgain: mayLookAgain = false
            case .lead(let flight): return try await lead(flight, request, ticket, next)
            case .follow(let flight):
                mayWait = try await FlightTable.follow(flight, request, timeout)
            }
        }
    }

    private func lead(
        _ flight: Flight, _ request: HTTPRequest, _ ticket: CacheDesk.Ticket, _ next: Next
    ) async throws -> HTTPResponse {
        do {
            let (response, isStored) = try await fetch(request, ticket, next)
            desk.flights.end(ticket.primary, flight, isStored ? .stored : .notStored)
            return response
        } catch {
            desk.flights.end(ticket.primary, flight, FlightTable.outcome(of: error))
            throw error
        }
    }

    private func networkElseCache(
        _ request: HTTPRequest, _ ticket: CacheDesk.Ticket, _ next: Next
    ) async throws -> HTTPResponse {
        do {
            let response = try await fetch(request, ticket, next).response
            guard CacheStrategy.isError(status: response.status),
                let stored = try await stored(request, ticket, isStale: true)
            else { return response }
            return stored
        } catch let error as NetworkError where CacheDesk.isNetworkFailure(error) {
            guard let stored = try await stored(request, ticket, isStale: true) else { throw error }
            guard request.attachment != nil, let fallback = request.context.fallback else { return stored }
            // There may be other addresses and attempts; when all have failed, this is the answer.
            fallback.note(stored)
            throw error
        }
    }

    // MARK: Acting

    private func stored(
        _ request: HTTPRequest, _ ticket: CacheDesk.Ticket, isStale: Bool
    ) async throws -> HTTPResponse? {
        guard let entry = TimeToLiveRule.candidate(request, among: await desk.entries(ticket)) else { return nil }
        return try await desk.response(entry, to: request, isStale: isStale)
    }

    private func fetch(
        _ request: HTTPRequest, _ ticket: CacheDesk.Ticket, _ next: Next
    ) async throws -> (response: HTTPResponse, isStored: Bool) {
        let requestTime = desk.storage.now()
        let response = try await next(request)
        guard TimeToLiveRule.isStorable(status: response.status) else { return (response, false) }
        return await desk.store(
            response, to: request, ticket, varyFields: TimeToLiveRule.varyFields(of: response.headers),
            requestTime: requestTime, responseTime: desk.storage.now())
    }
}

/// Holds the stale answer that stands in when every address and attempt has failed.
struct FallbackInterceptor: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        let fallback = CacheFallback()
        request.context.fallback = fallback
        do {
            return try await next(request)
        } catch let error as NetworkError where CacheDesk.isNetworkFailure(error) {
            guard let response = fallback.response else { throw error }
            return response
        }
    }
}

extension FlightTable {
    /// Waits for somebody else's request.
    ///
    /// - Returns: whether another one may be waited for after this.
    /// - Throws: ``NetworkError/Kind/timeout(_:)`` when the request's own time is over before.
    static func follow(_ flight: Flight, _ request: HTTPRequest, _ timeout: Duration?) async throws -> Bool {
        let timeout = request.timeout ?? timeout
        guard let outcome = try await flight.outcome(within: timeout) else {
            throw NetworkError(
                .timeout(.total),
                message: "an equal request, whose answer this one waited for, took longer than \(timeout ?? .zero)",
                request: request)
        }
        return outcome == .abandoned
    }

    /// What an error of the one that leads means to the others: one that was cancelled says nothing of the server.
    static func outcome(of error: any Error) -> Outcome {
        if error is CancellationError || Task.isCancelled { return .abandoned }
        if let error = error as? NetworkError, error.kind == .cancelled { return .abandoned }
        return .notStored
    }
}
