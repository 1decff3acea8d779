import HTTPCore
import Platform
import ResponseCache
import Synchronization

/// Requests in flight whose responses others wait for, at most one for each key.
final class FlightTable: Sendable {
    /// What a request may do instead of fetching its response.
    struct Options {
        /// Wait for another request with the same key.
        var mayWait: Bool
        /// Look up again if a flight has ended since the look-up.
        var mayLookAgain = true
    }

    /// How a flight ended for its followers.
    enum Ending: Sendable {
        /// The response is stored: look it up again.
        case stored
        /// There is no response to share: send your own request.
        case notStored
        /// The flight ended without an outcome, for example because it was cancelled: another request may lead.
        case abandoned
    }

    /// The role of a request that needs a response.
    enum Role: Sendable {
        /// Fetch it, and report how that ended.
        case lead(Flight)
        /// Wait for the leader.
        case follow(Flight)
        /// A flight has ended since the look-up: look again.
        case lookAgain
        /// Fetch it for this request only. The last response could not be stored, so there is nothing to wait for.
        case alone
    }

    private struct State {
        var flights: [String: Flight] = [:]
        var unshared = HitForMissKeys()
    }

    private let state = Mutex(State())
    /// Changed only under the lock.
    private let ended = Atomic<UInt64>(0)

    /// The number of flights that have ended. It is read before a look-up, to see later whether one has ended since.
    var endedCount: UInt64 { ended.load(ordering: .acquiring) }

    /// Joins the flight of a key.
    ///
    /// - Parameter endedCount: Its value before the look-up; `nil` to ignore the flights that have ended since.
    func join(_ key: String, since endedCount: UInt64?) -> Role {
        state.withLock { state in
            if let flight = state.flights[key] { return .follow(flight) }
            if state.unshared.contains(key) { return .alone }
            if let endedCount, endedCount != ended.load(ordering: .relaxed) { return .lookAgain }
            let flight = Flight(key: key)
            state.flights[key] = flight
            return .lead(flight)
        }
    }

    /// Has no further request join the flights of a primary key, or any, because what they fetch may be invalid.
    func leave(_ primary: String = "") {
        state.withLock { state in
            guard !state.flights.isEmpty else { return }
            state.flights = state.flights.filter { !$0.key.utf8.starts(with: primary.utf8) }
        }
    }

    /// Fetches the response that others wait for, and reports the outcome to them.
    ///
    /// - Parameter flight: `nil` when no other request waits.
    func lead(
        _ key: String, _ flight: Flight?, _ fetch: () async throws -> CacheOperations.Fetched
    ) async throws -> HTTPResponse {
        do {
            let (response, isStored) = try await fetch()
            state.withLock { state in
                if isStored {
                    state.unshared.remove(key)
                } else if Self.isUnshared(response) {
                    state.unshared.insert(key)
                }
            }
            if let flight { end(flight, isStored ? .stored : .notStored) }
            return response
        } catch {
            if let flight { end(flight, Self.ending(of: error)) }
            throw error
        }
    }

    /// Whether others need not wait for the next response, because it is probably not stored either.
    static func isUnshared(_ response: HTTPResponse) -> Bool {
        response.source == .network && !CacheStrategy.isError(status: response.status)
    }

    /// Has a flight start with the next transfer of the call that leads it. If that call is paused, the flight ends, so that
    /// nobody waits for it.
    func starts(_ flight: Flight, with leader: Call) {
        let watch = CallWait(leader) { [weak self] state in
            if state.isSuspended { self?.end(flight, .abandoned) }
        }
        flight.watch.withLock { $0 = watch }
        leader.atNextStart { flight.start.settle(.success(())) }
        watch.stateDidChange()
    }

    /// Ends a flight and wakes its followers.
    func end(_ flight: Flight, _ ending: Ending) {
        state.withLock { state in
            ended.wrappingAdd(1, ordering: .releasing)
            if state.flights[flight.key] === flight { state.flights[flight.key] = nil }
        }
        flight.start.settle(.success(()))
        flight.watch.withLock { $0.take() }?.end()
        flight.ending.settle(.success(ending))
    }
}

/// A request in flight, and its followers.
final class Flight: Sendable {
    fileprivate let key: String
    /// Settled when the transfer starts, or when the flight ends before that.
    fileprivate let start = SharedResult<Void>()
    let ending = SharedResult<FlightTable.Ending>()

    /// Watches whether the leader is paused.
    fileprivate let watch = Mutex<CallWait?>(nil)

    fileprivate init(key: String) { self.key = key }
}

extension FlightTable {
    /// Waits for another request with the same key.
    ///
    /// - Returns: Whether the flight was abandoned, so that the request may join another one.
    /// - Throws: ``NetworkError/Kind/timeout(_:)`` if the request's own timeout passes first.
    static func follow(
        _ flight: Flight, _ request: HTTPRequest, _ call: Call, _ timeout: Duration?, _ limits: TimeLimits
    ) async throws -> Bool {
        let timeout = request.timeout ?? timeout
        // The timeout starts with the leader's transfer, as the leader's own timeout does.
        try await flight.start.value(for: call)
        let outcome = try await limits.run(
            within: timeout, for: call,
            late: {
                NetworkError(
                    .timeout(.total),
                    message:
                        "the response to an equal request in flight did not arrive within \(timeout ?? .zero); try again",
                    request: request)
            }
        ) { try await flight.ending.value() }
        return outcome == .abandoned
    }

    /// What the leader's error means to the followers. A cancellation and a missed deadline say nothing about the server.
    static func ending(of error: any Error) -> Ending {
        if error is CancellationError || Task.isCancelled { return .abandoned }
        return (error as? NetworkError)?.isEndOfCall == true ? .abandoned : .notStored
    }
}
