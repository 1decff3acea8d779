/// A store whose leases cover several machines. Its callers wait while another caller holds a lease, and may refresh an entry
/// early.
package protocol CacheCoordinating: CacheLeasing {
    /// How long a request waits for the response that another process fetches, before it fetches it itself.
    var leaseWait: Duration { get }

    /// The factor β of ``EarlyRefresh``; 0 for no early refresh.
    var earlyRefreshFactor: Double { get }

    /// Requests a lease, and waits while another caller holds it.
    ///
    /// - Parameter limit: How long it waits; zero to return at once.
    func lease(_ name: String, for duration: Duration, within limit: Duration) async throws -> CacheLeaseOutcome

    /// Whether a response that was just fetched may be stored. If not, the caller drops it, and also its own copies of the
    /// entry, because either may be the older one.
    func accepts(_ entry: CacheEntry) -> Bool

    /// Gives the store the counters of a manager that uses it, for its reports, until the result is released.
    func observe(_ statistics: @escaping @Sendable () -> CacheStatistics) -> any Sendable
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
