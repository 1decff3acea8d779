import CLibcurl
import Glibc
import Platform

/// The two ends of a TCP connection. Connections from the same local address to the same server have equal ends.
struct ConnectionEnds: Hashable, Sendable {
    /// The local address, without the port.
    let own: SocketAddress
    let peer: SocketAddress

    /// Makes the ends of a connected socket; `nil` when they are unknown or not internet addresses.
    init?(_ socket: CInt) {
        guard let own = SocketAddress.own(of: socket), let peer = SocketAddress.peer(of: socket) else { return nil }
        (self.own, self.peer) = (own.withoutPort, peer)
    }
}

/// Decides which connections still work: their local address exists, its link is up, and the kernel has a route to the
/// peer. It sends nothing.
enum ConnectionRoute {
    /// Returns the ends of the connections that certainly no longer work. Lists this machine's addresses once and asks
    /// for the route of each pair.
    static func gone(among all: Set<ConnectionEnds>) -> Set<ConnectionEnds> {
        guard !all.isEmpty, let addresses = ownAddresses() else { return [] }
        return all.filter { ends in
            let host = host(of: ends.own)
            // All of 127.0.0.0/8 is local, but only one of its addresses is listed. Other addresses not listed are gone.
            let isThere = addresses[host] ?? (host.first == 127 && host.count == 4)
            return !isThere || !hasRoute(ends)
        }
    }

    /// Asks the kernel for a route by binding and connecting a datagram socket, which sends nothing.
    private static func hasRoute(_ ends: ConnectionEnds) -> Bool {
        let kind = CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(ends.own.family, kind, 0)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        guard ends.own.call(bind, descriptor) else { return errno != EADDRNOTAVAIL }
        guard ends.peer.call(connect, descriptor) else {
            return ![ENETUNREACH, EHOSTUNREACH, ENETDOWN, EINVAL, EACCES].contains(errno)
        }
        return true
    }

    /// Returns whether the link is up for each of this machine's addresses; `nil` when these cannot be listed.
    private static func ownAddresses() -> [[UInt8]: Bool]? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        let running = UInt32(IFF_UP) | UInt32(IFF_RUNNING)
        var addresses: [[UInt8]: Bool] = [:]
        var entry = list
        while let current = entry?.pointee {
            entry = current.ifa_next
            guard let name = current.ifa_addr, let address = SocketAddress(name) else { continue }
            let isRunning = current.ifa_flags & running == running
            // Two links may share an address; one that is up is enough.
            addresses[host(of: address), default: false] = isRunning || addresses[host(of: address)] ?? false
        }
        return addresses
    }

    private static func host(of address: SocketAddress) -> [UInt8] {
        let host = address.host
        // Unwraps an IPv4-mapped IPv6 address (::ffff:a.b.c.d).
        let isMapped = host.count == 16 && host[..<10].allSatisfy { $0 == 0 } && host[10] == 0xFF && host[11] == 0xFF
        return isMapped ? Array(host[12...]) : host
    }
}

/// The limit of open connections given to libcurl (`CURLMOPT_MAXCONNECTS`).
///
/// libcurl counts the connections in use too, and closes an idle one whenever
/// the limit is exceeded. The limit is therefore the number of idle connections
/// to keep plus the number of running requests. With a lower limit, each of many
/// running requests would close the connection that the next one could use. A
/// pure value: the engine gives it the number of running requests and passes the limit to
/// libcurl.
struct ConnectionCapacity {
    /// How many idle connections to keep: the manager's setting, or the largest limit of a host if that is higher.
    private var idle: Int
    /// The number of running requests that is included in the current value.
    private var running = 0
    /// The largest number of requests that ran at once in this interval.
    private var peak = 0
    private var intervalEnd = MonotonicTime(nanoseconds: 0)

    /// The number of running requests is rounded up to a multiple of this, so that the limit rarely changes.
    private static var step: Int { 64 }
    /// The minimum time before the value falls, in milliseconds. Requests that end are usually followed by others that
    /// reuse their connections.
    private static var interval: Int64 { 2000 }

    init(maxIdle: Int, perHost: Int) { idle = max(maxIdle, perHost) }

    var value: Int {
        let (sum, overflow) = idle.addingReportingOverflow(running)
        // libcurl takes a `long` and keeps an `int`.
        return overflow ? Int(Int32.max) : min(sum, Int(Int32.max))
    }

    /// Raises the connections per host. Returns whether the value has changed.
    mutating func raise(perHost: Int) -> Bool {
        guard perHost > idle else { return false }
        idle = perHost
        return true
    }

    /// Records how many requests run. Returns whether the value has changed: it rises at once, and falls to the recent
    /// peak.
    mutating func note(running count: Int, _ now: MonotonicTime) -> Bool {
        if count > peak { peak = count }
        guard count > running || now >= intervalEnd else { return false }
        let before = running
        running = (peak + Self.step - 1) / Self.step * Self.step
        if now >= intervalEnd {
            peak = count
            intervalEnd = now + Self.interval
        }
        return running != before
    }
}

/// The easy handles of an engine: those that carry a transfer, and the free ones.
struct HandlePool {
    /// All handles, each at the index of its slot.
    private(set) var all: [EasyHandle] = []
    private var free: [EasyHandle] = []
    /// The free handles with a large buffer, kept apart because libcurl 7.88 may refuse to change a buffer's size.
    private var freeLarge: [EasyHandle] = []

    /// The maximum number of handles that are kept when no transfer runs.
    private static var limit: Int { 256 }

    mutating func take(for transfer: Transfer, _ engine: Engine) -> EasyHandle? {
        let hasLargeBuffer = EasyHandle.hasLargeBuffer(for: transfer)
        if let handle = hasLargeBuffer ? freeLarge.popLast() : free.popLast() { return handle }
        guard let handle = EasyHandle(engine: engine, slot: all.count, hasLargeBuffer: hasLargeBuffer) else {
            return nil
        }
        all.append(handle)
        return handle
    }

    /// Returns a handle to the pool after it has left the multi handle.
    mutating func giveBack(_ handle: EasyHandle, isLast: Bool) {
        handle.finish()
        var handle = handle
        if handle.isSpent,
            let other = EasyHandle(engine: handle.engine, slot: handle.slot, hasLargeBuffer: handle.hasLargeBuffer)
        {
            all[handle.slot] = other
            handle = other
        }
        if handle.hasLargeBuffer { freeLarge.append(handle) } else { free.append(handle) }
        // Frees the extra handles of a burst once no transfer runs.
        guard isLast, all.count > Self.limit else { return }
        all.removeLast(all.count - Self.limit)
        free.removeAll { $0.slot >= Self.limit }
        freeLarge.removeAll { $0.slot >= Self.limit }
    }
}
