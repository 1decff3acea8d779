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

/// A loopback port on which connecting hangs while this value lives: it listens, nothing accepts, and its backlog is
/// full, so that the system drops further connection attempts.
///
/// ```swift
/// let full = try FullBacklogListener()
/// request.url = full.url("/")             // ends in a connect timeout
/// ```
public final class FullBacklogListener: Sendable {
    /// The port on 127.0.0.1.
    public let port: Int
    private let descriptors: [Int32]

    /// Listens on a free port and fills the backlog until a connection hangs, which takes about 0.2 s.
    ///
    /// - Throws: ``MockServerError`` when the system has no port or descriptor left, or the backlog cannot be filled.
    public init() throws {
        var descriptors = [try Socket.bindLoopback(port: 0, backlog: 0)]
        do {
            port = try Socket.port(of: descriptors[0])
            while true {
                guard descriptors.count <= 64 else {
                    throw MockServerError(
                        kind: .system(errno: ENOTSUP),
                        description: "64 connections did not fill a backlog of 0; this system cannot host the fixture")
                }
                let client = try Socket.connectLoopback(port: port)
                descriptors.append(client)
                if !Self.isConnected(client) { break }
            }
        } catch {
            for descriptor in descriptors { close(descriptor) }
            throw error
        }
        self.descriptors = descriptors
    }

    deinit {
        // A reset leaves no connection in TIME_WAIT.
        for descriptor in descriptors.dropFirst() { Socket.reset(descriptor) }
        close(descriptors[0])
    }

    /// The URL of a path on this port.
    public func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)" + path }

    /// Whether the connection is open. On the loopback device it opens at once, or never.
    private static func isConnected(_ descriptor: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&entry, 1, 150) > 0
    }
}
