import CLibcurl
import Glibc

/// Which sockets epoll watches, and for what.
///
/// libcurl stops watching a connection when a transfer is over and watches it
/// again for the next one. Both would be system calls; instead a socket that
/// libcurl has let go stays with epoll as it is until something happens on it
/// (the server closed it, most likely), and is only then taken out.
struct SocketTable {
    private struct Entry {
        /// What libcurl wants to know of; 0 when it has let go.
        var wanted: UInt32 = 0
        /// What epoll was told; 0 when it does not know the socket.
        var registered: UInt32 = 0
        /// Opened through our callback, and not yet closed through the other.
        var isOurs = false
        /// libcurl has read from it: the connection came about. One that did not libcurl may close without a word
        /// (7.88 does), so that its number could come back unnoticed.
        var isConnected = false
        /// The socket's own number, which is not used again.
        var inode: ino_t = 0
    }

    let epoll: CInt
    private var entries: [Entry] = []

    init(epoll: CInt) { self.epoll = epoll }

    mutating func opened(_ descriptor: CInt) {
        reserve(descriptor)
        entries[Int(descriptor)] = Entry(isOurs: true, inode: Self.inode(of: descriptor))
    }

    mutating func closed(_ descriptor: CInt) {
        // The kernel takes a closed descriptor out of epoll by itself.
        if entries.indices.contains(Int(descriptor)) { entries[Int(descriptor)] = Entry() }
    }

    /// libcurl's wish, as its socket callback tells it.
    mutating func watch(_ descriptor: CInt, _ what: CInt) {
        reserve(descriptor)
        var entry = entries[Int(descriptor)]
        switch what {
        case CURL_POLL_IN: entry.wanted = EPOLLIN.rawValue
        case CURL_POLL_OUT: entry.wanted = EPOLLOUT.rawValue
        case CURL_POLL_INOUT: entry.wanted = EPOLLIN.rawValue | EPOLLOUT.rawValue
        default: entry.wanted = 0
        }
        if entry.wanted & EPOLLIN.rawValue != 0 { entry.isConnected = true }
        if entry.wanted == 0 {
            if !entry.isOurs || !entry.isConnected { unregister(descriptor, &entry) }
        } else if entry.wanted != entry.registered {
            register(descriptor, &entry, for: entry.wanted)
        }
        entries[Int(descriptor)] = entry
    }

    /// Whether libcurl wants to hear of an event on this socket. If not, epoll is told to forget it.
    mutating func isWanted(_ descriptor: CInt) -> Bool {
        guard entries.indices.contains(Int(descriptor)) else { return false }
        var entry = entries[Int(descriptor)]
        if entry.wanted != 0 { return true }
        if entry.isOurs, entry.isConnected {
            leaveIdle(descriptor, &entry)
        } else {
            unregister(descriptor, &entry)
        }
        entries[Int(descriptor)] = entry
        return false
    }

    /// Something has come on a connection that nobody uses. One that the server closed is shut, so that the next request
    /// leaves it without a byte sent: libcurl 8.22 looks for closed connections once a second only, and a request with
    /// effects that went out on one is not repeated. What else comes, such as a TLS ticket, is libcurl's to read.
    private mutating func leaveIdle(_ descriptor: CInt, _ entry: inout Entry) {
        if lat_is_closed_by_peer(descriptor) != 0 {
            shutdown(descriptor, CInt(SHUT_RDWR))
            unregister(descriptor, &entry)
        } else {
            register(descriptor, &entry, for: EPOLLRDHUP.rawValue)
        }
    }

    /// How many of the sockets are open.
    var openCount: Int {
        entries.indices.count { entries[$0].isOurs && Self.inode(of: CInt($0)) == entries[$0].inode }
    }

    /// Shuts sockets that nobody uses. libcurl takes them for closed by the server: it looks before it uses a connection
    /// of its pool again, and closes such a one.
    func shutDownIdle(except busy: Set<CInt>, where isGone: (CInt) -> Bool) {
        for index in entries.indices where entries[index].isOurs && entries[index].wanted == 0 {
            let descriptor = CInt(index)
            guard !busy.contains(descriptor), Self.inode(of: descriptor) == entries[index].inode, isGone(descriptor)
            else { continue }
            shutdown(descriptor, CInt(SHUT_RDWR))
        }
    }

    private static func inode(of descriptor: CInt) -> ino_t {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status.st_ino : 0
    }

    private func register(_ descriptor: CInt, _ entry: inout Entry, for events: UInt32) {
        let operation = entry.registered == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
        if lat_epoll_ctl(epoll, operation, descriptor, events) != 0 {
            // The kernel knows better: the number was closed and opened behind our back.
            let other = operation == EPOLL_CTL_ADD ? EPOLL_CTL_MOD : EPOLL_CTL_ADD
            _ = lat_epoll_ctl(epoll, other, descriptor, events)
        }
        entry.registered = events
    }

    private func unregister(_ descriptor: CInt, _ entry: inout Entry) {
        if entry.registered != 0 { _ = lat_epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, 0) }
        entry.registered = 0
    }

    private mutating func reserve(_ descriptor: CInt) {
        while entries.count <= Int(descriptor) { entries.append(Entry()) }
    }
}
