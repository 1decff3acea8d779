internal import CLinux
internal import FoundationEssentials
internal import Glibc
internal import LATNetworking
internal import Platform
internal import Synchronization

/// A minimal HTTP/1.1 server on 127.0.0.1, or on an address that the app chooses: one request for each connection, each on its
/// own thread, with limits for all that a client sends.
///
/// Connections without a whole request never keep a new one out (``ConnectionRoom``).
///
/// On an address of loopback, a request must name this server in `Host` and come from no page of another origin (`Origin`), so
/// that a page in a browser cannot reach it under another host name (DNS rebinding). On another address its names are not
/// known, so `Host` may have any; a page of a browser that names an `Origin` is refused there, too.
final class LoopbackServer: Sendable {
    struct Request: Sendable {
        var method: String
        /// The path with escapes, without the query.
        var path: String
        /// The query without the question mark; empty for none.
        var query: String
        var headers: HTTPHeaders
        var body: Data
    }

    struct Response: Sendable {
        enum Body: Sendable {
            case data(Data)
            /// Sent as it arrives, until the stream ends or the client disconnects.
            case stream(AsyncStream<Data>)
        }

        var status = 200
        var headers: HTTPHeaders
        var body: Body

        init(status: Int = 200, _ contentType: String, _ data: Data) {
            self.status = status
            headers = ["Content-Type": contentType]
            body = .data(data)
        }

        init(status: Int = 200, _ text: String) {
            self.init(status: status, "text/plain; charset=utf-8", Data((text + "\n").utf8))
        }

        init(_ contentType: String, _ stream: AsyncStream<Data>) {
            headers = ["Content-Type": contentType]
            body = .stream(stream)
        }
    }

    typealias Handler = @Sendable (Request) async -> Response

    private struct State {
        var isStopped = false
        var room = ConnectionRoom(limit: maxConnections)
    }

    static let maxConnections = 64
    private let wakeUp: WakeUp
    private let core: Core
    /// The address that it listens on.
    let address: IPAddress
    let port: Int

    /// The state that the threads share. They hold it instead of the server, so that the server can be released.
    private final class Core: Sendable {
        let state = Mutex(State())
    }

    /// The address as the host of a URL.
    var host: String { address.isIPv4 ? "\(address)" : "[\(address)]" }

    /// Starts to listen.
    ///
    /// - Parameters:
    ///   - place: an address of this machine. Default 127.0.0.1.
    ///   - port: 0 for a free one.
    /// - Throws: ``NetworkError`` when the port is in use, or the address is not one of this machine.
    init(on place: String = "127.0.0.1", port: Int, handler: @escaping Handler) throws {
        guard let address = IPAddress(place) else {
            throw NetworkError(
                .invalidRequest,
                message:
                    "\"\(URLText.visible(place))\" is not an IP address; give one of this machine, 127.0.0.1 for this "
                    + "machine alone, or 0.0.0.0 or :: for all of its addresses")
        }
        guard (0...65_535).contains(port) else {
            throw NetworkError(.invalidRequest, message: "\(port) is not a port; give 1 to 65535, or 0 for a free one")
        }
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let listener = socket(address.isIPv4 ? AF_INET : AF_INET6, Int32(type), 0)
        guard listener >= 0 else { throw Self.failure("make a socket") }
        guard let wakeUp = WakeUp() else {
            defer { close(listener) }
            throw Self.failure("make a socket")
        }
        var yes: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        guard SocketAddress(host: address.bytes, port: UInt16(port))?.call(bind, listener) == true,
            listen(listener, 64) == 0, let own = SocketAddress.own(of: listener)
        else {
            let code = errno
            close(listener)
            guard code == EADDRINUSE else { throw Self.failure("listen on \(address), port \(port)", code) }
            throw NetworkError(
                .invalidRequest,
                message:
                    "port \(port) of \(address) is in use by another program; give another port, or 0 for a free one")
        }
        self.wakeUp = wakeUp
        self.address = address
        self.port = own.port
        core = Core()
        let (core, boundPort) = (core, own.port)
        let ownHost = address.rule == .loopback ? host : nil
        let isStarted = BackgroundThread.start("lat-serve") {
            Self.accept(listener, wakeUp, core, boundPort, ownHost, handler)
            // The shutdown also reaches the copies that child processes hold until they start their program.
            shutdown(listener, Int32(SHUT_RDWR))
            close(listener)
        }
        guard isStarted else {
            defer { close(listener) }
            throw Self.failure("start a thread")
        }
    }

