internal import FoundationEssentials
internal import HTTPCore
package import ResponseCache

// Leases: one process fetches what all of them miss.
extension FleetStore {
    package var leaseWait: Duration { options.leaseWait }

    package var earlyRefreshFactor: Double { options.earlyRefresh }

    /// How long no process waits for a response that turned out not to be storable, in milliseconds.
    private static let passLife: Int64 = 30_000

    package func lease(_ name: String, for duration: Duration) async throws -> CacheLease? {
        await ask(lease: coding.leaseKey(name), for: duration).lease
    }

    package func lease(
        _ name: String, for duration: Duration, within limit: Duration
    ) async throws -> CacheLeaseOutcome {
        let key = coding.leaseKey(name)
        let waiter = hub.beginWait(for: key)
        defer { hub.endWait(for: key, waiter) }
        let (lease, isHeld, left) = await ask(lease: key, for: duration)
        if let lease {
            if isHeld { counts.won.add() }
            return .granted(lease)
        }
        guard limit > .zero else {
            counts.lostLeases.add()
            return .held
        }
        counts.waited.add()
        // A holder that has crashed announces no end.
        let isWhole = left < limit
        let hasEnded = try await hub.limits.value(of: waiter, within: min(limit, left), late: .success(false))
        if hasEnded || isWhole { return .ended }
        counts.lostLeases.add()
        return .held
    }

    /// Asks for a lease.
    ///
    /// - Returns: The lease, and whether other processes wait for its end; or for how long another process still holds it. If
    ///   Redis fails, a lease of this process alone, with the number 0.
    private func ask(
        lease key: String, for duration: Duration
    ) async -> (lease: CacheLease?, isHeld: Bool, left: Duration) {
        let token = Hexadecimal.random(byteCount: 8)
        let life = min(duration, options.maxLease).roundedUpMilliseconds
        let reply = await ask(FleetCacheScripts.lease, [key], [.text(token), .integer(max(1, life))])?.array
        guard let reply, reply.count == 2, let kind = reply[0].integer, let value = reply[1].integer,
            (0..<Int64.max).contains(value)
        else {
            return (CacheLease(number: 0) {}, false, .zero)
        }
        guard kind != 0 else { return (nil, false, .milliseconds(value + 1)) }
        let isHeld = kind == 1
        let lease = CacheLease(number: UInt64(value), name: key) { [fleet, coding, hub] isPassed in
            guard isHeld else { return }
            hub.endWaits(for: key)
            Task {
                guard let message = try? coding.message(.free(key), from: hub.sender) else { return }
                let arguments: [RedisArgument] = [
                    .text("\(value) \(token)"), .integer(isPassed ? Self.passLife : 0), .text(coding.channel),
                    .data(message),
                ]
                _ = try? await fleet.redis.run(FleetCacheScripts.release, keys: [key], arguments, .write)
            }
        }
        return (lease, isHeld, .zero)
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
