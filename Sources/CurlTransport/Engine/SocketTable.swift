import CLibcurl
import CLinux
import Glibc
import Platform

/// Which sockets epoll watches, and for what.
///
/// libcurl stops watching a connection when a transfer is over and watches it
/// again for the next one. Both would be system calls; instead a socket that
/// libcurl has let go stays with epoll as it is until something happens on it
/// (the server closed it, most likely), and is only then taken out. What came
/// on it meanwhile is noted: it answers no request (``Engine/isUnusable(_:_:)``).
struct SocketTable {
    private struct Entry {
        /// What libcurl wants to know of; nothing when it has let go.
        var wanted: EventQueue.Events = []
        /// What epoll was told; nothing when it does not know the socket.
        var registered: EventQueue.Events = []
        /// Opened through our callback, and not yet closed through the other.
        var isOurs = false
        /// libcurl has read from it: the connection came about. One that did not libcurl may close without a word
        /// (7.88 does), so that its number could come back unnoticed.
        var isConnected = false
        /// Something came that nobody asked for while libcurl had let go.
        var hasInput = false
        /// It was opened beforehand and has carried no request: what comes on it are TLS's own tickets.
        var isUnused = false
        /// The socket's own number, which is not used again.
        var inode: ino_t = 0
    }

    let events: EventQueue
    private var entries: [Entry] = []
    /// How many sockets have ``Entry/hasInput``.
    private(set) var inputCount = 0

    init(_ events: EventQueue) { self.events = events }

    mutating func opened(_ descriptor: CInt) {
        reserve(descriptor)
        forgetInput(descriptor)
        entries[Int(descriptor)] = Entry(isOurs: true, inode: Self.inode(of: descriptor))
    }

    mutating func closed(_ descriptor: CInt) {
        // The kernel takes a closed descriptor out of epoll by itself.
        guard entries.indices.contains(Int(descriptor)) else { return }
        forgetInput(descriptor)
        entries[Int(descriptor)] = Entry()
    }

    /// libcurl's wish, as its socket callback tells it.
    mutating func watch(_ descriptor: CInt, _ what: CInt) {
        reserve(descriptor)
        var entry = entries[Int(descriptor)]
        entry.wanted = EventQueue.Events(pollingFor: what)
        if !entry.wanted.isEmpty { entry.isUnused = false }
        if entry.wanted.contains(.readable) { entry.isConnected = true }
        if entry.wanted.isEmpty {
            // An answer that was there at once is read without a wish to wait for it.
            if entry.isOurs, !entry.isConnected { entry.isConnected = Self.isConnected(descriptor) }
            if !entry.isOurs || !entry.isConnected { unregister(descriptor, &entry) }
        } else if entry.wanted != entry.registered {
            register(descriptor, &entry, entry.wanted)
        }
        entries[Int(descriptor)] = entry
    }

    /// Whether libcurl wants to hear of an event on this socket. If not, a connection that was closed is shut, and what has
    /// come unasked is noted.
    mutating func isWanted(_ descriptor: CInt, _ events: EventQueue.Events) -> Bool {
        guard entries.indices.contains(Int(descriptor)) else { return false }
        var entry = entries[Int(descriptor)]
        if !entry.wanted.isEmpty { return true }
        if entry.isOurs, entry.isConnected {
            leaveIdle(descriptor, &entry, events)
        } else {
            unregister(descriptor, &entry)
        }
        entries[Int(descriptor)] = entry
        return false
    }

    /// Something has happened on a connection that nobody uses.
    ///
    /// One that the server closed is shut, so that the next request leaves it without a byte sent: libcurl 8.22 looks for
    /// closed connections once a second only, and a request with effects that went out on one is not repeated.
    private mutating func leaveIdle(_ descriptor: CInt, _ entry: inout Entry, _ events: EventQueue.Events) {
        // An event of this turn may be about what libcurl has read since, while it dealt with another socket.
        let (isInput, isClosed) = Self.look(at: descriptor)
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

    private static func look(at descriptor: CInt) -> (isInput: Bool, isClosed: Bool) {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT))
        if count < 0, errno == EAGAIN { return (false, false) }
        return (count > 0, count <= 0 || lat_is_closed_by_peer(descriptor) != 0)
    }

    /// Whether a TCP connection of the pool was closed by the server, or holds what nobody asked for.
    mutating func hasNews(_ descriptor: CInt) -> Bool {
        guard entries.indices.contains(Int(descriptor)) else { return false }
        forgetInput(descriptor)
        let (isInput, isClosed) = Self.look(at: descriptor)
        return (isClosed || isInput && !entries[Int(descriptor)].isUnused) && Self.isStream(descriptor)
    }

    private static func isStream(_ descriptor: CInt) -> Bool {
        var kind: CInt = 0
        var length = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == CInt(SOCK_STREAM.rawValue)
    }

    /// Whether something came on an idle connection that nobody has asked for here yet.
    ///
    /// - Parameter port: its own port, which is all that libcurl 7.88 tells before a request goes out; 0 for a Unix socket.
    mutating func takeInput(port: Int) -> Bool {
        let found = entries.indices.first { entries[$0].hasInput && Self.port(of: CInt($0)) == port }
        guard let found else { return false }
        forgetInput(CInt(found))
        return !entries[found].isUnused
    }

    /// A connection stands that was opened beforehand and carries no request yet.
    mutating func noteUnused(port: Int) {
        guard let found = entries.indices.first(where: { entries[$0].isOurs && Self.port(of: CInt($0)) == port }) else {
            return
        }
        entries[found].isUnused = true
    }

    /// What the kernel has yet to send on the open sockets that have a port.
    ///
    /// - Parameter port: as in ``takeInput(port:)``. Connections to different servers may have the same: then what all of
    ///   them have is counted, and on a port of 0 what all Unix sockets have.
    func unsentBytes(port: Int) -> Int {
        open.filter { Self.port(of: $0) == port }.reduce(0) { $0 + Int(lat_unsent_bytes($1)) }
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

    /// The sockets that are open.
    private var open: some Sequence<CInt> {
        entries.indices.lazy.filter { entries[$0].isOurs && Self.inode(of: CInt($0)) == entries[$0].inode }.map {
            CInt($0)
        }
    }

    /// How many of the sockets are open.
    var openCount: Int { open.reduce(0) { count, _ in count + 1 } }

    /// Sockets that nobody uses: connections of libcurl's pool, but for those on a port that a transfer has. libcurl does not
    /// watch the socket of a paused transfer either.
    func idle(exceptPorts busy: Set<Int>) -> [CInt] {
        open.filter { entries[Int($0)].wanted.isEmpty && !busy.contains(Self.port(of: $0)) }
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
