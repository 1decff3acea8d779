import Glibc
import Platform

/// A port of an address of this machine that stays reserved for a program, before it listens and across restarts.
///
/// While this value lives, the system assigns the port to nobody else. The program can still listen on it, because both
/// sockets have `SO_REUSEADDR` and this one never listens. Until then the port refuses connections.
package final class ReservedPort: Sendable {
    package let port: Int
    private let descriptor: CInt

    /// - Parameters:
    ///   - address: The IPv4 address.
    ///   - port: The port; 0 for any free one.
    package init(_ address: String = "127.0.0.1", port: Int = 0) throws {
        let host = address.split(separator: ".").compactMap { UInt8($0) }
        // SOCK_STREAM | SOCK_CLOEXEC
        let descriptor = socket(AF_INET, 1 | 0o2000000, 0)
        guard let name = SocketAddress(host: host, port: UInt16(port)), name.call(bind, descriptor),
            let port = SocketAddress.own(of: descriptor)?.port
        else {
            close(descriptor)
            throw Overdue(description: "no port is free")
        }
        // Not before, as it would get a port that another value has reserved.
        var isOn: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<CInt>.size))
        (self.descriptor, self.port) = (descriptor, port)
    }

    deinit { close(descriptor) }
}
