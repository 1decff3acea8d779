import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// An HTTP/1.1 server inside the test: real sockets, replies as the test wants
/// them, every fault a network can have, and a record of what was asked.
///
/// ```swift
/// let server = try MockServer()                            // 127.0.0.1, a free port
/// server.enqueue(.text("hello"), .status(503))             // taken in order, before any route
/// server.route("GET", "/users/{id}") { request in
///     .json(#"{"id": \#(request.pathParameters["id"] ?? "0")}"#)
/// }
/// let response = try await client.get(server.url("/users/7"))
/// try await server.waitForRequests(1)
/// #expect(server.requests[0].headers["Accept"] == "*/*")
/// ```
///
/// One thread serves all connections. The server stops when the last
/// reference to it goes, or earlier with ``stop()``: then every socket is closed,
/// stalled replies too, and the thread has ended. Nothing is left behind.
///
/// Handlers run on that thread, one at a time, and should be quick: a slow one holds up
/// every connection. They may use the server (capture it weakly, or
/// it lives until ``stop()``), and may even drop it.
public final class MockServer: Sendable {
    /// Makes the reply to a request. What it throws is answered with 500 and a text that says it.
    public typealias Handler = @Sendable (RecordedRequest) throws -> MockReply

    /// What to do about `Expect: 100-continue` (RFC 9110 §10.1.1).
    public enum ExpectPolicy: Hashable, Sendable {
        /// Send `100 Continue` before the body is read.
        case `continue`
        /// Answer `417 Expectation Failed` and close; the queue and the routes are not asked.
        case refuse
        /// Send nothing and wait for the body, as servers do that do not know it.
        case ignore
    }

    /// The port, 0 with a unix socket.
    public let port: Int
    /// The path of the unix socket; `nil` on TCP.
    public let unixSocketPath: String?

    let shared: SharedState
    private let thread: ServerThread

    /// Starts a server on 127.0.0.1.
    ///
    /// - Parameter port: The port; 0, the default, takes one that is free. A given one
    ///   lets a test start a server again where another was stopped.
    /// - Throws: ``MockServerError`` when the port is taken or the system has no descriptors left.
    public convenience init(port: Int = 0) throws {
        let listener = try Socket.bindLoopback(port: port, backlog: 4_096)
        try self.init(listener: listener, unixSocketPath: nil)
    }

    /// Starts a server on a unix socket, which is made, and removed when the server stops.
    ///
    /// - Throws: ``MockServerError`` when there is something at the path, or the path is longer than the system takes
    ///   (107 bytes).
    public convenience init(unixSocketPath: String) throws {
        let listener = try Socket.bindUnixSocket(atPath: unixSocketPath, backlog: 4_096)
        try self.init(listener: listener, unixSocketPath: unixSocketPath)
    }

    private init(listener: Int32, unixSocketPath: String?) throws {
        do {
            guard let wakeUp = WakeUp() else { throw MockServerError.systemCall("eventfd") }
            guard let queue = EventQueue() else { throw MockServerError.systemCall("epoll_create1") }
            port = unixSocketPath == nil ? try Socket.port(of: listener) : 0
            self.unixSocketPath = unixSocketPath
            shared = SharedState(wakeUp)
            let loop = ServerLoop(
                shared: shared, queue: queue, listener: listener, wakeUp: wakeUp, unixSocketPath: unixSocketPath)
            thread = try ServerThread(running: loop)
        } catch {
            close(listener)
            if let unixSocketPath { unlink(unixSocketPath) }
            throw error
        }
    }

    /// Stops, but waits no longer than 2 s for the end: a handler that waits for whoever drops
    /// the server must not make that a deadlock.
    deinit {
        requestStop()
        thread.joinOrDetach(seconds: 2)
    }

    /// Stops the server: every connection is closed, stalled ones too, and the thread has ended when
    /// this returns. Does nothing the second time. The recorded requests can still be read.
    ///
    /// Waits for a handler that is running. Called from a handler, it returns at once
    /// and the server stops after that handler, without its reply.
    public func stop() {
        requestStop()
        if !thread.isCurrent { thread.join() }
    }

