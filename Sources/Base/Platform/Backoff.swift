internal import Glibc

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

/// A smoothed rate of bytes, computed from counts and times.
///
/// It is an exponential moving average with a time constant of three seconds, so the last three seconds make up two thirds
/// of it. It falls while no bytes arrive.
package struct RateMeter: Sendable {
    /// Bytes per second; `nil` until a tenth of a second has passed.
    package private(set) var bytesPerSecond: Double?
    private var since: Duration?
    private var pending: Int64 = 0

    package init() {}

    private static let shortest = Duration.milliseconds(100)
    private static let timeConstant = 3.0

    /// Whether enough time has passed for another measurement.
    package func isDue(at time: Duration) -> Bool { since.map { time - $0 >= Self.shortest } ?? true }

    /// Adds the bytes that arrived since the last call.
    package mutating func note(_ count: Int64, at time: Duration) {
        guard let since else {
            // The first bytes have no known start, so they only start the clock.
            self.since = time
            return
        }
        pending += count
        let interval = time - since
        guard interval >= Self.shortest else { return }
        let seconds = interval.inSeconds
        let rate = Double(pending) / seconds
        let weight = 1 - exp(-seconds / Self.timeConstant)
        bytesPerSecond = bytesPerSecond.map { $0 + (rate - $0) * weight } ?? rate
        self.since = time
        pending = 0
    }

    /// Resets the meter, because the transfer pauses, ends or changes its direction.
    package mutating func stop() { self = RateMeter() }

    /// The estimated time for this many bytes; `nil` when the rate is unknown or 0, or the time is more than a year, as when
    /// the transfer has stalled.
    package func time(for count: Int64) -> Duration? {
        guard let bytesPerSecond, bytesPerSecond > 0 else { return nil }
        let seconds = Double(count) / bytesPerSecond
        return seconds < 31_536_000 ? .seconds(seconds) : nil
    }
}
