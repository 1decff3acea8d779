/// Who is tried when, and whose answer still holds: a pure state machine.
///
/// Any number of callers that ask for the same thing at once share one try. An answer holds for a while; a change of
/// the network ends that, and makes a try that is under way begin once more, since its answer may be of the time
/// before.
struct ProbeLedger<Target: Hashable, Answer> {
    typealias Instant = ContinuousClock.Instant

    /// What somebody who asks is to do.
    enum Action {
        /// Take this answer.
        case take(Answer)
        /// Wait for the try that is under way.
        case join
        /// Try, and tell ``finish(_:_:isReachable:at:)`` what came of it.
        case start
    }

    /// What to do when a try is over.
    enum Outcome {
        /// The answer is good.
        case deliver
        /// The network has changed meanwhile: try again, those who wait go on waiting.
        case repeated
    }

    private struct Entry {
        var answer: Answer?
        var validUntil: Instant?
        var isRunning = false
        var isOutdated = false
        var failures = 0
    }

    let ttl: Duration
    let failureTTL: Duration
    /// How many targets are remembered; those whose answer holds no more are forgotten first.
    let capacity: Int
    private var entries: [Target: Entry] = [:]

    init(ttl: Duration, failureTTL: Duration, capacity: Int = 256) {
        self.ttl = ttl
        self.failureTTL = failureTTL
        self.capacity = capacity
    }

    /// The last answer, whatever its age.
    func answer(of target: Target) -> Answer? { entries[target]?.answer }

    /// How many targets are remembered.
    var count: Int { entries.count }

    /// Somebody wants to know.
    ///
    /// - Parameter isFresh: whether an answer from before will not do.
    mutating func ask(_ target: Target, isFresh: Bool = false, at now: Instant) -> Action {
        if entries[target] == nil, entries.count >= capacity { forget(at: now) }
        var entry = entries[target] ?? Entry()
        defer { entries[target] = entry }
        if entry.isRunning { return .join }
        if !isFresh, let answer = entry.answer, let validUntil = entry.validUntil, now < validUntil {
            return .take(answer)
        }
        entry.isRunning = true
        entry.isOutdated = false
        return .start
    }

    /// A try is over.
    mutating func finish(_ target: Target, _ answer: Answer, isReachable: Bool, at now: Instant) -> Outcome {
        var entry = entries[target] ?? Entry()
        defer { entries[target] = entry }
        if entry.isOutdated {
            // Once: a network that never comes to rest must not keep anybody waiting for ever.
            entry.isOutdated = false
            entry.validUntil = nil
            return .repeated
        }
        entry.isRunning = false
        entry.answer = answer
        entry.failures = isReachable ? 0 : min(entry.failures + 1, 16)
        entry.validUntil = now + (isReachable ? ttl : failureTTL)
        return .deliver
    }

    /// The network is another: no answer holds any more, though it is still the last that is known.
    mutating func networkChanged() {
        for target in entries.keys {
            entries[target]?.validUntil = nil
            entries[target]?.failures = 0
            if entries[target]?.isRunning == true { entries[target]?.isOutdated = true }
        }
    }

    /// When to try a target again that somebody follows: when its answer ends, and for one that stays unreachable less
    /// and less often, down to the pace of the others.
    func nextTry(of target: Target, at now: Instant) -> Instant {
        guard let entry = entries[target], let validUntil = entry.validUntil else { return now }
        guard entry.failures > 1 else { return validUntil }
        let pause = min(max(ttl, failureTTL), failureTTL * (1 << min(entry.failures - 1, 8)))
        return validUntil + (pause - failureTTL)
    }

    private mutating func forget(at now: Instant) {
        entries = entries.filter { $1.isRunning || $1.validUntil.map { $0 > now } ?? false }
        if entries.count >= capacity { entries = entries.filter { $1.isRunning } }
    }
}
