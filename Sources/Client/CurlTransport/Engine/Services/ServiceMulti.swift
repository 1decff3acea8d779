import CLibcurl
internal import HTTPCore
import Platform

/// A multi handle beside that of the ordinary transfers, on the engine's thread: for connections without a request
/// (`CURLOPT_CONNECT_ONLY`), and for live ones, such as event streams.
///
/// In the transfers' handle they would count towards a host's connections for as long as they are open, evict an idle
/// connection from the pool, or wait for a free one. The engine's epoll watches this multi handle's epoll descriptor,
/// so these connections cost the transfers nothing.
final class ServiceMulti: CallbackContext {
    /// The epoll descriptor, readable when a socket has an event; -1 before the first use.
    var descriptor: CInt { events?.descriptor ?? -1 }
    /// When libcurl's timer expires.
    @exclusivity(unchecked) private(set) var due = MonotonicTime.distantFuture

    /// `nil` before the first use, while the system has no descriptor left, and after ``end()``.
    private var events: EventQueue?
    private let capacity: Int32
    /// The engine's epoll; `nil` after ``end()``.
    private var outer: EventQueue?
    /// Called when libcurl stops watching a socket, with the handle that used it.
    var unwatched: ((UnsafeMutableRawPointer) -> Void)?
    private var multi: UnsafeMutableRawPointer?
    private var watches: [CInt: Watch] = [:]
    /// The sockets whose events may have changed since the last ``settle()``.
    @exclusivity(unchecked) private var changed: [CInt] = []

    private struct Watch {
        /// The events that libcurl waits for.
        var wanted: EventQueue.Events
        /// The events registered with epoll; empty before the first ``settle()``.
        var registered: EventQueue.Events = []
    }

    /// - Parameter capacity: The maximum number of events that one turn handles. Default 32.
    init(_ outer: EventQueue, capacity: Int32 = 32) {
        self.outer = outer
        self.capacity = capacity
    }

    deinit { end() }

    /// Starts to connect a prepared handle.
    func add(_ handle: EasyHandle) throws(NetworkError) {
        guard let multi = self.handle else { throw EngineFailure.noResources("memory for a connection") }
        let code = curl_multi_add_handle(multi, handle.curl)
        if code != CURLM_OK { throw EngineFailure.multi(code) }
    }

    /// Removes a handle, which closes its connection. Until then libcurl leaves it open for the application.
    func remove(_ handle: EasyHandle) {
        guard let multi else { return }
        curl_multi_remove_handle(multi, handle.curl)
        handle.transfer = nil
    }

    /// Continues the connections, and calls `finished` for those that are done.
    func turn(_ now: MonotonicTime, finished: (UnsafeMutableRawPointer, CURLcode) -> Void) {
        guard let multi, let events else { return }
        var left: CInt = 0
        for index in 0..<events.wait(milliseconds: 0) {
            let (token, bits) = events[index]
            let socket = CInt(truncatingIfNeeded: token)
            // An earlier event of this turn may have closed the connection.
            guard watches[socket] != nil else { continue }
            curl_multi_socket_action(multi, socket, bits.curlSelect, &left)
        }
        if due <= now {
            due = .distantFuture
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &left)
        }
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let curl = message.pointee.easy_handle else { continue }
            finished(curl, lat_message_result(message))
        }
    }

    /// Frees the multi handle, after all handles were removed.
    func end() {
        if let multi { curl_multi_cleanup(multi) }
        multi = nil
        events = nil
        outer = nil
        watches = [:]
        changed = []
        due = .distantFuture
    }

    /// Registers the events that libcurl waits for, once at the end of a turn. For a message that it sends at once, libcurl
    /// begins and ends waiting for a writable socket in the same turn, which would be two system calls.
    func settle() {
        guard !changed.isEmpty else { return }
        for socket in changed {
            guard let watch = watches[socket], watch.wanted != watch.registered else { continue }
            events?.watch(socket, for: watch.wanted, isWatched: !watch.registered.isEmpty)
            watches[socket]?.registered = watch.wanted
        }
        changed.removeAll(keepingCapacity: true)
    }

    /// Notes a new socket. libcurl 7.88 closes some without notice, and the number is used again.
    func opened(_ socket: CInt) {
        if !watches.isEmpty { watches[socket] = nil }
    }

    // MARK: libcurl's callbacks

    /// The multi handle, made on first use; `nil` while there is no memory or descriptor for it.
    var handle: UnsafeMutableRawPointer? {
        if let multi { return multi }
        guard let outer, let events = events ?? EventQueue(capacity: capacity), let multi = curl_multi_init() else {
            return nil
        }
        if self.events == nil { outer.watch(events.descriptor, for: .readable) }
        self.events = events
        let context = Unmanaged.passUnretained(self).toOpaque()
        lat_multi_set_callbacks(multi, serviceSocketCallback, serviceTimerCallback, context)
        self.multi = multi
        return multi
    }

    fileprivate func watch(_ socket: CInt, _ what: CInt) {
        let wanted = EventQueue.Events(pollingFor: what)
        guard !wanted.isEmpty else { return stopWatching(socket) }
        watches[socket, default: Watch(wanted: wanted)].wanted = wanted
        changed.append(socket)
    }

    /// Stops watching a socket, whose events another object then handles.
    func stopWatching(_ socket: CInt) {
        if let watch = watches.removeValue(forKey: socket), !watch.registered.isEmpty { events?.forget(socket) }
    }

    fileprivate func setTimer(milliseconds: Int) {
        due =
            switch milliseconds {
            case ..<0: .distantFuture
            // In this turn.
            case 0: MonotonicTime(nanoseconds: 0)
            default: MonotonicTime.now + Int64(milliseconds)
            }
    }
}

private let serviceSocketCallback: curl_socket_callback = { curl, descriptor, what, context, _ in
    guard let context else { return 0 }
    let service = ServiceMulti.from(context)
    service.watch(descriptor, what)
    if what == CURL_POLL_REMOVE, let curl { service.unwatched?(curl) }
    return 0
}

private let serviceTimerCallback: curl_multi_timer_callback = { _, milliseconds, context in
    guard let context else { return 0 }
    ServiceMulti.from(context).setTimer(milliseconds: milliseconds)
    return 0
}
