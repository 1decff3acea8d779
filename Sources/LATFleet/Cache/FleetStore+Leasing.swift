internal import FoundationEssentials
internal import HTTPCore
package import ResponseCache

// Leases: one process fetches what all of them miss.
extension FleetStore {
    package var leaseWait: Duration { options.leaseWait }

    package var earlyRefreshFactor: Double { options.earlyRefresh }

    /// How long no process waits for an answer that turned out not to be storable, in milliseconds.
    private static let passLife: Int64 = 30_000

    package func lease(_ name: String, for duration: Duration) async throws -> CacheLease? {
        switch await ask(lease: coding.leaseKey(name), for: duration) {
        case .mine(let lease): lease
        case .held: nil
        case .unknown: Self.free
        }
    }

    package func lease(
        _ name: String, for duration: Duration, within limit: Duration
    ) async throws -> CacheLeaseOutcome {
        let key = coding.leaseKey(name)
        let (number, waiter) = hub.beginWait(for: key)
        defer { hub.endWait(for: key, number) }
        switch await ask(lease: key, for: duration) {
        case .mine(let lease):
            counts.won.add()
            return .granted(lease)
        case .unknown: return .granted(Self.free)
        case .held(let left):
            guard limit > .zero else {
                counts.lostLeases.add()
                return .held
            }
            counts.waited.add()
            // A holder that has crashed announces no end.
            let isWhole = left < limit
            if try await hub.wait(waiter, within: min(limit, left)) || isWhole { return .ended }
            counts.lostLeases.add()
            return .held
        }
    }

    private enum Answer {
        case mine(CacheLease)
        case held(Duration)
        /// Redis does not answer.
        case unknown
    }

    /// A lease of this process alone, for when Redis fails or nobody needs to wait.
    private static var free: CacheLease { CacheLease(number: 0) {} }

    private func ask(lease key: String, for duration: Duration) async -> Answer {
        let token = Hexadecimal.random(byteCount: 8)
        let life = min(duration, options.maxLease).roundedUpMilliseconds
        let reply = await ask(FleetCacheScripts.lease, [key], [.text(token), .integer(max(1, life))])?.array
        guard let reply, reply.count == 2, let kind = reply[0].integer, let value = reply[1].integer else {
            return .unknown
        }
        guard kind != 0 else { return .held(.milliseconds(value + 1)) }
        let text = "\(value) \(token)"
        return .mine(
            CacheLease(number: UInt64(value), name: key) { [fleet, coding, hub] isPassed in
                guard kind == 1 else { return }
                hub.endWaits(for: key)
                Task {
                    guard let message = try? coding.message(.free(key), from: hub.sender) else { return }
                    _ = try? await fleet.redis.run(
                        FleetCacheScripts.release, keys: [key],
                        [
                            .text(text), .integer(isPassed ? Self.passLife : 0), .text(coding.channel), .data(message),
                        ], .write)
                }
            })
    }

    package func observe(_ statistics: @escaping @Sendable () -> CacheStatistics) -> any Sendable {
        fleet.counters.observe {
            let counted = statistics()
            return [
                "cache.memory.hits": Int(counted.memoryHits), "cache.disk.hits": Int(counted.diskHits),
                "cache.remote.hits": Int(counted.remoteHits), "cache.stale": Int(counted.stale),
                "cache.revalidated": Int(counted.revalidated), "cache.fetches": Int(counted.misses),
            ]
        }
    }
}
