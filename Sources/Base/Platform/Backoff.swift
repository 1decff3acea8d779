/// The pauses before a failed attempt is repeated: each is twice as long as the one before, up to a longest.
///
/// A caller whose attempts could meet those of other processes waits a random part of each pause, by ``next(chance:)``.
package struct Backoff: Sendable, Hashable {
    /// The pause after the first failure.
    package let first: Duration
    /// The longest pause. A first pause that is longer is cut to it.
    package let longest: Duration
    /// The failures since the start or the last ``reset()``.
    package private(set) var failures = 0

    package init(first: Duration, longest: Duration) {
        self.first = first
        self.longest = longest
    }

    /// The whole pause after so many failures, from 1.
    package func pause(afterFailures count: Int) -> Duration {
        // Doubled step by step: a shift of a long pause would overflow.
        var pause = min(first, longest)
        var doublings = count - 1
        while doublings > 0, pause > .zero, pause < longest {
            pause = min(pause * 2, longest)
            doublings -= 1
        }
        return pause
    }

    /// Counts a failure.
    ///
    /// - Returns: the whole pause before the next attempt.
    package mutating func next() -> Duration {
        failures += 1
        return pause(afterFailures: failures)
    }

    /// Counts a failure.
    ///
    /// - Parameter chance: a random number from 0 to 1, the part of the whole pause that is waited.
    /// - Returns: the pause before the next attempt.
    package mutating func next(chance: Double) -> Duration { next() * chance }

    /// Makes all further pauses the longest, because only a change of settings can end the failures.
    package mutating func skipToLongest() {
        while first > .zero, pause(afterFailures: failures + 1) < longest { failures += 1 }
    }

    /// Begins with the first pause again, after a success.
    package mutating func reset() { failures = 0 }
}