    private func requestStop() {
        shared.update { $0.stopIsRequested = true }
        shared.wake()
    }
}

// MARK: - Addresses

extension MockServer {
    /// `http://127.0.0.1:34567`, without a slash at the end. With a unix socket `http://localhost`.
    public var baseURL: String { unixSocketPath == nil ? "http://127.0.0.1:\(port)" : "http://localhost" }

    /// The URL of a path: `url("/users/1")` and `url("users/1")` are `http://127.0.0.1:34567/users/1`.
    public func url(_ path: String = "/") -> String {
        path.utf8.first == UInt8(ascii: "/") ? baseURL + path : baseURL + "/" + path
    }
}

// MARK: - Replies

extension MockServer {
    /// Adds replies that are given to the next requests, whatever those ask for, in
    /// order and before any route.
    public func enqueue(_ replies: MockReply...) { enqueue(replies) }

    /// The same as ``enqueue(_:)-(MockReply...)`` for a list.
    public func enqueue(_ replies: [MockReply]) {
        shared.update { contents in
            guard !contents.stopIsRequested else { return }
            contents.queue.append(contentsOf: replies)
        }
    }

    /// How many queued replies nobody has taken yet.
    public var queuedReplies: Int { shared.read { $0.queuedReplies } }

    /// Answers requests of a method and a path when nothing is queued.
    ///
    /// ```swift
    /// server.route("GET", "/users/{id}") { request in .text(request.pathParameters["id"] ?? "") }
    /// server.route("*", "/files/*") { request in .text(request.pathParameters["*"] ?? "") }
    /// ```
    ///
    /// The route that was added last wins, so a test can replace one of a shared setup.
    ///
    /// - Parameters:
    ///   - method: Compared byte for byte; `*` is any.
    ///   - path: Segments are literal, `{name}` for any one, or at the end `*` for all that is left.
    ///     The query plays no part.
    ///   - handler: Runs on the server's thread; see ``MockServer``.
    public func route(_ method: String, _ path: String, handler: @escaping Handler) {
        let pattern = RoutePattern(method: method, path: path)
        shared.update { contents in
            guard !contents.stopIsRequested else { return }
            contents.routes.append((pattern, handler))
        }
    }

    /// Answers what neither the queue nor a route does. Default: 404 and a text that names method and path.
    public func fallback(_ handler: @escaping Handler) {
        shared.update { contents in
            guard !contents.stopIsRequested else { return }
            contents.fallback = handler
        }
    }
}

// MARK: - Knobs

extension MockServer {
    /// How many bytes of each request body are kept. Default 16 MiB. The rest is read and counted
    /// (``RecordedRequest/bodyByteCount``). Applies to the next requests.
    public var bodyLimit: Int {
        get { shared.read { $0.settings.bodyLimit } }
        set { shared.update { $0.settings.bodyLimit = newValue } }
    }

    /// How fast bodies are read, in bytes per second and connection. Default `nil`: as they come. 0 reads
    /// nothing until this is changed, except what came together with the header. Headers are not slowed.
    ///
    /// Set it before the client connects: the system's receive buffer of a new connection is then made
    /// small too, so that a fast upload really has to wait.
    public var bodyReadRate: Int? {
        get { shared.read { $0.settings.bodyReadRate } }
        set {
            shared.update { $0.settings.bodyReadRate = newValue }
            shared.wake()
        }
    }

    /// What to do about `Expect: 100-continue`. Default ``ExpectPolicy/continue``.
    public var expectPolicy: ExpectPolicy {
        get { shared.read { $0.settings.expectPolicy } }
        set { shared.update { $0.settings.expectPolicy = newValue } }
    }

    /// Whether requests are kept in ``requests``. Default true; switch it off for millions of
    /// them. ``requestCount`` counts all.
    public var recordsRequests: Bool {
        get { shared.read { $0.settings.recordsRequests } }
        set { shared.update { $0.settings.recordsRequests = newValue } }
    }
}
