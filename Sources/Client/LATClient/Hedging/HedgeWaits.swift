/// The first requests of a row's calls that have no answer yet, and when each is sent again. Its methods receive the time.
///
/// They share one alarm: hardly any call takes that long, so nothing is set and cancelled for each.
struct HedgeWaits: Sendable {
    struct Wait: Sendable {
        /// How the request goes on from the stage of hedges; `nil` in a place that is free.
        private(set) var chain: Chain?
        /// How long the request may take before it is sent again; `nil` while nothing is known.
        let delay: Duration?
        /// Sends the request again. Made when its time has come, if that can be done from the call alone.
        fileprivate(set) var race: HedgeRace?
        /// When the request was sent.
        fileprivate(set) var startedAt: Duration?
        /// When it is sent again; `nil` from then on.
        fileprivate var due: Duration?
        /// Whether its time has come.
        fileprivate(set) var isSlow = false

        init(_ chain: Chain, after delay: Duration?, _ race: HedgeRace? = nil) {
            (self.chain, self.delay, self.race) = (chain, delay, race)
        }

        fileprivate mutating func clear() { (chain, race, due) = (nil, nil, nil) }
    }

    private var waits: [Wait] = []
    private var free: [Int] = []
    /// The time for which the alarm is set.
    private var alarm: Duration?

    /// Adds a request that is about to be sent. Returns its place.
    mutating func begin(_ wait: Wait) -> Int {
        guard let place = free.popLast() else {
            waits.append(wait)
            return waits.count - 1
        }
        waits[place] = wait
        return place
    }

    /// Records that a call's request is being sent. Returns the time to set the alarm for, if it has to be set.
    mutating func start(_ place: Int, of call: Call, at now: Duration) -> Duration? {
        // A place is given to another request when its own has ended.
        guard waits[place].chain?.call === call, waits[place].startedAt == nil else { return nil }
        waits[place].startedAt = now
        guard let delay = waits[place].delay else { return nil }
        let due = now + delay
        waits[place].due = due
        return setAlarm(for: due)
    }

    /// Takes out a request that was answered or failed.
    ///
    /// - Returns: the request if its time had come, and otherwise when it was sent.
    mutating func end(_ place: Int) -> (slow: Wait?, startedAt: Duration?) {
        free.append(place)
        defer { waits[place].clear() }
        return (waits[place].isSlow ? waits[place] : nil, waits[place].startedAt)
    }

    /// Takes the times that have come.
    ///
    /// - Parameter race: makes what sends such a request again.
    /// - Returns: the requests, and the time to set the alarm for, if it has to be set.
    mutating func takeDue(at now: Duration, race: (Chain) -> HedgeRace) -> (due: [Wait], alarm: Duration?) {
        if let alarm, alarm <= now { self.alarm = nil }
        var (due, next): ([Wait], Duration?) = ([], nil)
        for place in waits.indices {
            guard let time = waits[place].due, let chain = waits[place].chain else { continue }
            guard time <= now else {
                next = min(next ?? time, time)
                continue
            }
            waits[place].due = nil
            waits[place].isSlow = true
            waits[place].race = waits[place].race ?? race(chain)
            due.append(waits[place])
        }
        return (due, next.flatMap { setAlarm(for: $0) })
    }

    private mutating func setAlarm(for time: Duration) -> Duration? {
        guard alarm.map({ time < $0 }) ?? true else { return nil }
        alarm = time
        return time
    }
}
