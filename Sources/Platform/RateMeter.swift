internal import Glibc

/// How fast bytes come, smoothed: a value that is fed with counts and times.
///
/// An exponential mean with a time constant of three seconds: what came in the last three seconds makes up two thirds of
/// it. Silence lowers it like anything else.
package struct RateMeter: Sendable {
    /// Bytes per second; `nil` until a tenth of a second has passed.
    package private(set) var bytesPerSecond: Double?
    private var since: Duration?
    private var pending: Int64 = 0

    package init() {}

    private static let shortest = Duration.milliseconds(100)
    private static let timeConstant = 3.0

    /// Whether enough time has passed for another look.
    package func isDue(at time: Duration) -> Bool { since.map { time - $0 >= Self.shortest } ?? true }

    /// Takes in that bytes have come since the last time.
    package mutating func note(_ count: Int64, at time: Duration) {
        guard let since else {
            // What was under way already says nothing of the time before.
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

    /// Forgets all, because the transfer stands still on purpose.
    package mutating func stop() { self = RateMeter() }

    /// The time for so many bytes; `nil` while nothing moves.
    package func time(for count: Int64) -> Duration? {
        guard let bytesPerSecond, bytesPerSecond >= 1 else { return nil }
        return .seconds(min(Double(count) / bytesPerSecond, 1e12))
    }
}

extension Duration {
    /// Seconds with their fraction.
    fileprivate var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
