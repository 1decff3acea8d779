import CLinux
import Glibc
import Platform

/// The system calls of the server and the fixtures, with their errors. Every descriptor is non-blocking and
/// close-on-exec.
enum Socket {
    /// Makes a TCP socket that is bound to the loopback address. It listens if a backlog is given.
    static func bindLoopback(port: Int, backlog: Int32?, reusesAddress: Bool = true) throws -> Int32 {
        try make(family: AF_INET) { descriptor in
            if reusesAddress { set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) }
            guard loopback(port)?.call(bind, descriptor) ?? false else {
                throw MockServerError.systemCall("bind to 127.0.0.1:\(port)")
            }
            if let backlog, Glibc.listen(descriptor, backlog) != 0 { throw MockServerError.systemCall("listen") }
        }
    }

    static func bindUnixSocket(atPath path: String, backlog: Int32) throws -> Int32 {
        guard let address = SocketAddress(unixPath: path) else {
            let limit = SocketAddress.unixPathLimit
            throw MockServerError(
                kind: .invalidPath,
                description: "\"\(path)\" is not a Unix domain socket path of 1 to \(limit) bytes; use a shorter folder"
            )
        }
        return try make(family: AF_UNIX) { descriptor in
            guard address.call(bind, descriptor), Glibc.listen(descriptor, backlog) == 0 else {
                throw MockServerError.systemCall("bind to the Unix domain socket \(path)")
            }
        }
    }

    /// Starts to connect to a loopback port.
    static func connectLoopback(port: Int) throws -> Int32 {
        try make(family: AF_INET) { descriptor in
            guard loopback(port)?.call(connect, descriptor) ?? false || errno == EINPROGRESS else {
                throw MockServerError.systemCall("connect to 127.0.0.1:\(port)")
            }
        }
    }

    /// The port a socket is bound to.
    static func port(of descriptor: Int32) throws -> Int {
        guard let address = SocketAddress.own(of: descriptor) else { throw MockServerError.systemCall("getsockname") }
        return address.port
    }

    static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Closes with a reset instead of a FIN.
    static func reset(_ descriptor: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close(descriptor)
    }

    /// Makes a socket. Closes it if its preparation throws.
    private static func make(family: Int32, _ prepare: (Int32) throws -> Void) throws -> Int32 {
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(family, Int32(type), 0)
        guard descriptor >= 0 else { throw MockServerError.systemCall("socket") }
        do {
            try prepare(descriptor)
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    private static func loopback(_ port: Int) -> SocketAddress? {
        guard let port = UInt16(exactly: port) else {
            errno = EDOM
            return nil
        }
        return SocketAddress(host: [127, 0, 0, 1], port: port)
    }
}
