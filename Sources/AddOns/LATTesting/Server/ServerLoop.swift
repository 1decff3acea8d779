import CLinux
import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// The thread of a ``MockServer``: it accepts, reads, answers and closes. Only this thread uses these properties; other
/// threads see ``SharedState``.
final class ServerLoop {
    let shared: SharedState
    private let listener: Int32
    private let wakeUp: WakeUp
    private let unixSocketPath: String?
    /// The port to keep after the end, one that the system chose.
    private let keptPort: Int?
    private var connections: [Int: Connection] = [:]
    private let queue: EventQueue
    /// The times at which connections are handled without an event, by the number of the connection.
    private var timers = TimerHeap<MonotonicTime, Int>()
    private var nextConnection = 1
    /// When to accept again after the process ran out of descriptors.
    private var acceptPausedUntil: MonotonicTime?
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 262_144, alignment: 64)

    // The tokens of the descriptors that are not connections. Connections are numbered from 1.
    private static let listenerToken = 0
    private static let wakeToken = -1
    /// How long a client may continue to send after the server has closed its side, and how long a reset waits for the
    /// client to receive what was sent.
    static let lingerTime = Duration.seconds(2)
    /// How many bytes a connection may send before the others are served.
    static let sendBudget = 4 << 20

    /// Makes a loop that owns the queue and the listener from the start of its thread.
    init(
        shared: SharedState, queue: EventQueue, listener: Int32, wakeUp: WakeUp, unixSocketPath: String?, keptPort: Int?
    ) {
        self.shared = shared
        self.queue = queue
        self.listener = listener
        self.wakeUp = wakeUp
        self.unixSocketPath = unixSocketPath
        self.keptPort = keptPort
    }

    deinit { scratch.deallocate() }

    func run() {
        queue.watch(listener, for: .readable, token: Self.listenerToken)
        queue.watch(wakeUp.descriptor, for: .readable, token: Self.wakeToken)
        while true {
            let now = MonotonicTime.now
            fireTimers(at: now)
            if applyRequestedChanges() { break }
            let wakeTimes = [timers.first?.time, acceptPausedUntil].compactMap { $0 }
            let pause = wakeTimes.min().map { Int32(min(60_000, now.milliseconds(until: $0))) } ?? -1
            let count = queue.wait(milliseconds: pause)
            for index in 0..<count { handle(queue[index]) }
        }
        end()
    }

    /// Returns `true` when the server must stop.
    private func applyRequestedChanges() -> Bool {
        let (stops, closesIdle) = shared.update { contents in
            let requested = (contents.stopIsRequested, contents.idleConnectionsAreToClose)
            contents.idleConnectionsAreToClose = false
            return requested
        }
        if closesIdle {
            for connection in Array(connections.values)
            where connection.exchange == nil && !connection.parser.isInsideRequest {
                if case .reading = connection.phase { close(connection) }
            }
        }
        return stops
    }

    private func end() {
        for connection in Array(connections.values) { close(connection) }
        // The shutdown also reaches the copies that child processes hold until they start their program.
        shutdown(listener, Int32(SHUT_RDWR))
        Glibc.close(listener)
        if let keptPort { shared.keep(keptPort) }
        queue.end()
        if let unixSocketPath { unlink(unixSocketPath) }
        shared.end()
    }

    private func handle(_ event: (token: Int, events: EventQueue.Events)) {
        switch event.token {
        case Self.listenerToken:
            acceptConnections()
        case Self.wakeToken:
            wakeUp.clear()
            // A change of the read rate takes effect at once.
            for connection in connections.values where connection.readIsPaused {
                connection.nextRead = MonotonicTime(nanoseconds: .min)
                schedule(connection, at: .now)
            }
        default:
            guard let connection = connections[event.token] else { return }
            handle(event.events, of: connection)
            updateInterest(of: connection)
        }
    }

    private func handle(_ events: EventQueue.Events, of connection: Connection) {
        let isGone = !events.isDisjoint(with: [.gone, .peerClosed])
        switch connection.phase {
        case .reading:
            receive(connection, ignoringRate: !events.isDisjoint(with: .gone))
        case .lingering:
            // The bytes are discarded.
            _ = receivedBytes(of: connection)
        case .webSocket(_, let reads):
            if !events.isDisjoint(with: .gone) || isGone && !reads { return close(connection) }
            if reads, !events.isDisjoint(with: [.readable, .peerClosed]) { return receiveSocket(connection) }
            playSocket(connection)
        case .replying(.room) where !isGone, .replying(.none) where !isGone:
            advance(connection)
        case .resetting where isGone, .replying where isGone:
            close(connection)
        case .replying, .resetting, .closed:
            break
        }
    }

    private func fireTimers(at now: MonotonicTime) {
        if let paused = acceptPausedUntil, paused <= now {
            acceptPausedUntil = nil
            queue.watch(listener, for: .readable, token: Self.listenerToken, isWatched: true)
        }
        while let entry = timers.popDue(at: now) {
            guard let connection = connections[entry.value], connection.deadline == entry.time else { continue }
            connection.deadline = nil
            switch connection.phase {
            case .reading: connection.readIsPaused = false
            case .replying: advance(connection)
            case .lingering: close(connection)
            case .webSocket: playSocket(connection)
            case .resetting: resetWhenReceived(connection)
            case .closed: break
            }
            updateInterest(of: connection)
        }
    }

    /// Changes the registered events if the connection needs others.
    private func updateInterest(of connection: Connection) {
        if case .closed = connection.phase { return }
        let wanted = connection.wantedInterest
        guard wanted != connection.interest else { return }
        connection.interest = wanted
        queue.watch(connection.descriptor, for: wanted, token: connection.id, isWatched: true)
    }

    func schedule(_ connection: Connection, at time: MonotonicTime) {
        connection.deadline = time
        timers.insert(connection.id, at: time)
    }
}

