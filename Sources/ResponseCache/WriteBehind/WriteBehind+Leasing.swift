extension WriteBehind {
    /// Which process fetches a response that several processes miss.
    package enum Lead: Sendable {
        /// This one, with a lease if the store gives leases.
        case own(CacheLease?)
        /// This one, after another process held the lease, so that the response may be stored by now.
        case late(CacheLease?)
        /// Another process.
        case others
    }

    /// Decides whether this process fetches a response, and takes the lease for it.
    ///
    /// - Parameters:
    ///   - name: The name of the lease.
    ///   - duration: The maximum time of the fetch; `nil` means 60 seconds.
    ///   - waits: Whether to wait for another process, at most as long as for a look-up. Otherwise the result is
    ///     ``Lead/others`` at once.
    package func lead(_ name: String, for duration: Duration?, waits: Bool = true) async -> Lead {
        guard let leasing = store.leasing else { return .own(nil) }
        let duration = duration ?? .seconds(60)
        let end = ContinuousClock.now + settings.lookUpTimeout
        do {
            let lead = try await patience.run(within: settings.lookUpTimeout) {
                var pause = Duration.milliseconds(1)
                var lead = try await leasing.lease(name, for: duration).map { Lead.own($0) }
                while lead == nil, waits, ContinuousClock.now < end {
                    try await Task.sleep(for: pause)
                    pause = min(pause * 2, .milliseconds(10))
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
