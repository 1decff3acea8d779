import CLibcurl
import Glibc
import Platform

/// The two ends of a TCP connection. Connections from one address to one server have the same.
struct ConnectionEnds: Hashable, Sendable {
    /// The address of this machine, without the port.
    let own: SocketAddress
    let peer: SocketAddress

    /// The ends of a connected socket; `nil` when they cannot be told, or are no internet addresses.
    init?(_ socket: CInt) {
        guard let own = SocketAddress.own(of: socket), let peer = SocketAddress.peer(of: socket) else { return nil }
        (self.own, self.peer) = (own.withoutPort, peer)
    }
}

/// Which connections can still carry anything: their own address is there, the link that has it runs, and the kernel
/// knows a way to the other side. Nothing is sent to find out.
enum ConnectionRoute {
    /// Those of some connections that lead nowhere any more; one of which that cannot be told is none of them. Asks for the
    /// addresses of this machine once, and for the route of each pair of ends.
    static func gone(among all: Set<ConnectionEnds>) -> Set<ConnectionEnds> {
        guard !all.isEmpty, let addresses = ownAddresses() else { return [] }
        return all.filter { ends in
            let host = host(of: ends.own)
            // All of 127.0.0.0/8 is this machine's own, though one address of it is listed. Others are gone.
            let isThere = addresses[host] ?? (host.first == 127 && host.count == 4)
            return !isThere || !hasRoute(ends)
        }
    }

    /// A datagram socket that is bound and connected as the connection is asks the kernel for its route, and sends nothing.
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

    /// The addresses of this machine, and whether the link that has each runs; `nil` when they cannot be told.
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
            // Two links may have one address: it is enough that one of them runs.
            addresses[host(of: address), default: false] = isRunning || addresses[host(of: address)] ?? false
        }
        return addresses
    }

    private static func host(of address: SocketAddress) -> [UInt8] {
        let host = address.host
        // An IPv4 address in IPv6 (::ffff:a.b.c.d).
        let isMapped = host.count == 16 && host[..<10].allSatisfy { $0 == 0 } && host[10] == 0xFF && host[11] == 0xFF
        return isMapped ? Array(host[12...]) : host
    }
}
