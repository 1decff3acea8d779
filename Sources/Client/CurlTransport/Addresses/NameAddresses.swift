internal import HTTPCore
import Platform

/// The addresses of one name, and which of them the next connection goes to. A pure value: its methods receive the time.
struct NameAddresses: Sendable {
    struct Entry: Sendable {
        let address: SocketAddress
        /// The address as libcurl writes it.
        let text: String
        /// The requests that use a connection to it.
        var inFlight = 0
        /// The number of the last connection to it; 0 for none.
        var lastConnection = 0
        var circuit = AddressCircuit()
        /// When it responded last.
        var respondedAt: MonotonicTime?
    }

    /// An address that was tried for a connection.
    struct Attempt {
        let address: SocketAddress
        /// Whether by TCP, not QUIC.
        let isStream: Bool
    }

    private(set) var entries: [Entry] = []
    /// All that the resolver has returned, including those that may not be connected to.
    private var resolved: Set<SocketAddress> = []
    private var resolvedAt = MonotonicTime(nanoseconds: 0)
    private var connections = 0

    /// Whether an address that libcurl offers is one of a list that is not too old.
    func isCurrent(_ offered: SocketAddress, lifetime: Duration, at now: MonotonicTime) -> Bool {
        resolved.contains(offered) && now < resolvedAt + lifetime
    }

    /// Whether nothing is lost when the name is forgotten.
    func isForgettable(lifetime: Duration, at now: MonotonicTime) -> Bool {
        now >= resolvedAt + lifetime && entries.allSatisfy { $0.inFlight == 0 && $0.circuit.isForgettable(at: now) }
    }

    /// When there are so many names, the oldest are forgotten.
    static let limit = 4_096

    /// Forgets the names that can be forgotten, and at the limit the quarter that was resolved first.
    static func forget(_ names: inout [String: NameAddresses], lifetime: Duration, at now: MonotonicTime) {
        names = names.filter { !$0.value.isForgettable(lifetime: lifetime, at: now) }
        guard names.count >= limit else { return }
        let oldest = names.sorted { $0.value.resolvedAt < $1.value.resolvedAt }.prefix(names.count - limit * 3 / 4)
        for (name, _) in oldest { names[name] = nil }
    }

    /// Takes the addresses that libcurl has resolved. Those that are known keep their state.
    ///
    /// - Parameters:
    ///   - all: the addresses in the resolver's order, each with whether it may be connected to.
    ///   - start: a random number. It decides which is the first, so that the processes of a service do not all begin with the
    ///     same address.
    mutating func resolve(_ all: [(address: SocketAddress, isAllowed: Bool)], start: Int, at now: MonotonicTime) {
        resolved = Set(all.map(\.address))
        resolvedAt = now
        let allowed = all.filter(\.isAllowed).map(\.address)
        let known = Dictionary(entries.map { ($0.address, $0) }) { first, _ in first }
        // A name that had no addresses begins anywhere; later the new ones are next.
        let first = entries.isEmpty && !allowed.isEmpty ? start % allowed.count : 0
        entries = (allowed[first...] + allowed[..<first]).compactMap { address in
            known[address] ?? IPAddress(bytes: address.host).map { Entry(address: address, text: $0.description) }
        }
    }

    /// Chooses the address of a connection, of the family that libcurl is about to connect to.
    ///
    /// - Parameters:
    ///   - tried: the addresses that the transfer has tried.
    ///   - avoided: addresses that a request for the same response uses.
    /// - Returns: `nil` if libcurl should go on: to the other family, or to the end of its list.
    mutating func choose(
        _ policy: RequestOptions.Addresses, family: Int32, tried: [SocketAddress], avoided: Set<String> = [],
        at now: MonotonicTime
    ) -> SocketAddress? {
        let left = entries.indices.filter { !tried.contains(entries[$0].address) }
        let working = left.filter { !entries[$0].circuit.isLeftOut(at: now) }
        var candidates = working.filter { entries[$0].address.family == family }
        if candidates.isEmpty {
            // Never leaves out all: those that are left take turns as if they worked.
            guard working.isEmpty else { return nil }
            candidates = left.filter { entries[$0].address.family == family }
        }
        let others = candidates.filter { !avoided.contains(entries[$0].text) }
        if !others.isEmpty { candidates = others }
        let next = candidates.min { first, second in
            let (first, second) = (entries[first], entries[second])
            return policy == .leastRequest
                ? (first.inFlight, first.lastConnection) < (second.inFlight, second.lastConnection)
                : first.lastConnection < second.lastConnection
        }
        return next.map { connect($0, at: now) }
    }

    private mutating func connect(_ index: Int, at now: MonotonicTime) -> SocketAddress {
        connections += 1
        entries[index].lastConnection = connections
        entries[index].circuit.connects(at: now)
        return entries[index].address
    }

    /// Whether requests must not share connections: libcurl would give them a multiplexed one to a silent address, which is busy
    /// with requests that wait for their timeout.
    var needsNewConnection: Bool {
        entries.contains { $0.circuit.isSilent && $0.inFlight > 0 } && entries.contains { !$0.circuit.isOpen }
    }

    /// The addresses that failed before another one was connected to. libcurl tries the next address of a family after the one
    /// before it has failed, but IPv6 and IPv4, and TCP and QUIC, at once: who only lost that race may work.
    static func failed(before used: SocketAddress, of tried: [Attempt]) -> [SocketAddress] {
        guard let end = tried.firstIndex(where: { $0.address == used }),
            !tried.contains(where: { !$0.isStream && $0.address == used })
        else { return [] }
        return tried[..<end].filter { $0.isStream && $0.address.family == used.family }.map(\.address)
    }

    /// Changes the state of an address; nothing for one that the name has no more.
    mutating func update<Result>(_ address: SocketAddress, _ change: (inout Entry) -> Result?) -> Result? {
        guard let index = entries.firstIndex(where: { $0.address == address }) else { return nil }
        return change(&entries[index])
    }

    /// For how long a response counts more than the report of another process.
    static let trust = Duration.seconds(2)

    /// Applies what another process found out about an address. That it fails is not believed if the address has just responded
    /// to this process, or if more than half of the addresses would be left out.
    ///
    /// - Parameter text: the address as libcurl writes it.
    /// - Returns: whether something has changed, and the address if its idle connections should not be used any more.
    mutating func adopt(_ report: CircuitReport, of text: some StringProtocol, at now: MonotonicTime)
        -> (hasChanged: Bool, leaves: SocketAddress?)
    {
        guard let index = entries.firstIndex(where: { $0.text == text }) else { return (false, nil) }
        let entry = entries[index]
        let leftOut = entries.indices.filter { $0 != index && entries[$0].circuit.isLeftOut(at: now) }.count
        if report != .closed {
            let hasResponded = entry.respondedAt.map { now < $0 + Self.trust } ?? false
            guard !hasResponded, (leftOut + 1) * 2 <= entries.count else { return (false, nil) }
        }
        let hasChanged = entries[index].circuit.adopt(report, at: now)
        // Another one works, as no more than half of them are left out.
        let leaves = hasChanged && report != .closed && !entry.circuit.isOpen
        return (hasChanged, leaves ? entry.address : nil)
    }

    /// Notes that a request uses a connection.
    ///
    /// - Parameter text: the address as libcurl writes it.
    mutating func begin(_ text: String) -> SocketAddress? {
        guard let index = entries.firstIndex(where: { $0.text == text }) else { return nil }
        entries[index].inFlight += 1
        return entries[index].address
    }
}
