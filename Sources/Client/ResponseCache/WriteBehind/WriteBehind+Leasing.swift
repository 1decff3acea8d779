import Platform

extension WriteBehind {
    /// Which process fetches a response that several processes miss.
    package enum Lead: Sendable {
        /// This one, with a lease if the store gives leases.
        case own(CacheLease?)
        /// This one. Another process may have fetched it in the meantime, so look up the response first.
        case late(CacheLease?)
        /// Another process has just ended its fetch: look up the response, and ask again if nothing is stored.
        case ended
        /// Another process fetches it.
        case others
    }

    /// Decides whether this process fetches a response, and takes the lease for it.
    ///
    /// - Parameters:
    ///   - duration: The maximum time of the fetch; `nil` means 60 seconds.
    ///   - start: When the request began to wait for other processes. Default: now; `nil` if it does not wait, so that the
    ///     result is ``Lead/others`` at once while another process has the lease. It waits at most
    ///     ``CacheCoordinating/leaseWait``, or with other stores as long as for a look-up.
    package func lead(
        _ name: String, for duration: Duration?, waitingSince start: ContinuousClock.Instant? = .now
    ) async -> Lead {
        guard let leasing = store.leasing else { return .own(nil) }
        let duration = duration ?? .seconds(60)
        do {
            if let coordinator {
                let limit = start.map { max(.zero, coordinator.leaseWait - (ContinuousClock.now - $0)) } ?? .zero
                return switch try await coordinator.lease(name, for: duration, within: limit) {
                case .granted(let lease): .late(lease)
                case .ended: .ended
                case .held: .others
                }
            }
            let end = ContinuousClock.now + settings.lookUpTimeout
            let lead = try await limiter.run(within: settings.lookUpTimeout) {
                var backoff = Backoff(first: .milliseconds(1), longest: .milliseconds(10))
                var lead = try await leasing.lease(name, for: duration).map { Lead.own($0) }
                while lead == nil, start != nil, ContinuousClock.now < end {
                    try await Task.sleep(for: backoff.next())
                    lead = try await leasing.lease(name, for: duration).map { .late($0) }
                }
                return lead ?? .others
            }
            return lead ?? .others
        } catch {
            report(error, "take a lease")
            return .own(nil)
        }
    }
}
