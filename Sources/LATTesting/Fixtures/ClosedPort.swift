import Glibc

/// A loopback port on which every connection is refused for as long as this value lives: it is taken, so that
/// nobody else can listen there, and not listened on.
///
/// ```swift
/// let closed = try ClosedPort()
/// await #expect(throws: NetworkError.self) { try await client.get(closed.url("/")) }
/// ```
public final class ClosedPort: Sendable {
    /// The port on 127.0.0.1.
    public let port: Int
    private let descriptor: Int32

    /// Takes a free port.
    ///
    /// - Throws: ``MockServerError`` when the system has none.
    public init() throws {
        // Without SO_REUSEADDR, or another socket could share the address.
        let descriptor = try Socket.bindLoopback(port: 0, backlog: nil, reusesAddress: false)
        do {
            port = try Socket.port(of: descriptor)
        } catch {
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// The URL of a path on this port.
    public func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)" + path }
}
