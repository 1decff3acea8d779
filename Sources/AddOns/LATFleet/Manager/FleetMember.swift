internal import FoundationEssentials
public import LATNetworking
internal import ResponseCache

extension CentralRequestManager.Configuration {
    /// The fleet that the manager belongs to. Default `nil`: the process is alone.
    ///
    /// ```swift
    /// configuration.fleet = fleet
    /// configuration.limits.rate = RequestLimits.RateLimit(perSecond: 50, burst: 10)    // of all processes together
    /// ```
    ///
    /// With a fleet, the default of `cacheMode` is `shared`: `s-maxage` overrides `max-age`, and a response marked `private` is
    /// stored only in a partition. A mode that the app sets stays.
    ///
    /// Setting it is short for ``join(_:sharing:as:)`` with all parts. ``Fleet/authenticator(_:sharing:key:)`` shares tokens.
    public var fleet: Fleet? {
        get { (companion as? FleetMember)?.fleet }
        set {
            companion = nil
            if let newValue { join(newValue) }
        }
    }

    /// Makes the manager a member of a fleet.
    ///
    /// - Parameters:
    ///   - fleet: the fleet.
    ///   - parts: what is shared. Default: all parts.
    ///   - name: managers with the same name share their limits and circuits. Default `default`. Give different names to
    ///     managers with different limits.
    ///   - cache: the settings of the cache tier. Default `FleetCacheOptions()`.
    public mutating func join(
        _ fleet: Fleet, sharing parts: FleetParts = .all, as name: String = "default",
        cache: FleetCacheOptions = FleetCacheOptions()
    ) {
        companion = FleetMember(fleet: fleet, name: name, parts: parts, cache: cache)
    }
}

struct FleetMember: ManagerCompanion {
    let fleet: Fleet
    let name: String
    let parts: FleetParts
    let cache: FleetCacheOptions

    func prepare(_ configuration: inout CentralRequestManager.Configuration) throws {
        guard !name.isEmpty else {
            throw FleetError.configuration("the manager joins the fleet without a name; leave `as` out, or give a name")
        }
        if parts.contains(.cache) { try cache.validate() }
    }

    func store(above local: any CacheStore) throws -> (any CacheStore)? {
        guard parts.contains(.cache), !Self.isInFleet(local) else { return nil }
        return try fleet.cache(above: local, cache)
    }

    /// Whether the app has put a fleet's tier below its store.
    private static func isInFleet(_ store: any CacheStore) -> Bool {
        guard let tiers = store as? TieredStore else { return store is FleetStore }
        return isInFleet(tiers.upper) || isInFleet(tiers.lower)
    }

    /// Redis returns one user's response to others, so the rules of a shared cache hold (RFC 9111 §3.5, §5.2.2.10).
    var cacheMode: CacheMode? { parts.contains(.cache) ? .shared : nil }

    func sharedLimits() -> (any SharedLimits)? {
        parts.isDisjoint(with: [.limits, .circuits]) ? nil : FleetLimits(fleet, name: name, parts)
    }
}
