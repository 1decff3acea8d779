import HTTPCore
import Synchronization

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
