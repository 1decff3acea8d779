import Dispatch
import Glibc
import Platform
import Synchronization

/// Servers on addresses of this machine that have one name and one port. Each responds with its address. Where no server is,
/// connections are refused.
package final class AddressServers: Sendable {
    /// What a server does with the requests of a connection.
    package enum Behavior: Sendable {
        /// It responds to each.
        case responds
        /// It responds to one, and closes the connection.
        case closes
        /// It is silent, as a process that was stopped.
        case stalls
        /// It responds to one after ``AddressServers/release()``, and closes the connection.
        case waits
    }

    /// A port of an address that nobody else can take: it is bound, but nothing listens on it. A listener of the same address that
    /// allows to share it, as ``RawServer`` does for a given port, may come and go.
    private final class Reservation: Sendable {
        let port: Int
        private let descriptor: CInt

        /// - Parameter port: The port; 0 for any free one.
        init?(_ address: String, port: Int) {
            let host = address.split(separator: ".").compactMap { UInt8($0) }
            guard let name = SocketAddress(host: host, port: UInt16(port)) else { return nil }
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0, name.call(bind, descriptor), let port = SocketAddress.own(of: descriptor)?.port
            else {
                if descriptor >= 0 { close(descriptor) }
                return nil
            }
            // Not before, as the port would not be free then.
            var isOn: CInt = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<CInt>.size))
            (self.descriptor, self.port) = (descriptor, port)
        }

        deinit { close(descriptor) }
    }

    package let port: Int
    private let reservations: [Reservation]
    private let servers: Mutex<[String: RawServer]>
    /// The requests, by address.
    private let counts: Box<[String: Int]>
    private let gate = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - refusing: Other addresses, which refuse connections until a server is started there.
    ///   - port: The port. Default 0: one that is free on all addresses.
    package init(_ behaviors: [String: Behavior], refusing: [String] = [], port given: Int = 0) throws {
        let (counts, gate) = (Box<[String: Int]>([:]), gate)
        let addresses = behaviors.keys + refusing
        var reserved: [Reservation] = []
        for _ in 0..<50 where reserved.count < addresses.count {
            reserved = []
            for address in addresses {
                guard let next = Reservation(address, port: reserved.first?.port ?? given) else { break }
                reserved.append(next)
            }
        }
        guard let port = reserved.first?.port, reserved.count == addresses.count else {
            throw Overdue(description: "no port is free on all addresses")
        }
        var started: [String: RawServer] = [:]
        for (address, behavior) in behaviors {
            started[address] = try Self.server(address, port, behavior, counts, gate)
        }
        (self.port, self.counts, reservations) = (port, counts, reserved)
        servers = Mutex(started)
    }

    /// Starts a server on an address that refuses connections.
    package func start(_ address: String, _ behavior: Behavior) throws {
        let server = try Self.server(address, port, behavior, counts, gate)
        servers.withLock { $0[address] = server }
    }

    /// Refuses new connections to an address.
    package func stop(_ address: String) { servers.withLock { $0[address] = nil } }

    package func release() { gate.signal() }

    package func requests(_ address: String) -> Int { counts.value[address] ?? 0 }

    private static func server(
        _ address: String, _ port: Int, _ behavior: Behavior, _ counts: Box<[String: Int]>, _ gate: DispatchSemaphore
    ) throws -> RawServer {
        try RawServer(address: address, port: port) { connection in
            var head: [UInt8] = []
            while case let bytes = connection.read(), !bytes.isEmpty {
                head += bytes
                guard head.suffix(4).elementsEqual("\r\n\r\n".utf8) else { continue }
                head = []
                counts.change { $0[address, default: 0] += 1 }
                if case .stalls = behavior { continue }
                if case .waits = behavior { gate.wait() }
                var keeps = false
                if case .responds = behavior { keeps = true }
                let fields = "Content-Length: \(address.utf8.count)\r\n" + (keeps ? "" : "Connection: close\r\n")
                connection.write(Array("HTTP/1.1 200 OK\r\n\(fields)\r\n\(address)".utf8))
                if !keeps { break }
            }
        }
    }
}
