/// Time as calls see it; tests turn it themselves.
struct CallClock: Sendable {
    /// What has gone by since some moment.
    let now: @Sendable () -> Duration
    let sleep: @Sendable (Duration) async throws -> Void

    /// The system's clock, which goes on while the machine sleeps.
    static let continuous = CallClock(now: { elapsed() }, sleep: { try await Task.sleep(for: $0) })

    private static let beginning = ContinuousClock.now

    private static func elapsed() -> Duration { beginning.duration(to: .now) }
}
