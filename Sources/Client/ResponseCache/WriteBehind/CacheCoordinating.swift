/// A store whose leases cover several machines, and whose entries may be refreshed early.
package protocol CacheCoordinating: CacheLeasing {
    /// How long a request waits for the response that another process fetches, before it fetches it itself.
    var leaseWait: Duration { get }

    /// The factor β of ``EarlyRefresh``; 0 for no early refresh.
    var earlyRefreshFactor: Double { get }

    /// Requests a lease, and waits up to a limit while another caller holds it; with zero it returns at once.
    func lease(_ name: String, for duration: Duration, within limit: Duration) async throws -> CacheLeaseOutcome

    /// Whether a response that was just fetched may be stored. If not, the caller drops it and also its own copies of the
    /// entry, because it is unknown which of them is older.
    func accepts(_ entry: CacheEntry) -> Bool

    /// Gives the store the counters of a manager that uses it, for its reports, until the result is released.
    func observe(_ statistics: @escaping @Sendable () -> CacheStatistics) -> any Sendable
}

/// The result of a request for a lease.
package enum CacheLeaseOutcome: Sendable {
    case granted(CacheLease)
    /// Another caller had it and has ended it: its response may be stored now.
    case ended
    /// Another caller still has it.
    case held
}
