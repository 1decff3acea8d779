import CLibcurl
import Dispatch
import Glibc

/// A server that handles the bytes of each connection itself, for responses that no HTTP server sends.
package final class RawServer: Sendable {
    package let port: Int
    private let listener: CInt

    /// - Parameter serve: Runs on a thread of its own for each connection, which is closed after it.
    package init(_ serve: @escaping @Sendable (RawConnection) -> Void) throws {
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isListening else { throw Overdue(description: "no port to listen on") }
        self.listener = listener
        port = Int(UInt16(bigEndian: address.sin_port))
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

    deinit { Glibc.shutdown(listener, CInt(SHUT_RDWR)) }

    package func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)\(path)" }
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
