import Glibc

/// The system calls of the server and the fixtures, with their errors. Every descriptor is
/// non-blocking and closed in child processes.
enum Socket {
    /// Makes a listening (or, without a backlog, only bound) TCP socket on the loopback address.
    static func bindLoopback(port: Int, backlog: Int32?, reusesAddress: Bool = true) throws -> Int32 {
        let descriptor = try make(family: AF_INET)
        do {
            if reusesAddress { set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) }
            var address = loopbackAddress(port: port)
            let size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let bound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
            }
            guard bound == 0 else { throw MockServerError.systemCall("bind to 127.0.0.1:\(port)") }
            if let backlog, Glibc.listen(descriptor, backlog) != 0 { throw MockServerError.systemCall("listen") }
            return descriptor
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// Makes a listening unix socket.
    static func bindUnixSocket(atPath path: String, backlog: Int32) throws -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let room = MemoryLayout.size(ofValue: address.sun_path)
        guard !bytes.isEmpty, bytes.count < room else { throw MockServerError.unixSocketPath(path, limit: room - 1) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let descriptor = try make(family: AF_UNIX)
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        guard bound == 0, Glibc.listen(descriptor, backlog) == 0 else {
            let error = MockServerError.systemCall("bind to the unix socket \(path)")
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// Starts to connect to a loopback port.
    static func connectLoopback(port: Int) throws -> Int32 {
        let descriptor = try make(family: AF_INET)
        var address = loopbackAddress(port: port)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 || errno == EINPROGRESS else {
            let error = MockServerError.systemCall("connect to 127.0.0.1:\(port)")
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// Makes two sockets that are connected with each other.
    static func pair() throws -> (Int32, Int32) {
        var descriptors: [Int32] = [-1, -1]
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        guard socketpair(AF_UNIX, Int32(type), 0, &descriptors) == 0 else {
            throw MockServerError.systemCall("socketpair")
        }
        return (descriptors[0], descriptors[1])
    }

    /// The port a socket is bound to.
    static func port(of descriptor: Int32) throws -> Int {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        guard result == 0 else { throw MockServerError.systemCall("getsockname") }
        return Int(UInt16(bigEndian: address.sin_port))
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

    /// How many bytes came that nobody read (`FIONREAD`).
    static func unreadByteCount(_ descriptor: Int32) -> Int { query(descriptor, UInt(0x541B)) }

    /// How many bytes the other side has not acknowledged (`SIOCOUTQ`).
    static func unsentByteCount(_ descriptor: Int32) -> Int { query(descriptor, UInt(0x5411)) }

    private static func query(_ descriptor: Int32, _ request: UInt) -> Int {
        var count: Int32 = 0
        return ioctl(descriptor, request, &count) == 0 ? Int(count) : 0
    }

    private static func make(family: Int32) throws -> Int32 {
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(family, Int32(type), 0)
        guard descriptor >= 0 else { throw MockServerError.systemCall("socket") }
        return descriptor
    }

    private static func loopbackAddress(port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        return address
    }
}
