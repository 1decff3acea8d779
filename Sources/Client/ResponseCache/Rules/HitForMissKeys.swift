/// The keys whose last response could not be stored, so that no call waits for an equal one ("hit for miss").
package struct HitForMissKeys: Sendable {
    private var ends: [String: ContinuousClock.Instant] = [:]
    private let life: Duration
    private let limit: Int

    /// An empty set of keys, each of which is remembered for `life`. At the limit, expired keys are removed, or all if none
    /// has expired.
    package init(life: Duration = .seconds(30), limit: Int = 4_096) {
        self.life = life
        self.limit = limit
    }

    package func contains(_ key: String, at now: ContinuousClock.Instant = .now) -> Bool {
        ends[key].map { now < $0 } ?? false
    }

    package mutating func insert(_ key: String, at now: ContinuousClock.Instant = .now) {
        if ends.count >= limit {
            ends = ends.filter { now < $0.value }
            if ends.count >= limit { ends = [:] }
        }
        ends[key] = now + life
    }

    /// Forgets a key, because its response was stored.
    package mutating func remove(_ key: String) { ends[key] = nil }
}
