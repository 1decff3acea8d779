import CLibcurl
package import HTTPCore
import Platform

/// Work of another module on an engine's thread. Every requirement is called there.
package protocol EngineTenant: AnyObject, Sendable {
    /// When ``turn(_:)`` must be called next.
    var due: MonotonicTime { get }
    /// Begins the work. The connections live as long as the engine.
    func start(_ connections: ByteConnections)
    /// Called when ``due`` has come, and after a call of the function that ``CurlTransport/waker(of:)`` returned.
    func turn(_ now: MonotonicTime)
    /// Called when the engine ends. Connections are still open.
    func end()
}

/// The connections of an engine that carry another protocol than HTTP. Belongs to the engine's thread.
package final class ByteConnections {
    private unowned let engine: Engine
    private let outer: EventQueue
    let multi: ServiceMulti
    private var connections: [ObjectIdentifier: ByteConnection] = [:]
    private var bySocket: [CInt: ByteConnection] = [:]
    @exclusivity(unchecked) private var events: [(socket: CInt, events: EventQueue.Events)] = []
    @exclusivity(unchecked) private var withMore: [ByteConnection] = []
    @exclusivity(unchecked) private var hasConnectEvents = false
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 128 << 10, alignment: 16)

    init(engine: Engine, _ outer: EventQueue) {
        self.engine = engine
        self.outer = outer
        multi = ServiceMulti(outer)
    }

    deinit { buffer.deallocate() }

    /// Starts to connect.
    ///
    /// - Throws: When libcurl refuses a setting or memory is short. All other failures are reported to the user.
    package func open(
        _ endpoint: ByteEndpoint, user: any ByteConnectionUser
    ) throws(NetworkError) -> ByteConnection {
        guard let handle = EasyHandle(engine: engine, slot: -1, hasLargeBuffer: true) else {
            throw EngineFailure.noResources("memory for a connection")
        }
        let connection = ByteConnection(self, endpoint, user: user, handle)
        let now = MonotonicTime.now
        _ = connection.transfer.machine.submitted(nil, now)
        _ = connection.transfer.machine.started(now)
        try handle.prepare(for: connection.transfer)
        try handle.connectForBytes()
        try multi.add(handle)
        connections[ObjectIdentifier(connection)] = connection
        return connection
    }

    // MARK: For the engine's services

    var due: MonotonicTime {
        hasConnectEvents || !events.isEmpty || !withMore.isEmpty ? MonotonicTime(nanoseconds: 0) : multi.due
    }

    /// Records an event. Returns `false` when the descriptor belongs to none of these connections.
    func noted(_ descriptor: CInt, _ bits: EventQueue.Events) -> Bool {
        if descriptor == multi.descriptor {
            hasConnectEvents = true
        } else if !bySocket.isEmpty, bySocket[descriptor] != nil {
            events.append((descriptor, bits))
        } else {
            return false
        }
        return true
    }

    func turn(_ now: MonotonicTime) {
        let more = withMore
        withMore = []
        for connection in more { connection.receive(buffer) }
        let events = self.events
        self.events.removeAll(keepingCapacity: true)
        for event in events { bySocket[event.socket]?.handle(event.events, buffer) }
        guard hasConnectEvents || multi.due <= now else { return }
        hasConnectEvents = false
        multi.turn(now) { curl, result in
            guard let connection = connections.values.first(where: { $0.handle?.curl == curl }) else { return }
            connection.connected(result, now)
        }
    }

    func end() {
        for connection in connections.values { connection.fail(EngineFailure.shutDown) }
        multi.end()
    }

    // MARK: For the connections

    func watch(_ connection: ByteConnection, for wanted: EventQueue.Events) {
        let isWatched = bySocket.updateValue(connection, forKey: connection.socket) != nil
        if !isWatched { multi.stopWatching(connection.socket) }
        outer.watch(connection.socket, for: wanted, isWatched: isWatched)
    }

    func readAgain(_ connection: ByteConnection) { withMore.append(connection) }

    func remove(_ connection: ByteConnection) {
        if bySocket.removeValue(forKey: connection.socket) != nil { outer.forget(connection.socket) }
        connections[ObjectIdentifier(connection)] = nil
        withMore.removeAll { $0 === connection }
        if let handle = connection.handle { multi.remove(handle) }
    }
}
