import CLibcurl
import CLinux
import Glibc
import Platform

/// The sockets that epoll watches, and the events it watches for.
///
/// libcurl stops watching a connection at the end of a transfer and watches it
/// again for the next one. Both would be system calls. So a socket that libcurl
/// has released stays registered until an event occurs on it, usually because
/// the server closed it. Input that arrives on such a socket is recorded, since
/// that input belongs to no request (``Engine/isUnusable(_:_:)``).
struct SocketTable {
    private struct Entry {
        /// The events that libcurl waits for; empty when it has released the socket.
        var wanted: EventQueue.Events = []
        /// The events registered with epoll; empty when the socket is not registered.
        var registered: EventQueue.Events = []
        /// Whether our open callback made it and our close callback has not closed it yet.
        var isOpenedByEngine = false
        /// Whether libcurl keeps the connection for later requests; not so for byte connections and probes.
        var isPooled = false
        /// Whether the connection was established. If not, libcurl 7.88 may close it without calling back, so that its
        /// descriptor could be reused unnoticed.
        var isConnected = false
        /// Whether unsolicited input arrived while libcurl had released the socket.
        var hasInput = false
        /// Whether it was prewarmed and has carried no request; input on it consists of TLS session tickets.
        var isUnused = false
        /// The socket's inode number, which, unlike the descriptor, is not reused.
        var inode: ino_t = 0
        /// The local port, once it was asked for and known; 0 before.
        var port = 0
        /// The origin of the request that it was opened for; empty for a probe.
        var origin = ""
        var openedAt: MonotonicTime?
    }

    let events: EventQueue
    private var entries: [Entry] = []
    /// How many entries have ``Entry/hasInput`` set.
    private(set) var inputCount = 0

    init(_ events: EventQueue) { self.events = events }

    mutating func opened(_ descriptor: CInt, isPooled: Bool = true, origin: String = "") {
        reserve(descriptor)
        forgetInput(descriptor)
        entries[Int(descriptor)] = Entry(
            isOpenedByEngine: true, isPooled: isPooled, inode: Self.inode(of: descriptor), origin: origin,
            openedAt: .now)
    }

    /// - Returns: the origin of an established connection, and how long it was open.
    @discardableResult
    mutating func closed(_ descriptor: CInt) -> (origin: String, time: Duration)? {
        // The kernel removes a closed descriptor from epoll by itself.
        guard entries.indices.contains(Int(descriptor)) else { return nil }
        forgetInput(descriptor)
        let entry = entries[Int(descriptor)]
        entries[Int(descriptor)] = Entry()
        guard entry.isConnected, !entry.origin.isEmpty else { return nil }
        return entry.openedAt.map { (entry.origin, $0.duration(to: .now)) }
    }

    /// Sets the events that libcurl waits for, as reported to its socket callback.
    mutating func watch(_ descriptor: CInt, _ what: CInt) {
        reserve(descriptor)
        var entry = entries[Int(descriptor)]
        entry.wanted = EventQueue.Events(pollingFor: what)
        if !entry.wanted.isEmpty { entry.isUnused = false }
        if entry.wanted.contains(.readable) { entry.isConnected = true }
        if entry.wanted.isEmpty {
            // If a response has arrived, libcurl reads it without watching the socket, so isConnected may not be set.
            if entry.isOpenedByEngine, !entry.isConnected { entry.isConnected = Self.isConnected(descriptor) }
            if !entry.isOpenedByEngine || !entry.isConnected { unregister(descriptor, &entry) }
        } else if entry.wanted != entry.registered {
            register(descriptor, &entry, entry.wanted)
        }
        entries[Int(descriptor)] = entry
    }

    /// Whether libcurl waits for events on this socket. If not, a connection that the server closed is shut down, and
    /// unsolicited input is recorded.
    mutating func isWanted(_ descriptor: CInt, _ events: EventQueue.Events) -> Bool {
        guard entries.indices.contains(Int(descriptor)) else { return false }
        var entry = entries[Int(descriptor)]
        if !entry.wanted.isEmpty { return true }
        if entry.isOpenedByEngine, entry.isConnected {
            leaveIdle(descriptor, &entry, events)
        } else {
            unregister(descriptor, &entry)
        }
        entries[Int(descriptor)] = entry
        return false
    }

    /// Handles an event on a connection that no transfer uses.
    ///
    /// A connection that the server closed is shut down, so that libcurl drops it before it sends the next request.
    /// libcurl 8.22 checks for closed connections only once a second, and does not repeat a non-idempotent request that
    /// it sent on a closed one.
    private mutating func leaveIdle(_ descriptor: CInt, _ entry: inout Entry, _ events: EventQueue.Events) {
        // libcurl may have read the input since the event, while it handled another socket.
        let (isInput, isClosed) = Self.peek(at: descriptor)
        if isInput, !entry.hasInput {
            entry.hasInput = true
            inputCount += 1
        }
        if isClosed {
            shutdown(descriptor, CInt(SHUT_RDWR))
            unregister(descriptor, &entry)
        } else if isInput {
            register(descriptor, &entry, .peerClosed)
        } else if events.isSubset(of: .writable) {
            register(descriptor, &entry, [.readable, .peerClosed])
        }
    }

