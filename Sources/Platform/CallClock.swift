/// Time as calls see it; tests turn it themselves.
package struct CallClock: Sendable {
    /// What has gone by since some moment.
    package let now: @Sendable () -> Duration
    package let sleep: @Sendable (Duration) async throws -> Void

    /// The system's clock, which goes on while the machine sleeps.
    package static let continuous = CallClock(now: { elapsed() }, sleep: { try await Task.sleep(for: $0) })

    /// A clock of its own.
    package init(now: @escaping @Sendable () -> Duration, sleep: @escaping @Sendable (Duration) async throws -> Void) {
        self.now = now
        self.sleep = sleep
    }

    private static let beginning = ContinuousClock.now

    private static func elapsed() -> Duration { beginning.duration(to: .now) }
}
