import HTTPCore
import Synchronization

/// Requests on their way whose answers others wait for: one for each key.
final class FlightTable: Sendable {
    /// How a request ended for those that waited for it.
    enum Outcome: Sendable {
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
        var landings: UInt64 = 0
    }

    private let state = Mutex(State())

    /// How many flights have ended. Who looks into the store remembers it, to see whether one has ended since.
    var landings: UInt64 { state.withLock(\.landings) }

    /// Joins the flight of a key.
    ///
    /// - Parameter landings: ``landings`` before the store was looked into. `nil`: it does not matter.
    func join(_ key: String, since landings: UInt64?) -> Role {
        state.withLock { state in
            if let flight = state.flights[key] { return .follow(flight) }
            if let landings, landings != state.landings { return .lookAgain }
            let flight = Flight()
            state.flights[key] = flight
            return .lead(flight)
        }
    }

    /// Ends a flight and lets those that wait go on.
    func end(_ key: String, _ flight: Flight, _ outcome: Outcome) {
        state.withLock { state in
            state.landings += 1
            if state.flights[key] === flight { state.flights[key] = nil }
        }
        flight.end(outcome)
    }
}

/// A request on its way, and those that wait for it.
final class Flight: Sendable {
    private struct State {
        var outcome: FlightTable.Outcome?
        var waiters: [Int: CheckedContinuation<FlightTable.Outcome?, Never>] = [:]
        var count = 0
    }

    private let state = Mutex(State())

    fileprivate func end(_ outcome: FlightTable.Outcome) {
        let waiters = state.withLock { state in
            state.outcome = outcome
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume(returning: outcome) }
    }

    /// How it ended; `nil` when that takes longer than `timeout`.
    ///
    /// - Throws: `CancellationError` when the current task is cancelled, which ends only its own waiting.
    func outcome(within timeout: Duration?) async throws -> FlightTable.Outcome? {
        let number = state.withLock { state in
            state.count += 1
            return state.count
        }
        let alarm = timeout.map { timeout in
            Task { [weak self] in
                try await Task.sleep(for: timeout)
                self?.leave(number)
            }
        }
        defer { alarm?.cancel() }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state -> FlightTable.Outcome?? in
                    if let outcome = state.outcome { return .some(outcome) }
                    if Task.isCancelled { return .some(nil) }
                    state.waiters[number] = continuation
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            leave(number)
        }
        try Task.checkCancellation()
        return outcome
    }

    private func leave(_ number: Int) {
        state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: nil)
    }
}
