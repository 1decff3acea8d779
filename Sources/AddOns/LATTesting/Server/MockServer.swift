import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// An HTTP/1.1 server inside the test: real sockets, replies that the test defines, network faults, and a record of the
/// requests.
///
/// ```swift
/// let server = try MockServer()                            // 127.0.0.1, a free port
/// server.enqueue(.text("hello"), .status(503))             // sent in order, before any route is used
/// server.route("GET", "/users/{id}") { request in
///     .json(#"{"id": \#(request.pathParameters["id"] ?? "0")}"#)
/// }
/// let response = try await central.startRequest("GET", server.url("/users/7"))
/// try await server.waitForRequests(1)
/// #expect(server.requests[0].headers["Accept"] == "*/*")
/// ```
///
/// One thread serves all connections. The server stops when its last reference is released, or earlier with ``stop()``.
/// Then all connections are closed, those of stalled replies too, and the thread has ended.
///
/// Handlers run on that thread, one at a time. They should be quick, since a slow one delays every connection. They may
/// use the server, and even release it. Capture it weakly, or it lives until ``stop()``.
public final class MockServer: Sendable {
    /// Makes the reply to a request. When it throws, the reply is status 500 and a text with the error.
    public typealias Handler = @Sendable (RecordedRequest) throws -> MockReply

    /// The answer to `Expect: 100-continue` (RFC 9110 §10.1.1).
    public enum ExpectPolicy: Hashable, Sendable {
        /// Send `100 Continue` before the body is read.
        case `continue`
        /// Answer `417 Expectation Failed` and close. Queue and routes are not used.
        case refuse
        /// Send nothing and wait for the body, like a server that does not know the field.
        case ignore
    }

    /// The port; 0 for a Unix domain socket.
    public let port: Int
    /// The path of the Unix domain socket; `nil` on TCP.
    public let unixSocketPath: String?

    let shared: SharedState
    private let thread: ServerThread

    /// Starts a server on 127.0.0.1.
    ///
    /// - Parameters:
    ///   - port: The port. Default 0: a free one. A given port lets a test start a server where another was stopped.
    ///   - fallback: As ``fallback(_:)``, from the first request on. Default `nil`: 404.
    /// - Throws: ``MockServerError`` when the port is in use or the process has no descriptors left.
    public convenience init(port: Int = 0, fallback: Handler? = nil) throws {
        let listener = try Socket.bindLoopback(port: port, backlog: 4_096)
        try self.init(listener: listener, unixSocketPath: nil, keepsPort: port == 0, fallback: fallback)
    }

    /// Starts a server on a Unix domain socket. The socket is created now and removed when the server stops.
    ///
    /// - Throws: ``MockServerError`` when the path exists, or is longer than the system allows (107 bytes).
    public convenience init(unixSocketPath: String) throws {
        let listener = try Socket.bindUnixSocket(atPath: unixSocketPath, backlog: 4_096)
        try self.init(listener: listener, unixSocketPath: unixSocketPath)
    }

    private init(
        listener: Int32, unixSocketPath: String?, keepsPort: Bool = false, fallback: Handler? = nil
    ) throws {
        do {
            guard let wakeUp = WakeUp() else { throw MockServerError.systemCall("eventfd") }
            guard let queue = EventQueue() else { throw MockServerError.systemCall("epoll_create1") }
            port = unixSocketPath == nil ? try Socket.port(of: listener) : 0
            self.unixSocketPath = unixSocketPath
            shared = SharedState(wakeUp)
            if let fallback { shared.update { $0.fallback = fallback } }
            let loop = ServerLoop(
                shared: shared, queue: queue, listener: listener, wakeUp: wakeUp, unixSocketPath: unixSocketPath,
                keptPort: keepsPort ? port : nil)
            thread = try ServerThread(running: loop)
        } catch {
            close(listener)
            if let unixSocketPath { unlink(unixSocketPath) }
            throw error
        }
    }

    /// Stops the server and waits at most 2 s for its thread. Without this limit, a handler that waits for the code
    /// that releases the server would cause a deadlock.
    deinit {
        requestStop()
        thread.join(orDetachAfter: 2)
    }

    /// Stops the server: closes every connection, stalled ones too, and waits for the thread to end. A second call does
    /// nothing. The recorded requests can still be read. A port that the system chose is kept: connections to
    /// it are refused, and only ``init(port:fallback:)`` can use it. The process keeps the ports of the last 128 servers that
    /// were stopped, also when they are released.
    ///
    /// Waits for a running handler. When a handler itself calls `stop()`, the call returns at once. The server then
    /// stops after that handler. Of its reply it sends only what the system takes at once.
    public func stop() {
        shared.update { $0.portIsKept = true }
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
    /// `http://127.0.0.1:34567`, without a slash at the end. With a Unix domain socket `http://localhost`.
    public var baseURL: String { unixSocketPath == nil ? "http://127.0.0.1:\(port)" : "http://localhost" }

    /// The URL of a path: `url("/users/1")` and `url("users/1")` are `http://127.0.0.1:34567/users/1`.
    public func url(_ path: String = "/") -> String {
        path.utf8.first == UInt8(ascii: "/") ? baseURL + path : baseURL + "/" + path
    }
}

// MARK: - Replies

extension MockServer {
    /// Adds replies to the queue. The next requests get them in order, whatever they ask for, before any route is used.
    public func enqueue(_ replies: MockReply...) { enqueue(replies) }

