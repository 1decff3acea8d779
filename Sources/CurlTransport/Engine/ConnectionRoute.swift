import CLibcurl
import Glibc

/// Whether a connection can still carry anything: its own address is there, the link that has it runs, and the kernel
/// knows a way to the other side. Nothing is sent to find out.
enum ConnectionRoute {
    /// Whether a connected TCP socket leads nowhere any more. `false` when that cannot be told.
    static func isGone(_ socket: CInt) -> Bool {
        var local = sockaddr_storage()
        var peer = sockaddr_storage()
        guard name(of: socket, &local, getsockname), name(of: socket, &peer, getpeername) else { return false }
        let family = CInt(local.ss_family)
        guard family == AF_INET || family == AF_INET6 else { return false }
        if !isOnRunningLink(local) { return true }
        return !hasRoute(from: local, to: peer)
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

    /// A datagram socket that is bound and connected as the connection is asks the kernel for its route, and sends nothing.
    private static func hasRoute(from local: sockaddr_storage, to peer: sockaddr_storage) -> Bool {
        let kind = CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(CInt(local.ss_family), kind, 0)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        var own = local
        setPort(of: &own, 0)
        guard call(bind, descriptor, own) == 0 else { return errno != EADDRNOTAVAIL }
        guard call(connect, descriptor, peer) == 0 else {
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

    /// The port lies at the same place in both families.
    private static func setPort(of address: inout sockaddr_storage, _ port: in_port_t) {
        withUnsafeMutableBytes(of: &address) { $0.storeBytes(of: port.bigEndian, toByteOffset: 2, as: in_port_t.self) }
    }

    private static func isOnRunningLink(_ address: sockaddr_storage) -> Bool {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return true }
        defer { freeifaddrs(list) }
        let wanted = host(of: address)
        let running = UInt32(IFF_UP) | UInt32(IFF_RUNNING)
        var entry = list
        while let current = entry?.pointee {
            entry = current.ifa_next
            guard let own = current.ifa_addr, own.pointee.sa_family == address.ss_family else { continue }
            var storage = sockaddr_storage()
            let isIPv4 = CInt(address.ss_family) == AF_INET
            memcpy(&storage, own, isIPv4 ? MemoryLayout<sockaddr_in>.size : MemoryLayout<sockaddr_in6>.size)
            guard host(of: storage) == wanted else { continue }
            if current.ifa_flags & running == running { return true }
            return false
        }
        // All of 127.0.0.0/8 is this machine's own, though one address of it is listed. Others are gone.
        return wanted.first == 127 && wanted.count == 4
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
