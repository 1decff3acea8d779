public import FoundationEssentials
internal import HTTPCore
public import ResponseCache

/// The settings of a fleet's cache tier.
///
/// ```swift
/// var options = FleetCacheOptions()
/// options.encryptionKey = key                 // the operator of the Redis cannot read it
/// let store = try fleet.cache(above: MemoryStore(), options)
/// ```
public struct FleetCacheOptions: Sendable {
    /// The largest body that is kept in Redis, in bytes. At most 1 GiB. A larger body stays in the local store.
    /// Default 8 MiB.
    public var bodyLimit: Int64 = 8 << 20
    /// The longest time that Redis keeps a response. Default 7 days.
    public var maxLifetime = Duration.seconds(7 * 86_400)
    /// The longest time that one process may fetch for the others. The lease of a crashed process ends after this time. Default
    /// 10 s.
    public var maxLease = Duration.seconds(10)
    /// How long a request waits for the response that another process fetches, before it fetches it itself. A stale response
    /// that may be used (`stale-while-revalidate`) is returned at once. Default 2 s.
    public var leaseWait = Duration.seconds(2)
    /// How early one process, at random, fetches a fresh response again before it expires (β of XFetch); 0 for never. Applies
    /// only to `CachePolicy.http`. Default 1.
    public var earlyRefresh = 1.0
    /// A key of 32 bytes that encrypts everything but sizes and times (AES-256-GCM). The keys in Redis are then keyed digests.
    /// Processes with different keys share nothing. Default `nil`: no encryption.
    public var encryptionKey: Data?

    /// Makes the default settings.
    public init() {}

    func validate() throws(FleetError) {
        let largest = Int64(FleetCacheCoding.chunkLimit * FleetCacheCoding.chunkByteCount)
        guard (0...largest).contains(bodyLimit) else {
            throw .configuration("bodyLimit is \(bodyLimit); give a number from 0 to \(largest)")
        }
        for (name, time) in [("maxLifetime", maxLifetime), ("maxLease", maxLease)] where time < .milliseconds(1) {
            throw .configuration("\(name) is \(time); give a time above zero")
        }
        guard leaseWait >= .zero else { throw .configuration("leaseWait is \(leaseWait); give zero or more") }
        guard earlyRefresh >= 0, earlyRefresh.isFinite else {
            throw .configuration("earlyRefresh is \(earlyRefresh); give 0 or more, usually 1")
        }
        if let count = encryptionKey?.count, count != 32 {
            throw .configuration("the cache's encryptionKey has \(count) bytes; give 32 random ones")
        }
    }
}

extension Fleet {
    /// A store of the response cache whose lowest tier is the fleet's Redis.
    ///
    /// ```swift
    /// configuration.cacheMode = .shared
    /// configuration.cacheStore = try fleet.cache(above: MemoryStore())
    /// ```
    ///
    /// Redis gets the responses of a partition, and otherwise only those that a shared cache may store (RFC 9111 §3).
    /// Outside a partition, a response marked `private` is stored in the local store at most. So is the response to a
    /// request with credentials, unless it is marked `public` or `s-maxage`, or `must-revalidate` where `Authorization`
    /// is the only credential. Each process, and each manager, needs its own store.
    ///
    /// - Parameters:
    ///   - local: The tier of this process that look-ups try first: memory, disk, or a `TieredStore` of both. Nothing else may
    ///     use it.
    ///   - options: The settings.
    /// - Throws: ``FleetError/Kind/configuration`` when a setting cannot work.
    public func cache(
        above local: any CacheStore, _ options: FleetCacheOptions = FleetCacheOptions()
    ) throws(FleetError) -> any CacheStore {
        let store = try cacheTier(options)
        guard let tiers = local as? TieredStore else { return Self.tier(local, over: store) }
        return Self.tier(tiers.upper, over: Self.tier(tiers.lower, over: store))
    }

    private static func tier(_ upper: any CacheStore, over lower: any CacheStore) -> TieredStore {
        let limit = (upper as? MemoryStore).map { min($0.byteLimit / 8, 1 << 20) } ?? 1 << 20
        return TieredStore(upper, over: lower, copyLimit: limit)
    }

    /// The Redis tier alone.
    package func cacheTier(_ options: FleetCacheOptions) throws(FleetError) -> FleetStore {
        try options.validate()
        do {
            return FleetStore(self, options, try FleetCacheCoding(self, key: options.encryptionKey))
        } catch {
            throw .configuration("the cache cannot be encrypted: \(error)")
        }
    }
}
