/// The clock that calls use. Tests replace it.
package struct CallClock: Sendable {
    /// The time since an arbitrary start.
    package let now: @Sendable () -> Duration
    package let sleep: @Sendable (Duration) async throws -> Void

    /// The longest sleep: 31 years. `Task.sleep` traps when the end of the sleep is beyond `Int64.max` seconds.
    package static let longestSleep = Duration.seconds(1_000_000_000)

    /// The system's clock, which advances while the machine sleeps.
    package static let continuous = CallClock(
        now: { beginning.duration(to: .now) }, sleep: { try await Task.sleep(for: min($0, longestSleep)) })

    package init(now: @escaping @Sendable () -> Duration, sleep: @escaping @Sendable (Duration) async throws -> Void) {
        self.now = now
        self.sleep = sleep
    }

    private static let beginning = ContinuousClock.now
}
