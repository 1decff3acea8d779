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
