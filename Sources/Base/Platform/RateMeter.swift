internal import Glibc

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