    private static func peek(at descriptor: CInt) -> (isInput: Bool, isClosed: Bool) {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT))
        if count < 0, errno == EAGAIN { return (false, false) }
        return (count > 0, count <= 0 || lat_is_closed_by_peer(descriptor) != 0)
    }

    /// Whether the server closed a pooled connection, or sent unsolicited input on it; always `false` for QUIC.
    mutating func hasUnsolicitedInput(_ descriptor: CInt) -> Bool {
        guard entries.indices.contains(Int(descriptor)) else { return false }
        forgetInput(descriptor)
        let (isInput, isClosed) = Self.peek(at: descriptor)
        return (isClosed || isInput && !entries[Int(descriptor)].isUnused) && Self.isStream(descriptor)
    }

    private static func isStream(_ descriptor: CInt) -> Bool {
        var kind: CInt = 0
        var length = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == CInt(SOCK_STREAM.rawValue)
    }

    /// Whether unsolicited input waits on an idle connection.
    ///
    /// - Parameter port: The local port; libcurl 7.88 does not report the socket before it sends a request. It is 0 for
    ///   every Unix domain socket, so input on one of them counts for all, until it is read or that socket closes.
    mutating func hasUnsolicitedInput(port: Int) -> Bool {
        for index in entries.indices where entries[index].hasInput && Self.port(of: CInt(index)) == port {
            if !Self.peek(at: CInt(index)).isInput {
                forgetInput(CInt(index))
            } else if entries[index].wanted.isEmpty, !entries[index].isUnused {
                return true
            }
        }
        return false
    }

    /// Records that a connection was prewarmed and has carried no request.
    mutating func noteUnused(_ descriptor: CInt) {
        guard entries.indices.contains(Int(descriptor)) else { return }
        entries[Int(descriptor)].isUnused = entries[Int(descriptor)].isOpenedByEngine
    }

    /// The number of bytes in the kernel's send buffers of the open sockets on a port.
    ///
    /// - Parameter port: As in ``hasUnsolicitedInput(port:)``. Connections to different servers may share a port; the sum
    ///   includes all of them, and for port 0 all Unix domain sockets.
    mutating func unsentBytes(port: Int) -> Int { open(port: port).reduce(0) { $0 + Int(lat_unsent_bytes($1)) } }

    /// Whether input waits on a connection that a ``ServiceMulti`` watches. It is not recorded, so the sockets are looked at.
    ///
    /// - Parameter port: As in ``hasUnsolicitedInput(port:)``.
    mutating func hasUnrecordedInput(port: Int) -> Bool { open(port: port).contains { Self.peek(at: $0).isInput } }

    /// The open sockets on a port. Many transfers may ask at once, so a socket is asked for its port only until it has one.
    private mutating func open(port: Int) -> [CInt] {
        var found: [CInt] = []
        for index in entries.indices where entries[index].isOpenedByEngine {
            if entries[index].port == 0 { entries[index].port = Self.port(of: CInt(index)) }
            if entries[index].port == port, isOpen(CInt(index)) { found.append(CInt(index)) }
        }
        return found
    }

    private mutating func forgetInput(_ descriptor: CInt) {
        guard entries[Int(descriptor)].hasInput else { return }
        entries[Int(descriptor)].hasInput = false
        inputCount -= 1
    }

    private static func isConnected(_ descriptor: CInt) -> Bool {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) == 0 }
        }
    }

    private static func port(of descriptor: CInt) -> Int { SocketAddress.own(of: descriptor)?.port ?? 0 }

    private var open: some Sequence<CInt> { (0..<CInt(entries.count)).lazy.filter(isOpen) }

    private func isOpen(_ descriptor: CInt) -> Bool {
        entries[Int(descriptor)].isOpenedByEngine && Self.inode(of: descriptor) == entries[Int(descriptor)].inode
    }

    var openCount: Int { open.reduce(0) { count, _ in count + 1 } }

    /// The sockets of idle connections: those of the pool that libcurl does not watch, except on a port that a transfer uses.
    /// The socket of a paused transfer is not watched either.
    func idle(exceptPorts busy: @autoclosure () -> Set<Int>) -> [CInt] {
        let unwatched = entries.indices.filter {
            entries[$0].isOpenedByEngine && entries[$0].isPooled && entries[$0].wanted.isEmpty
        }
        guard !unwatched.isEmpty else { return [] }
        let busy = busy()
        return unwatched.map { CInt($0) }.filter { isOpen($0) && !busy.contains(Self.port(of: $0)) }
    }

    /// The open sockets by origin, without those of probes. Idle are those of ``idle(exceptPorts:)``.
    func origins(exceptPorts busy: Set<Int>) -> [String: EngineGauges.Connections] {
        let idle = Set(idle(exceptPorts: busy))
        var origins: [String: EngineGauges.Connections] = [:]
        for descriptor in open where !entries[Int(descriptor)].origin.isEmpty {
            let state: WritableKeyPath<EngineGauges.Connections, Int> = idle.contains(descriptor) ? \.idle : \.active
            origins[entries[Int(descriptor)].origin, default: EngineGauges.Connections()][keyPath: state] += 1
        }
        return origins
    }

    private static func inode(of descriptor: CInt) -> ino_t {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status.st_ino : 0
    }

    private func register(_ descriptor: CInt, _ entry: inout Entry, _ events: EventQueue.Events) {
        self.events.watch(descriptor, for: events, isWatched: !entry.registered.isEmpty)
        entry.registered = events
    }

    private func unregister(_ descriptor: CInt, _ entry: inout Entry) {
        if !entry.registered.isEmpty { events.forget(descriptor) }
        entry.registered = []
    }

    private mutating func reserve(_ descriptor: CInt) {
        while entries.count <= Int(descriptor) { entries.append(Entry()) }
    }
}
