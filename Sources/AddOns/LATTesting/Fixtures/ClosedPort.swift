import Glibc

/// A loopback port on which every connection is refused while this value lives: it is bound, so that nobody else can
/// use it, but nothing listens on it.
///
/// ```swift
/// let closed = try ClosedPort()
/// await #expect(throws: NetworkError.self) { try await central.startRequest("GET", closed.url("/")) }
/// ```
public final class ClosedPort: Sendable {
    /// The port on 127.0.0.1.
    public let port: Int
    private let descriptor: Int32

    /// Takes a free port.
    ///
    /// - Throws: ``MockServerError`` when no port is free.
    public init() throws {
        // Without SO_REUSEADDR, which would let another socket bind the same address.
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
