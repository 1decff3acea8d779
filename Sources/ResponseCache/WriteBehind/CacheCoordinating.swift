/// A store whose leases cover several machines. Its callers wait for a holder, and may refresh an entry early.
package protocol CacheCoordinating: CacheLeasing {
    /// How long a request waits for the response that another process fetches, before it fetches it itself.
    var leaseWait: Duration { get }

    /// The factor β of ``EarlyRefresh``; 0 for no early refresh.
    var earlyRefreshFactor: Double { get }

    /// Requests a lease, and waits while another caller holds it.
    ///
    /// - Parameter limit: How long it waits; zero to return at once.
    func lease(_ name: String, for duration: Duration, within limit: Duration) async throws -> CacheLeaseOutcome

    /// Whether a response that was just fetched may be stored. If not, neither it nor what was seen during its fetch is to be found any
    /// more, because either may be the older one.
    func accepts(_ entry: CacheEntry) -> Bool

    /// Takes the counters of a manager that uses the store, for its reports.
    func observe(_ statistics: @escaping @Sendable () -> CacheStatistics)
}

/// The outcome of ``CacheCoordinating/lease(_:for:within:)``.
package enum CacheLeaseOutcome: Sendable {
    /// The caller has the lease.
    case granted(CacheLease)
    /// Another caller had it and has ended it: its response may be stored now.
    case ended
    /// Another caller still has it.
    case held
}