    /// Adds a list of replies to the queue. See ``enqueue(_:)-(MockReply...)``.
    public func enqueue(_ replies: [MockReply]) { change { $0.queue.append(contentsOf: replies) } }

    /// How many queued replies are left.
    public var queuedReplies: Int { shared.read { $0.queuedReplies } }

    /// Adds a route for requests of a method and a path. It is used when no reply is queued.
    ///
    /// ```swift
    /// server.route("GET", "/users/{id}") { request in .text(request.pathParameters["id"] ?? "") }
    /// server.route("*", "/files/*") { request in .text(request.pathParameters["*"] ?? "") }
    /// ```
    ///
    /// The route that was added last wins, so a test can replace one of a shared setup.
    ///
    /// - Parameters:
    ///   - method: Compared byte for byte; `*` matches any.
    ///   - path: Its segments are literal, `{name}` for any one segment that is not empty, or at the end `*` for the
    ///     rest. The query does not count.
    ///   - handler: Runs on the server's thread; see ``MockServer``.
    public func route(_ method: String, _ path: String, handler: @escaping Handler) {
        let pattern = RoutePattern(method: method, path: path)
        change { $0.routes.append((pattern, handler)) }
    }

    /// Answers the requests without a queued reply or a route. Default: 404 and a text with method and path.
    public func fallback(_ handler: @escaping Handler) { change { $0.fallback = handler } }

    func addReceiver(_ receiver: any BodyReceiver) { change { $0.receivers.append(receiver) } }

    /// Changes what the server answers. A server that stops has released its handlers, and takes no more.
    private func change(_ change: (inout SharedState.Contents) -> Void) {
        shared.update { if !$0.stopIsRequested { change(&$0) } }
    }
}

// MARK: - Settings

extension MockServer {
    /// How many bytes of each request body are recorded. Default 16 MiB. The rest is read and counted
    /// (``RecordedRequest/bodyByteCount``). Applies to later requests.
    public var bodyLimit: Int {
        get { shared.read { $0.settings.bodyLimit } }
        set { shared.update { $0.settings.bodyLimit = newValue } }
    }

    /// How fast bodies are read, in bytes per second and connection. Default `nil`: no limit. With 0, no body is read
    /// until this changes, except bytes that arrived with the head. Heads are not slowed.
    ///
    /// Set it before the client connects: new connections then get a small receive buffer too, so that a fast upload
    /// has to wait.
    public var bodyReadRate: Int? {
        get { shared.read { $0.settings.bodyReadRate } }
        set {
            shared.update { $0.settings.bodyReadRate = newValue }
            shared.wake()
        }
    }

    /// The answer to `Expect: 100-continue`. Default ``ExpectPolicy/continue``.
    public var expectPolicy: ExpectPolicy {
        get { shared.read { $0.settings.expectPolicy } }
        set { shared.update { $0.settings.expectPolicy = newValue } }
    }

    /// Whether requests are kept in ``requests``. Default `true`. Turn it off for millions of requests;
    /// ``requestCount`` counts them all.
    public var recordsRequests: Bool {
        get { shared.read { $0.settings.recordsRequests } }
        set { shared.update { $0.settings.recordsRequests = newValue } }
    }
}

/// Why a ``MockServer`` or another fixture could not be made, or why a wait failed.
public struct MockServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure.
    public enum Kind: Hashable, Sendable {
        /// A system call failed.
        case system(errno: Int32)
        /// The path of a Unix domain socket is empty or too long, or a folder of fixtures cannot be used.
        case invalidPath
        /// The awaited event did not happen in time.
        case timedOut
        /// The server was stopped, so the awaited event cannot happen any more.
        case stopped
    }

    /// The kind of failure.
    public let kind: Kind
    /// What was attempted, what happened instead, and the next step.
    public let description: String

    /// Makes the error of a system call that has just set `errno`.
    static func systemCall(_ call: String) -> MockServerError {
        let code = errno
        let hint =
            switch code {
            case EADDRINUSE: "; choose another port or path, or port 0 for any free one"
            case EDOM: "; a port is a number from 0 to 65535"
            case EMFILE, ENFILE: ", such as servers that are done"
            default: ""
            }
        let reason = SystemError(code: code).text
        return MockServerError(kind: .system(errno: code), description: "\(call): \(reason)\(hint)")
    }

    static func stopped(waitingFor what: String) -> MockServerError {
        MockServerError(kind: .stopped, description: "the server was stopped while waiting for \(what)")
    }
}