    deinit { stop() }

    /// Closes the port and all connections. A second call does nothing.
    func stop() {
        core.state.withLock { state in
            state.isStopped = true
            // The thread of each connection closes it.
            for connection in state.room.all { shutdown(connection, Int32(SHUT_RDWR)) }
        }
        wakeUp.signal()
    }

    private static func failure(_ what: String, _ code: Int32 = errno) -> NetworkError {
        NetworkError(.other, message: "the system refused to \(what): \(SystemError(code: code).text)")
    }

    // MARK: Threads

    private static func accept(
        _ listener: Int32, _ wakeUp: WakeUp, _ core: Core, _ port: Int, _ ownHost: String?,
        _ handler: @escaping Handler
    ) {
        while true {
            var waits = [
                pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            poll(&waits, 2, -1)
            if core.state.withLock(\.isStopped) { return }
            let socket = lat_accept(listener)
            guard socket >= 0 else {
                // No descriptor is free: try again a little later.
                if errno == EMFILE || errno == ENFILE { usleep(50_000) }
                continue
            }
            let isTaken = core.state.withLock { state in
                guard !state.isStopped, let place = state.room.take(socket) else { return false }
                // Its thread closes it. Until it is removed, the number belongs to no other connection.
                if let idle = place.closed { shutdown(idle, Int32(SHUT_RDWR)) }
                return true
            }
            @Sendable func end() {
                core.state.withLock { $0.room.remove(socket) }
                close(socket)
            }
            let isServed =
                isTaken
                && BackgroundThread.start("lat-serve") {
                    ServedRequest(socket: socket, port: port, ownHost: ownHost).run(handler) {
                        core.state.withLock { $0.room.hasRequest(socket) }
                    }
                    end()
                }
            if !isTaken { ServedRequest.refuseForRoom(socket) }
            if !isServed { end() }
        }
    }
}

/// Which connections a server has, and which of them makes room for a new one: the one that was accepted first among those
/// that have not sent a whole request. A pure value.
struct ConnectionRoom {
    /// A place for a new connection.
    struct Place: Equatable {
        /// The connection that has to be closed for it; `nil` for none.
        var closed: Int32?
    }

    let limit: Int
    /// The connections that wait for a request, the oldest first.
    private var waiting: [Int32] = []
    /// Those whose request is being answered.
    private var answered: Set<Int32> = []
    /// Those that have to end. Their threads do so at once.
    private var ending: Set<Int32> = []

    init(limit: Int) { self.limit = limit }

    var all: [Int32] { waiting + answered + ending }

    /// Takes a new connection; `nil` when all others are being answered, or when too many are ending at once.
    mutating func take(_ connection: Int32) -> Place? {
        var place = Place()
        if waiting.count + answered.count >= limit {
            guard ending.count < limit, !waiting.isEmpty else { return nil }
            let oldest = waiting.removeFirst()
            ending.insert(oldest)
            place.closed = oldest
        }
        waiting.append(connection)
        return place
    }

    /// Notes that a connection has sent its request.
    mutating func hasRequest(_ connection: Int32) {
        guard let index = waiting.firstIndex(of: connection) else { return }
        answered.insert(waiting.remove(at: index))
    }

    /// Removes a connection that is about to be closed.
    mutating func remove(_ connection: Int32) {
        waiting.removeAll { $0 == connection }
        answered.remove(connection)
        ending.remove(connection)
    }
}
