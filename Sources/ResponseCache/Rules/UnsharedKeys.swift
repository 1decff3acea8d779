/// The keys whose last answer could not be stored, so that nobody waits for the next one ("hit for miss"). A pure value.
package struct UnsharedKeys: Sendable {
    private var ends: [String: ContinuousClock.Instant] = [:]
    private let life: Duration
    private let limit: Int

    /// No keys.
    ///
    /// - Parameters:
    ///   - life: how long it counts that an answer could not be stored. Default: 30 seconds.
    ///   - limit: so many keys at most; beyond, those that count no more go, or all. Default: 4,096.
    package init(life: Duration = .seconds(30), limit: Int = 4_096) {
        self.life = life
        self.limit = limit
    }

    /// Whether the last answer could not be stored.
    package func contains(_ key: String, at now: ContinuousClock.Instant = .now) -> Bool {
        ends[key].map { now < $0 } ?? false
    }

    /// Notes that an answer could not be stored.
    package mutating func insert(_ key: String, at now: ContinuousClock.Instant = .now) {
        if ends.count >= limit {
            ends = ends.filter { now < $0.value }
            if ends.count >= limit { ends = [:] }
        }
        ends[key] = now + life
    }

    /// Notes that an answer was stored.
    package mutating func remove(_ key: String) { ends[key] = nil }
}
