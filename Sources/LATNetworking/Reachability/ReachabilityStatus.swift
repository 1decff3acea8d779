/// Whether a server can be connected to, as far as is known.
public enum ReachabilityStatus: Hashable, Sendable {
    /// Nobody has tried yet.
    case unknown
    /// A connection stood. `latency` is how long it took without the look-up of the name and without TLS; `address` is
    /// what was connected to: the proxy's when there is one, empty for a Unix domain socket.
    case reachable(latency: Duration, address: String)
    /// No connection came about, or what answered is not the server.
    case unreachable(reason: UnreachableReason)

    /// Whether a connection stood. `false` while nothing is known.
    public var isReachable: Bool { if case .reachable = self { true } else { false } }

    /// How long the connection took; `nil` without one.
    public var latency: Duration? { if case .reachable(let latency, _) = self { latency } else { nil } }

    /// What was connected to; `nil` without a connection.
    public var address: String? { if case .reachable(_, let address) = self { address } else { nil } }

    /// Why no connection came about; `nil` when one did, and when nobody has tried.
    public var reason: UnreachableReason? { if case .unreachable(let reason) = self { reason } else { nil } }

    /// Whether the two differ in more than how fast it went: only such changes are told.
    func isNews(after other: ReachabilityStatus?) -> Bool {
        switch (self, other) {
        case (.reachable(_, let new), .reachable(_, let old)): new != old
        default: self != other
        }
    }
}

/// Why a server cannot be reached.
public enum UnreachableReason: String, Hashable, Sendable, CaseIterable {
    /// The name was not found, or no name server answered.
    case dns
    /// The machine is there, but nobody listens at the port.
    case refused
    /// No answer came in time: a firewall drops the packets, or the machine is off.
    case timeout
    /// The TLS handshake failed: certificate, pin, version.
    case tls
    /// The proxy cannot be reached, or refuses the way on.
    case proxy
    /// There is no way there: no network, no route, the machine does not answer its neighbours.
    case network
    /// A connection stood, but what answered is not what the check expects: a captive portal, most likely.
    case captivePortal
    /// The table has no such domain, or the URL cannot be used.
    case unknownName
    /// Anything else; ``ReachabilityReport/error`` tells.
    case other
}
