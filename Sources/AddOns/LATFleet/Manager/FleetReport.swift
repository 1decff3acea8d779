internal import FoundationEssentials
public import LATNetworking
internal import ResponseCache

/// What the fleet has done for this process so far. Needs no round trip.
///
/// ```swift
/// if let fleet = manager.fleet { print(fleet) }
/// ```
public struct FleetReport: Hashable, Sendable, CustomStringConvertible {
    /// The state of the connection, its breaker, its latency and all counters.
    public let status: FleetStatus

    /// The look-ups of the cache by the tier that answered them, and those that none answered.
    public struct Hits: Hashable, Sendable {
        /// Those that the memory of this process answered.
        public let memory: Int
        /// Those that its disk answered.
        public let disk: Int
        /// Those that the Redis answered.
        public let redis: Int
        /// Those that no tier answered.
        public let misses: Int
    }

    /// What the cache tiers answered.
    public let hits: Hits

    /// How many fetches this process made for all processes.
    public var leasesWon: Int { status.counters["cache.leases.won"] ?? 0 }
    /// How often this process did not get a lease in time, because another process held it.
    public var leasesLost: Int { status.counters["cache.leases.lost"] ?? 0 }
    /// How many requests the shared limits let start.
    public var limitsGranted: Int { status.counters["limits.granted"] ?? 0 }
    /// How often a request had to wait for the shared limits.
    public var limitsWaited: Int { status.counters["limits.waited"] ?? 0 }
    /// How many requests started under the limits of this process only, because the Redis did not reply.
    public var limitsAlone: Int { status.counters["limits.alone"] ?? 0 }
    /// How many circuits this process opened for all processes.
    public var circuitsOpened: Int { status.counters["circuits.opened"] ?? 0 }
    /// How often this process heard that another one opened or closed a circuit.
    public var circuitsHeard: Int { status.counters["circuits.heard"] ?? 0 }
    /// How many tokens this process renewed for all processes.
    public var tokensRenewed: Int { status.counters["tokens.renewed"] ?? 0 }
    /// How many tokens of other processes this process adopted.
    public var tokensAdopted: Int { status.counters["tokens.adopted"] ?? 0 }
    /// How many tokens this process renewed for itself, because the Redis did not reply.
    public var tokensAlone: Int { status.counters["tokens.alone"] ?? 0 }

    init(_ status: FleetStatus, _ statistics: CacheStatistics) {
        self.status = status
        hits = Hits(
            memory: Int(statistics.memoryHits), disk: Int(statistics.diskHits),
            redis: Int(statistics.remoteHits), misses: Int(statistics.misses))
    }

    /// One line for each part.
    public var description: String {
        let latency = status.latency.map { "\($0.microseconds) µs" } ?? "unknown"
        var lines = ["Redis   \(status.state.rawValue), breaker \(status.breaker.rawValue), latency \(latency)"]
        if let error = status.lastError { lines.append("        \(error)") }
        lines.append("cache   memory \(hits.memory), disk \(hits.disk), Redis \(hits.redis), misses \(hits.misses)")
        lines.append("leases  won \(leasesWon), lost \(leasesLost)")
        lines.append("limits  granted \(limitsGranted), waited \(limitsWaited), alone \(limitsAlone)")
        lines.append("circuit opened \(circuitsOpened), heard \(circuitsHeard)")
        lines.append("tokens  renewed \(tokensRenewed), adopted \(tokensAdopted), alone \(tokensAlone)")
        return lines.joined(separator: "\n")
    }
}

extension CentralRequestManager {
    /// What the fleet has done for this process so far; `nil` for a manager that belongs to none. The counts are those of the
    /// ``Fleet`` object, the hits of the cache those of this manager.
    public var fleet: FleetReport? {
        configuration.fleet.map { FleetReport($0.status, cache.statistics) }
    }
}
