import CLibcurl
import Dispatch
import FoundationEssentials
import Glibc
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test when this process may not make network namespaces.
    package static var needsNetworkNamespaces: Self {
        .enabled(
            if: NetworkNamespace.isPermitted,
            "needs the right to make network namespaces (root or CAP_SYS_ADMIN) and ip(8)")
    }
}

/// A network namespace without a route out, in which every address is local. Sockets and threads created on its thread
/// belong to it. It ends when they have ended.
///
/// If the guard against private addresses fails in it, the connection reaches only the test's own server.
package enum NetworkNamespace {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    /// Whether this process may create a namespace (root, or CAP_SYS_ADMIN) and has `ip` to configure it.
    package static let isPermitted: Bool =
        ChildProcess.path(of: "ip") != nil && (try? ChildProcess.run("unshare", ["--net", "true"], in: "/")) != nil

    /// Runs `body` on a new thread in a new namespace.
    package static func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) throws -> Result {
        try OwnThread.run {
            try enter()
            return try body()
        }
    }

    /// Returns this thread to the namespace of the process.
    package static func leave() {
        guard isEntered else { return }
        typealias Enter = @convention(c) (CInt, CInt) -> CInt
        let descriptor = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        // CLONE_NEWNET
        guard let symbol = dlsym(nil, "setns"), unsafeBitCast(symbol, to: Enter.self)(descriptor, 0x4000_0000) == 0
        else {
            preconditionFailure("a thread cannot leave a network namespace: \(String(cString: strerror(errno)))")
        }
    }

    /// Whether this thread is in another namespace than the process, which is that of its main thread.
    package static var isEntered: Bool {
        func name(_ process: String) -> String? {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/ns/net")
        }
        return name("thread-self") != name("self")
    }

    private static func enter() throws {
        let outside = try ChildProcess.run("readlink", ["/proc/self/ns/net"], in: "/")
        typealias Unshare = @convention(c) (CInt) -> CInt
        guard let symbol = dlsym(nil, "unshare") else { throw Failure(description: "no unshare(2)") }
        // CLONE_NEWNET
        guard unsafeBitCast(symbol, to: Unshare.self)(0x4000_0000) == 0 else {
            throw Failure(description: "a network namespace is not permitted: \(String(cString: strerror(errno)))")
        }
        // In the machine's own namespace, the commands below would cut off its network.
        let own = try ChildProcess.run("readlink", ["/proc/self/ns/net"], in: "/")
        guard own.hasPrefix("net:"), own != outside else {
            throw Failure(description: "the programs of this thread run outside of its network namespace")
        }
        // AnyIP: all addresses are local.
        for command in [
            "link set lo up", "route add local 0.0.0.0/0 dev lo", "-6 route add local ::/0 dev lo",
        ] {
            try ChildProcess.run("ip", command.split(separator: " ").map(String.init), in: "/")
        }
    }
}

/// A server on one address, or on all addresses, of its thread's network namespace. It answers each request with `reply`,
/// by default 200 and `ok`.
package final class AnyAddressServer: Sendable {
    package let port: Int
    private let listener: CInt
    private let count = Box(0)

    /// The number of accepted connections.
    package var acceptedConnections: Int { count.value }

    package init(address: in_addr_t? = nil, reply: String = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") throws {
        let family = address == nil ? AF_INET6 : AF_INET
        let listener = socket(family, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var isBound = false
        if let address {
            var name = sockaddr_in()
            name.sin_family = sa_family_t(AF_INET)
            name.sin_addr.s_addr = address.bigEndian
            isBound = Self.bind(listener, &name)
        } else {
            var off: CInt = 0
            setsockopt(listener, CInt(IPPROTO_IPV6), IPV6_V6ONLY, &off, socklen_t(MemoryLayout<CInt>.size))
            var name = sockaddr_in6()
            name.sin6_family = sa_family_t(AF_INET6)
            isBound = Self.bind(listener, &name)
        }
        var name = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let isListening = withUnsafeMutablePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &length) == 0 }
        }
        guard isBound, isListening, listen(listener, 64) == 0 else {
            throw NetworkNamespace.Failure(description: "no port to listen on")
        }
        // The port has the same offset in both kinds of socket address.
        port = Int(UInt16(bigEndian: name.sin6_port))
        let bytes = Array(reply.utf8)
        self.listener = listener
        let count = count
        DispatchQueue(label: "any-address-server").async {
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { break }
                count.change { $0 += 1 }
                DispatchQueue(label: "any-address-connection").async {
                    var buffer = [UInt8](repeating: 0, count: 65_536)
                    while read(connection, &buffer, buffer.count) > 0 {
                        _ = send(connection, bytes, bytes.count, CInt(MSG_NOSIGNAL))
                    }
                    close(connection)
                }
            }
            close(listener)
        }
    }

    deinit { Glibc.shutdown(listener, CInt(SHUT_RDWR)) }

    private static func bind<Name>(_ listener: CInt, _ name: inout Name) -> Bool {
        withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(listener, $0, socklen_t(MemoryLayout<Name>.size)) == 0
            }
        }
    }
}
