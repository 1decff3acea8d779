import Dispatch
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

    package let port: Int
    private let reservations: [ReservedPort]
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
        var reserved: [ReservedPort] = []
        for _ in 0..<50 where reserved.count < addresses.count {
            reserved = []
            for address in addresses {
                guard let next = try? ReservedPort(address, port: reserved.first?.port ?? given) else { break }
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
