extension RequestOptions {
    /// Which address of a name a new connection goes to, where the name has several.
    ///
    ///     configuration.addresses = .roundRobin          // of a manager
    ///     request.addresses = .leastRequest              // of a request
    ///
    /// The names are those of gRPC's load balancing policies. The addresses are those that libcurl has resolved, from
    /// `/etc/hosts`, DNS or `configuration.resolve`, and are resolved again after `configuration.dnsCacheLifetime`. Requests keep
    /// using open connections. Through a proxy, the proxy chooses.
    ///
    /// With ``roundRobin`` and ``leastRequest`` an address that fails is left out: after a connection that failed, or three
    /// requests in a row that got no response. It is left out for a second, and twice as long each time that it fails again, at
    /// most two minutes; then one connection tries it. When all are left out, they are used nevertheless.
    public enum Addresses: String, Hashable, Sendable, CaseIterable {
        /// The first address that can be connected to, in the order of the resolver. The default.
        case pickFirst
        /// Each address in turn.
        case roundRobin
        /// The address with the fewest requests in flight; among equal ones, in turn.
        case leastRequest
    }
}
