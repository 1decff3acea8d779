import CLibcurl
import Dispatch
import Glibc
import Platform

/// A server that handles the bytes of each connection itself, for responses that no HTTP server sends.
package final class RawServer: Sendable {
    package let port: Int
    private let address: String
    private let listener: CInt

    /// The first link-local IPv6 address of this machine, with its zone: `fe80::1%eth0`. `nil` when it has none.
    package static let linkLocalAddress: String? = {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        var entry = list
        while let current = entry?.pointee {
            entry = current.ifa_next
            guard let name = current.ifa_addr, CInt(name.pointee.sa_family) == AF_INET6 else { continue }
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            guard getnameinfo(name, length, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0 else { continue }
            let address = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if address.hasPrefix("fe80:"), address.contains("%") { return address }
        }
        return nil
    }()

    /// - Parameters:
    ///   - address: The address to listen on.
    ///   - port: The port. Default 0: any free one.
    ///   - serve: Runs on a thread of its own for each connection, which is closed after it.
    package init(address: String = "127.0.0.1", port: Int = 0, _ serve: @escaping @Sendable (RawConnection) -> Void)
        throws
    {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(address, "\(port)", &hints, &found) == 0, let name = found?.pointee else {
            throw Overdue(description: "\(address) is no address")
        }
        defer { freeaddrinfo(found) }
        let listener = socket(name.ai_family, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        // Not for any free port, which may be one that a test has reserved.
        if port != 0 { Self.reuseAddress(listener) }
        guard bind(listener, name.ai_addr, name.ai_addrlen) == 0, listen(listener, 64) == 0,
            let port = SocketAddress.own(of: listener)?.port
        else { throw Overdue(description: "no port to listen on") }
        Self.reuseAddress(listener)
        (self.address, self.listener, self.port) = (address, listener, port)
        DispatchQueue(label: "raw-server").async {
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { break }
                DispatchQueue(label: "raw-connection").async {
                    serve(RawConnection(descriptor: connection))
                    close(connection)
                }
            }
            close(listener)
        }
    }

    /// Lets a listener have the address that one before it had.
    private static func reuseAddress(_ listener: CInt) {
        var isOn: CInt = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<CInt>.size))
    }

    deinit { Glibc.shutdown(listener, CInt(SHUT_RDWR)) }

    package func url(_ path: String = "/") -> String {
        let host = address.contains(":") ? "[\(address.replacing("%", with: "%25"))]" : address
        return "http://\(host):\(port)\(path)"
    }
}

/// One connection of a ``RawServer``.
package struct RawConnection {
    package let descriptor: CInt

    package init(descriptor: CInt) { self.descriptor = descriptor }

    /// Reads the next bytes, at most 64 KiB; empty at the end.
    package func read() -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(descriptor, &buffer, buffer.count)
        return Array(buffer.prefix(max(0, count)))
    }

    package func write(_ bytes: [UInt8]) { _ = send(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL)) }

    /// Sets TCP_NODELAY, so that a write does not wait until earlier bytes are acknowledged.
    package func sendAtOnce() {
        var isOn: CInt = 1
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<CInt>.size))
    }

    /// Limits the receive buffer, whatever the system's default is.
    package func takeInLittle() {
        var size: CInt = 65_536
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<CInt>.size))
    }

    /// Reads until the client closes.
    package func drain() { while !read().isEmpty {} }
}
