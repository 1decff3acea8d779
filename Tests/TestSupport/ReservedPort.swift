import Glibc

/// A port of 127.0.0.1 that stays reserved for a program, before it listens and across restarts.
///
/// While this value lives, the system assigns the port to nobody else. The program can still listen on it, because both
/// sockets have `SO_REUSEADDR` and this one never listens. Until then the port refuses connections.
package final class ReservedPort: Sendable {
    package let port: Int
    private let descriptor: CInt

    package init() throws {
        // SOCK_STREAM | SOCK_CLOEXEC
        descriptor = socket(AF_INET, 1 | 0o2000000, 0)
        var isOn: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<CInt>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { [descriptor] pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        guard isBound else { throw Overdue(description: "no port is free") }
    }

    deinit { close(descriptor) }
}
