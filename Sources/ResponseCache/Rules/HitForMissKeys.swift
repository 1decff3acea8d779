/// The keys whose last response could not be stored. A call with such a key does not wait for the response of an equal
/// call ("hit for miss").
package struct HitForMissKeys: Sendable {
    private var ends: [String: ContinuousClock.Instant] = [:]
    private let life: Duration
    private let limit: Int

    /// An empty set of keys.
    ///
    /// - Parameters:
    ///   - life: How long a key is remembered. Default: 30 seconds.
    ///   - limit: The maximum number of keys. At the limit, expired keys are removed, or all if none has expired. Default:
    ///     4,096.
    package init(life: Duration = .seconds(30), limit: Int = 4_096) {
        self.life = life
        self.limit = limit
    }

    /// Whether the last response for a key could not be stored.
    package func contains(_ key: String, at now: ContinuousClock.Instant = .now) -> Bool {
        ends[key].map { now < $0 } ?? false
    }

    /// Remembers that a response could not be stored.
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