// MARK: - Reading

extension ServerLoop {
    private func acceptConnections() {
        for _ in 0..<64 {
            let descriptor = lat_accept(listener)
            guard descriptor >= 0 else {
                if errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM {
                    // The listener stays readable, so without a pause the loop would never wait.
                    acceptPausedUntil = MonotonicTime.now + Duration.milliseconds(20)
                    queue.watch(listener, for: [], token: Self.listenerToken, isWatched: true)
                }
                if errno == ECONNABORTED || errno == EINTR { continue }
                return
            }
            if unixSocketPath == nil { Socket.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
            let connection = Connection(id: nextConnection, descriptor: descriptor)
            nextConnection += 1
            connections[connection.id] = connection
            let readRate = shared.update { contents in
                contents.acceptedConnections += 1
                return contents.settings.bodyReadRate
            }
            // The system's default buffer takes megabytes, so that a client would not notice a slow reader.
            if readRate != nil { Socket.set(descriptor, SOL_SOCKET, SO_RCVBUF, 32_768) }
            queue.watch(descriptor, for: connection.interest, token: connection.id)
        }
    }

    /// - Parameter ignoringRate: Whether the client has closed, so that the read rate no longer matters.
    private func receive(_ connection: Connection, ignoringRate: Bool) {
        let rate = ignoringRate ? nil : shared.read { $0.settings.bodyReadRate }
        var limit = Int.max
        if let rate {
            if connection.exchange != nil, rate <= 0 || connection.nextRead > .now {
                connection.readIsPaused = true
                // With a rate of 0, reading resumes when the rate changes, which wakes the thread.
                if rate > 0 { schedule(connection, at: connection.nextRead) }
                return
            }
            limit = rate > 0 ? max(1, rate / 20) : 4_096
        }
        guard let bytes = receivedBytes(of: connection, atMost: limit) else { return }
        if connection.pending.isEmpty { connection.pending = bytes } else { connection.pending += bytes }
        advance(connection)
        if let rate, rate > 0, connection.exchange != nil {
            let time = Duration.nanoseconds(Int64(Double(bytes.count) / Double(rate) * 1e9))
            connection.nextRead = max(.now, connection.nextRead) + time
        }
    }

    /// Receives bytes; `nil` without any. Closes the connection if the client has closed it, or it is broken.
    func receivedBytes(of connection: Connection, atMost limit: Int = .max) -> ArraySlice<UInt8>? {
        let limit = min(limit, scratch.count)
        let count = recv(connection.descriptor, scratch.baseAddress, limit, Int32(MSG_DONTWAIT))
        if count > 0 { return [UInt8](UnsafeRawBufferPointer(rebasing: scratch[..<count]))[...] }
        if count == 0 || (errno != EAGAIN && errno != EINTR) { close(connection) }
        return nil
    }

    /// Handles all that is possible now: events of the parser, bytes of the reply, then the next request.
    private func advance(_ connection: Connection) {
        while true {
            switch connection.phase {
            case .reading:
                do throws(RequestParser.Failure) {
                    guard let event = try connection.parser.next(&connection.pending) else { return }
                    handle(event, of: connection)
                } catch {
                    refuse(connection, with: error)
                }
            case .replying:
                guard writeReply(of: connection) else { return }
            case .webSocket:
                // The client may have sent frames right behind the handshake.
                feedSocket(connection, connection.pending)
                connection.pending = []
                return playSocket(connection)
            case .lingering, .resetting, .closed:
                return
            }
        }
    }
}

// MARK: - Closing

extension ServerLoop {
    func close(_ connection: Connection, by closing: (Int32) -> Void = { Glibc.close($0) }) {
        if case .closed = connection.phase { return }
        connection.phase = .closed
        connections[connection.id] = nil
        queue.forget(connection.descriptor)
        closing(connection.descriptor)
        let exchange = connection.exchange
        connection.exchange = nil
        connection.writer = nil
        connection.player = nil
        if let exchange, !exchange.isAnswered { exchange.receiver?.abandon(exchange.record) }
        shared.update { contents in
            contents.closedConnections += 1
            guard let exchange else { return }
            contents.activeExchanges -= 1
            if !exchange.isAnswered, contents.settings.recordsRequests {
                contents.abandonedRequests.append(exchange.record)
            }
        }
    }

    /// Closes with a FIN. Unread bytes are read first, because a close with unread bytes becomes a reset.
    func closeGracefully(_ connection: Connection) {
        let isRead = connection.exchange?.record.isComplete ?? false
        if isRead, connection.pending.isEmpty, lat_unread_bytes(connection.descriptor) == 0 {
            close(connection)
            return
        }
        shutdown(connection.descriptor, Int32(SHUT_WR))
        connection.phase = .lingering
        connection.pending = []
        schedule(connection, at: .now + Self.lingerTime)
    }

    func resetWhenReceived(_ connection: Connection) {
        guard case .resetting(let deadline) = connection.phase else { return }
        let now = MonotonicTime.now
        if lat_unsent_bytes(connection.descriptor) == 0 || now >= deadline {
            close(connection, by: Socket.reset)
        } else {
            schedule(connection, at: now + Duration.milliseconds(1))
        }
    }
}
