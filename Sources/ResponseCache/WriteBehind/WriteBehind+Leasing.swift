extension WriteBehind {
    /// Who fetches an answer that several processes miss.
    package enum Lead: Sendable {
        /// We do, under a lease where the store gives any.
        case own(CacheLease?)
        /// We do, but somebody else did just before, so that the answer may be there by now.
        case late(CacheLease?)
        /// Somebody else does.
        case others
    }

    /// Asks who fetches an answer.
    ///
    /// - Parameters:
    ///   - name: names the answer.
    ///   - duration: how long the fetch takes at most; `nil` where nobody says so.
    ///   - waits: whether somebody else is waited for, as long as for a look-up at most. Else the answer is
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
            report(error, "lease")
            return .own(nil)
        }
    }
}
