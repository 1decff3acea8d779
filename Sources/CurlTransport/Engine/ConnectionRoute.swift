import CLibcurl
import Glibc

/// The two ends of a TCP connection. Connections from one address to one server have the same.
struct ConnectionEnds: Hashable, Sendable {
    /// The address of this machine, without the port.
    private let ownName: [UInt8]
    private let peerName: [UInt8]

    /// The ends of a connected socket; `nil` when they cannot be told, or are no internet addresses.
    init?(_ socket: CInt) {
        var own = sockaddr_storage()
        var peer = sockaddr_storage()
        guard Self.name(of: socket, &own, getsockname), Self.name(of: socket, &peer, getpeername),
            [AF_INET, AF_INET6].contains(CInt(own.ss_family))
        else { return nil }
        // The port lies at the same place in both families.
        withUnsafeMutableBytes(of: &own) { $0.storeBytes(of: 0, toByteOffset: 2, as: in_port_t.self) }
        (ownName, peerName) = (Self.bytes(of: own), Self.bytes(of: peer))
    }

    var own: sockaddr_storage { Self.address(ownName) }
    var peer: sockaddr_storage { Self.address(peerName) }

    private static func bytes(of address: sockaddr_storage) -> [UInt8] {
        let isIPv4 = CInt(address.ss_family) == AF_INET
        let length = isIPv4 ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size
        return withUnsafeBytes(of: address) { Array($0.prefix(length)) }
    }

    private static func address(_ bytes: [UInt8]) -> sockaddr_storage {
        var address = sockaddr_storage()
        withUnsafeMutableBytes(of: &address) { $0.copyBytes(from: bytes) }
        return address
    }

    private static func name(
        of socket: CInt, _ address: inout sockaddr_storage,
        _ call: (CInt, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> CInt
    ) -> Bool {
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { call(socket, $0, &length) == 0 }
        }
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
        let descriptor = socket(CInt(ends.own.ss_family), kind, 0)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        guard call(bind, descriptor, ends.own) == 0 else { return errno != EADDRNOTAVAIL }
        guard call(connect, descriptor, ends.peer) == 0 else {
            return ![ENETUNREACH, EHOSTUNREACH, ENETDOWN, EINVAL, EACCES].contains(errno)
        }
        return true
    }

    private static func call(
        _ function: (CInt, UnsafePointer<sockaddr>?, socklen_t) -> CInt, _ descriptor: CInt, _ address: sockaddr_storage
    ) -> CInt {
        var address = address
        let isIPv4 = CInt(address.ss_family) == AF_INET
        let length = isIPv4 ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { function(descriptor, $0, socklen_t(length)) }
        }
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
            guard let name = current.ifa_addr else { continue }
            let family = CInt(name.pointee.sa_family)
            guard family == AF_INET || family == AF_INET6 else { continue }
            var storage = sockaddr_storage()
            memcpy(&storage, name, family == AF_INET ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size)
            let isRunning = current.ifa_flags & running == running
            // Two links may have one address: it is enough that one of them runs.
            addresses[host(of: storage), default: false] = isRunning || addresses[host(of: storage)] ?? false
        }
        return addresses
    }

    private static func host(of address: sockaddr_storage) -> [UInt8] {
        withUnsafeBytes(of: address) { bytes in
            var host = Array(CInt(address.ss_family) == AF_INET ? bytes[4..<8] : bytes[8..<24])
            // An IPv4 address in IPv6 (::ffff:a.b.c.d).
            if host.count == 16, host[..<10].allSatisfy({ $0 == 0 }), host[10] == 0xFF, host[11] == 0xFF {
                host = Array(host[12...])
            }
            return host
        }
    }
}
