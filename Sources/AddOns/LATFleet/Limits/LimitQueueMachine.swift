internal import HTTPCore

/// The calls of one process that wait for the same limits of the fleet, and the tokens and places that the process holds. A
/// pure state machine: the caller passes the time and does the step that it returns.
///
/// A token is the right to start a call under a rate limit. A place is one of the calls that may run at once. Each query states
/// how many places are in use, so the next query corrects the error of a lost reply.
struct LimitQueueMachine: Sendable {
    /// A query to the Redis.
    struct Demand: Hashable, Sendable {
        /// How many more calls want to start.
        var want: Int
        /// How many places this queue uses.
        var used: Int
        /// How many tokens were taken and not used.
        var returned: Int
    }

    /// The reply of the Redis.
    struct Answer: Hashable, Sendable {
        /// When each of the granted calls may start, from now.
        var delays: [Duration]
        /// When it is worth asking for more, from now.
        var next: Duration
        /// Whether all places were taken, so that another process may give one back before `next`.
        var isFull: Bool
    }

    enum Step: Hashable {
        /// These calls may start.
        case start([UInt64])
        /// Ask the Redis, and report with ``answered(_:at:)`` or ``failed(at:)``.
        case ask(Demand)
        /// Ask for the next step at this time, or after the next change.
        case sleep(until: Duration)
        /// Nothing to do until the next change.
        case rest
    }

    private struct Waiting {
        let id: UInt64
        var priority: RequestPriority
    }

    /// The largest number of calls in one query.
    static let batch = 64

    /// Whether the limits have places, which must be given back and whose leases must be renewed.
    var keepsPlaces: Bool
    private let renewal: Duration
    /// The waiting calls, in the order in which they start.
    private var waiting: [Waiting] = []
    /// When the tokens that were taken for waiting calls may be used.
    private var ready: [Duration] = []
    private var used = 0
    private var returned = 0
    /// Whether places were given back since the last query.
    private var hasFreedPlaces = false
    private var isAsking = false
    private var askAt = Duration.zero
    private var askedAt = Duration.zero
    private var isFull = false
    /// Whether a place became free during the query.
    private var isWoken = false

    /// - Parameter renewal: The time after which the lease of the places is renewed.
    init(keepsPlaces: Bool, renewal: Duration) {
        self.keepsPlaces = keepsPlaces
        self.renewal = renewal
    }

    /// Whether this value may be dropped.
    var isIdle: Bool { waiting.isEmpty && used == 0 && returned == 0 && !isAsking }

    // MARK: Events

    mutating func enter(_ id: UInt64, priority: RequestPriority) {
        put(Waiting(id: id, priority: priority))
    }

    /// Removes a waiting call. Returns whether it was waiting.
    mutating func cancel(_ id: UInt64) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return false }
        waiting.remove(at: index)
        return true
    }

    mutating func raise(_ id: UInt64, to priority: RequestPriority) {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return }
        var call = waiting.remove(at: index)
        call.priority = max(call.priority, priority)
        put(call)
    }

    /// A call that started has ended.
    ///
    /// - Parameter isUnused: Whether nothing was sent for it.
    mutating func leave(isUnused: Bool) {
        used -= 1
        hasFreedPlaces = true
        if isUnused { returned += 1 }
    }

    /// Places may have become free in another process.
    mutating func wake() {
        if isAsking { isWoken = true } else if isFull { askAt = .zero }
    }

    mutating func answered(_ answer: Answer, at now: Duration) {
        isAsking = false
        askedAt = now
        isFull = answer.isFull
        askAt = isFull && isWoken ? now : now + answer.next
        isWoken = false
        used += answer.delays.count
        ready = (ready + answer.delays.map { now + $0 }).sorted()
    }

    /// The Redis did not reply. Returns all waiting calls, which start, and how many of them the Redis has not counted: for
    /// these only the limits of this process hold.
    mutating func failed(at now: Duration) -> (started: [UInt64], alone: Int) {
        isAsking = false
        askedAt = now
        askAt = now
        let alone = waiting.count - ready.count
        used += alone
        ready = []
        defer { waiting = [] }
        return (waiting.map(\.id), max(0, alone))
    }

    // MARK: Steps

    mutating func step(at now: Duration) -> Step {
        while ready.count > waiting.count {
            // A waiting call has ended.
            ready.removeLast()
            leave(isUnused: true)
        }
        let startable = ready.prefix { $0 <= now }.count
        if startable > 0 {
            let started = waiting.prefix(startable).map(\.id)
            ready.removeFirst(startable)
            waiting.removeFirst(startable)
            return .start(started)
        }
        // No other query is sent before the reply.
        guard !isAsking else { return ready.first.map { .sleep(until: $0) } ?? .rest }
        let wanting = waiting.count - ready.count
        let isDue = wanting > 0 && askAt <= now
        let renewsAt = keepsPlaces && used > 0 ? askedAt + renewal : nil
        if isDue || returned > 0 || hasFreedPlaces && keepsPlaces || renewsAt.map({ $0 <= now }) == true {
            let demand = Demand(want: isDue ? min(wanting, Self.batch) : 0, used: used, returned: returned)
            isAsking = true
            returned = 0
            hasFreedPlaces = false
            return .ask(demand)
        }
        let times = [ready.first, wanting > 0 ? askAt : nil, renewsAt].compactMap { $0 }
        return times.min().map { .sleep(until: $0) } ?? .rest
    }

    /// Inserts a call behind all of the same or a higher priority.
    private mutating func put(_ call: Waiting) {
        // Searches from the end, where most new calls belong.
        var index = waiting.count
        while index > 0, waiting[index - 1].priority < call.priority { index -= 1 }
        waiting.insert(call, at: index)
    }
}
