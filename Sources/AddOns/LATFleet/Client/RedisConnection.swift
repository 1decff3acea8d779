internal import CurlTransport
internal import FoundationEssentials
internal import HTTPCore
internal import Platform

/// Receives the events of a ``RedisConnection``.
protocol RedisConnectionUser: AnyObject {
    /// The server has accepted the log-in.
    func connectionIsReady(_ now: MonotonicTime)
    /// A reply came after the log-in.
    func connectionReceived(_ value: RedisValue, _ now: MonotonicTime)
    /// Queued bytes were sent.
    func connectionHasRoom(_ now: MonotonicTime)
    /// The connection is lost or was not made. `pause` is the time to the next attempt in milliseconds.
    func connectionIsDown(_ error: FleetError, pause: Int64, _ now: MonotonicTime)
    /// The server was silent; send it a `PING`.
    func connectionIsSilent(_ now: MonotonicTime)
}

/// The connection to Redis: connects, logs in, reads replies, notices silence, and reconnects. Belongs to the engine's thread.
final class RedisConnection: ByteConnectionUser {
    private enum State {
        case stopped
        /// The next attempt is made at this time.
        case waiting(until: MonotonicTime)
        /// Connecting and logging in, until this time at most.
        case connecting(until: MonotonicTime)
        case ready
    }

    private let configuration: FleetConfiguration
    private let endpoint: ByteEndpoint
    private let database: Int
    weak var user: (any RedisConnectionUser)?
    private var connections: ByteConnections?

    private var state = State.stopped
    private var connection: ByteConnection?
    private var reader: RedisReader?
    private var greeting: RedisGreeting
    private var backoff: Backoff
    private var heartbeat: Heartbeat
    private var readySince = MonotonicTime(nanoseconds: 0)
    private(set) var connectionCount = 0

    /// After a connection that worked for so long, the next attempt is made at once; in milliseconds.
    private static let stableTime: Int64 = 1000

    init(_ configuration: FleetConfiguration, _ endpoint: ByteEndpoint, database: Int) {
        self.configuration = configuration
        self.endpoint = endpoint
        self.database = database
        greeting = RedisGreeting(database: database)
        backoff = Backoff(first: .milliseconds(50), longest: configuration.maxReconnectPause)
        heartbeat = Heartbeat(configuration.heartbeat, .now)
    }

    var isReady: Bool { if case .ready = state { true } else { false } }

    var isConnecting: Bool { if case .connecting = state { true } else { false } }

    var server: ServerFacts { greeting.server }

    /// Sends bytes from other threads; `nil` unless the connection is ready and in clear text.
    var outlet: ByteOutlet? { isReady ? connection?.outlet : nil }

    var unsentByteCount: Int { connection?.unsentByteCount ?? 0 }

    var due: MonotonicTime {
        switch state {
        case .stopped: .distantFuture
        case .waiting(let until), .connecting(let until): until
        case .ready: heartbeat.due
        }
    }

    func start(_ connections: ByteConnections, _ now: MonotonicTime) {
        self.connections = connections
        guard case .stopped = state else { return }
        open(now)
    }

    func stop() {
        state = .stopped
        drop()
    }

    func turn(_ now: MonotonicTime) {
        guard due <= now else { return }
        switch state {
        case .stopped: break
        case .waiting: open(now)
        case .connecting:
            let limit = configuration.connectTimeout
            fail(
                FleetError(.timeout, "\(configuration): no connection and log-in within \(limit); is the server busy?"),
                now)
        case .ready:
            switch heartbeat.step(now) {
            case .nothing: break
            case .ask: user?.connectionIsSilent(now)
            case .isDead:
                let silence = configuration.longestSilence
                fail(FleetError(.connectionLost, "\(configuration): nothing was received for \(silence)"), now)
            }
        }
    }

    /// Sends bytes. Ignored unless the connection is ready.
    func send(_ bytes: [UInt8]) {
        if isReady { connection?.send(bytes) }
    }

    /// Closes the connection and makes a new one.
    func fail(_ error: FleetError, _ now: MonotonicTime) {
        if case .stopped = state { return }
        let wasStable = isReady && readySince + Self.stableTime <= now
        drop()
        if wasStable { backoff.reset() }
        if error.isLasting { backoff.skipToLongest() }
        // Random, so that the processes of a fleet do not reconnect all at once.
        let pause = wasStable ? 0 : backoff.next(chance: .random(in: 0...1)).roundedUpMilliseconds
        state = .waiting(until: now + pause)
        user?.connectionIsDown(error, pause: pause, now)
    }

    private func drop() {
        connection?.close()
        connection = nil
        reader = nil
    }

    private func open(_ now: MonotonicTime) {
        guard let connections else { return }
        guard let reader = RedisReader(sizeLimit: configuration.maxReplySize) else {
            return fail(FleetError(.connect, "there is no memory left for hiredis"), now)
        }
        self.reader = reader
        greeting = RedisGreeting(database: database)
        state = .connecting(until: now + configuration.connectTimeout.roundedUpMilliseconds)
        do throws(NetworkError) {
            connection = try connections.open(endpoint, user: self)
        } catch {
            fail(FleetError(error, configuration), now)
        }
    }

    // MARK: The connection's events

    func connectionIsOpen(_ connection: ByteConnection) {
        guard connection === self.connection else { return }
        for command in greeting.commands(user: configuration.user, password: configuration.password) {
            connection.send(command.bytes)
        }
    }

    func connection(_ connection: ByteConnection, received bytes: UnsafeRawBufferPointer) {
        guard connection === self.connection, let reader else { return }
        let now = MonotonicTime.now
        heartbeat.received(now)
        do throws(FleetError) {
            for value in try reader.read(bytes) {
                // The user may have closed the connection because of a reply.
                guard connection === self.connection else { return }
                if isReady {
                    user?.connectionReceived(value, now)
                } else if try greeting.take(value) {
                    state = .ready
                    readySince = now
                    connectionCount += 1
                    user?.connectionIsReady(now)
                }
            }
        } catch {
            fail(error, now)
        }
    }

    func connectionHasSent(_ connection: ByteConnection) {
        guard connection === self.connection else { return }
        let now = MonotonicTime.now
        heartbeat.received(now)
        if isReady { user?.connectionHasRoom(now) }
    }

    func connection(_ connection: ByteConnection, failed error: NetworkError) {
        guard connection === self.connection else { return }
        fail(FleetError(error, configuration), .now)
    }
}
