internal import Synchronization

/// What is known about the Redis of a fleet, at one time.
public struct FleetStatus: Hashable, Sendable {
    /// The state of the connection for commands.
    public enum State: String, Hashable, Sendable {
        /// A connection is being made.
        case connecting
        /// Commands are answered.
        case ready
        /// Connecting failed; it is tried again after a pause.
        case waiting
        /// The fleet was shut down.
        case shutDown
    }

    /// Whether commands are sent.
    public enum BreakerState: String, Hashable, Sendable {
        /// Commands are sent.
        case closed
        /// The server failed too often, so nothing is sent for a while.
        case open
        /// One `PING` was sent, and its reply decides.
        case halfOpen
    }

    /// The state of the connection for commands.
    public var state = State.connecting
    /// Whether commands are sent.
    public var breaker = BreakerState.closed
    /// The smoothed time from sending a command to its reply; `nil` before the first reply.
    public var latency: Duration?
    /// The last failure that concerns the server; `nil` while it replies.
    public var lastError: String?
    /// The server's version, such as `7.0.15`; `nil` before it is known.
    public var serverVersion: String?
    /// Whether the server is a replica, which refuses writes.
    public var isReplica = false
    /// How often a connection was established.
    public var connectionCount = 0
    /// The counts of the fleet's parts by name, such as `cache.hits`.
    public var counters: [String: Int] = [:]

    /// Makes the status of a fleet that has not yet connected.
    public init() {}
}

/// A count that a part of a fleet increments. It lives as long as the fleet.
package final class FleetCounter: Sendable {
    private let count = Atomic(0)

    package func add(_ number: Int = 1) { count.add(number, ordering: .relaxed) }

    package var value: Int { count.load(ordering: .relaxed) }
}

/// The counters of a fleet, by name.
package final class FleetCounters: Sendable {
    private let counters = Mutex<[String: FleetCounter]>([:])
    private let observed = Mutex(Observed())

    private struct Observed {
        var next = 0
        var counts: [Int: @Sendable () -> [String: Int]] = [:]
        /// The last counts of the observations that have ended.
        var past: [String: Int] = [:]
    }

    /// The counter of a name. A part asks for its counters once.
    package func counter(_ name: String) -> FleetCounter {
        counters.withLock { counters in
            let counter = counters[name] ?? FleetCounter()
            counters[name] = counter
            return counter
        }
    }

    /// Adds the caller's counts to ``values``. When the returned value is released or cancelled, the last counts stay.
    /// Counts of the same name are added up.
    package func observe(_ counts: @escaping @Sendable () -> [String: Int]) -> FleetSubscription {
        let number = observed.withLock { observed in
            observed.next += 1
            observed.counts[observed.next] = counts
            return observed.next
        }
        return FleetSubscription { [weak self] in
            // The caller's code runs without the lock: it may end another observation.
            guard let self, let counts = observed.withLock({ $0.counts[number] }) else { return }
            let last = counts()
            observed.withLock { observed in
                guard observed.counts.removeValue(forKey: number) != nil else { return }
                observed.past.merge(last, uniquingKeysWith: +)
            }
        }
    }

    /// All counts so far.
    package var values: [String: Int] {
        var values = counters.withLock { $0.mapValues(\.value) }
        let (counts, past) = observed.withLock { (Array($0.counts.values), $0.past) }
        for counts in counts.map({ $0() }) + [past] { values.merge(counts, uniquingKeysWith: +) }
        return values
    }
}

/// A subscription to a channel, or an observation of counts, which ends when this is released.
package final class FleetSubscription: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    /// Ends the subscription. Messages that are being delivered may still arrive.
    package func cancel() { end() }

    deinit { end() }
}
