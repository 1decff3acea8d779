package import CurlTransport
internal import FoundationEssentials
internal import HTTPCore
package import Platform
internal import Synchronization

/// How long a caller waits for Redis.
package enum RedisBudget: Hashable, Sendable {
    /// ``FleetConfiguration/lookUpBudget``.
    case lookUp
    /// ``FleetConfiguration/writeBudget``.
    case write
    /// This time.
    case time(Duration)
    /// Until this time, for several commands together.
    case until(MonotonicTime)
}

/// The client that the parts of a fleet use to send commands to its Redis.
///
/// ```swift
/// let value = try await redis.call(RedisCommand("GET", [.text(fleet.key("cache", digest))]), .lookUp)
/// let replies = try await redis.pipeline(commands, .write)          // one round trip; refusals are values
/// let count = try await redis.run(script, keys: [key], [.integer(1)], .write)
/// let subscription = redis.subscribe(fleet.channel("cache")) { message in … }
/// ```
///
/// All commands share one connection. While it is idle, the caller sends its command itself (``DirectSender``). Each call waits
/// at most its budget, whatever state the server is in, and a cancelled task stops waiting at once. A command that was sent may
/// have been carried out even if its call throws, so only idempotent commands may be repeated. While the server fails, calls
/// throw at once and send nothing.
package final class RedisClient: EngineTenant, @unchecked Sendable {
    // Sendable: `commands` (without its `DirectSender`), `subscriptions` and `warned` belong to the engine's thread. The
    // rest is constant, atomic or locked.

    private struct Inbox {
        var exchanges: [RedisExchange] = []
        var changes: [SubscriptionChange] = []
        var isClosed = false
        var isEmpty: Bool { exchanges.isEmpty && changes.isEmpty }
    }

    private let configuration: FleetConfiguration
    private let inbox = Mutex(Inbox())
    /// Why nothing is sent; `nil` when commands are sent. Callers read it first.
    private let refusal = Mutex<FleetError?>(nil)
    private let known = Mutex(FleetStatus())
    /// The smoothed latency in nanoseconds; 0 before the first reply.
    private let latency = Atomic<Int64>(0)
    private let connections = Atomic(0)
    private let nextSubscription = Atomic(0)
    private let waker = AtomicLazyReference<Waker>()
    private let sent: FleetCounter
    private let timeouts: FleetCounter
    private let refusals: FleetCounter

    private let commands: RedisCommands
    private let subscriptions: RedisSubscriptions
    private var warned: Set<FleetError.Kind> = []

    private final class Waker: Sendable {
        let wake: @Sendable () -> Bool
        init(_ wake: @escaping @Sendable () -> Bool) { self.wake = wake }
    }

    init(_ configuration: FleetConfiguration, _ endpoint: ByteEndpoint, _ counters: FleetCounters) {
        self.configuration = configuration
        sent = counters.counter("redis.commands")
        timeouts = counters.counter("redis.timeouts")
        refusals = counters.counter("redis.unavailable")
        commands = RedisCommands(
            configuration, RedisConnection(configuration, endpoint, database: configuration.database))
        // Messages ignore the number of the database.
        subscriptions = RedisSubscriptions(RedisConnection(configuration, endpoint, database: 0))
        commands.owner = self
        subscriptions.owner = self
    }

    /// Starts the client on a transport's thread.
    func run(on transport: CurlTransport) {
        _ = waker.storeIfNil(Waker(transport.waker(of: self)))
        transport.host(self)
    }

    // MARK: Commands

    /// Sends a command and returns its reply.
    ///
    /// - Throws: ``FleetError``, also when the reply is a failure.
    package func call(_ command: RedisCommand, _ budget: RedisBudget) async throws(FleetError) -> RedisValue {
        try await reply(to: exchange(command.name, command.bytes, 1, .request, budget)).checked(command.name)
    }

    /// Sends commands together and returns their replies in the same order. A failure of one is a value, and the others are
    /// carried out all the same.
    package func pipeline(
        _ commands: [RedisCommand], _ budget: RedisBudget
    ) async throws(FleetError) -> [RedisValue] {
        guard let first = commands.first else { return [] }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(commands.reduce(0) { $0 + $1.bytes.count })
        for command in commands { bytes += command.bytes }
        return try await replies(to: exchange(first.name, bytes, commands.count, .request, budget))
    }

    /// Runs a script by its digest (`EVALSHA`), or sends its source (`EVAL`) when the server does not know it. Both together
    /// wait at most the budget.
    package func run(
        _ script: RedisScript, keys: [String], _ arguments: [RedisArgument] = [], _ budget: RedisBudget
    ) async throws(FleetError) -> RedisValue {
        let start = MonotonicTime.now
        let short = script.command(keys: keys, arguments, isWhole: false)
        let reply = try await reply(to: exchange(script.name, short.bytes, 1, .request, budget, start))
        guard case .failure("NOSCRIPT", _) = reply else { return try reply.checked(script.name) }
        let whole = script.command(keys: keys, arguments, isWhole: true)
        return try await self.reply(to: exchange(script.name, whole.bytes, 1, .request, budget, start))
            .checked(script.name)
    }

    /// How long ``connect(within:)`` waits before it asks a busy server again.
    private static let pause = Duration.milliseconds(50)

    /// Waits until the server replies, whatever the breaker says. A server that loads its data is asked again.
    func connect(within limit: Duration) async throws(FleetError) {
        let start = MonotonicTime.now
        while true {
            let ping = exchange("PING", RedisCommand("PING").bytes, 1, .patient, .time(limit), start)
            do throws(FleetError) {
                _ = try await reply(to: ping).checked("PING")
                return
            } catch {
                // Redis also refuses this command while it cannot save its data, and carries out all that only read.
                if error.kind == .refused(code: "MISCONF") { return }
                // A lost connection is made again.
                if error.kind == .connectionLost, ping.deadline > .now { continue }
                guard error.kind == .notReady, ping.deadline > MonotonicTime.now + Self.pause else { throw error }
                try? await Task.sleep(for: Self.pause)
            }
        }
    }

    private func exchange(
        _ name: String, _ bytes: [UInt8], _ count: Int, _ purpose: RedisExchange.Purpose, _ budget: RedisBudget,
        _ start: MonotonicTime = .now
    ) -> RedisExchange {
        let time =
            switch budget {
            case .lookUp: configuration.lookUpBudget
            case .write: configuration.writeBudget
            case .time(let time): time
            case .until(let end): Duration.nanoseconds(end.nanoseconds - start.nanoseconds)
            }
        return RedisExchange(name, bytes, count: count, purpose, budget: time, from: start)
    }

    /// The reply to a single command.
    private func reply(to exchange: RedisExchange) async throws(FleetError) -> RedisValue {
        try await replies(to: exchange).first ?? .none
    }

    private func replies(to exchange: RedisExchange) async throws(FleetError) -> [RedisValue] {
        if Task.isCancelled { throw .cancelled }
        if exchange.purpose == .request, let refusal = refusal.withLock({ $0 }) {
            refusals.add()
            throw refusal
        }
        sent.add()
        switch exchange.purpose == .request ? commands.direct.send(exchange) : .notSent {
        case .sent: break
        case .sentAndNeedsWake: _ = waker.load()?.wake()
        case .notSent: if !post({ $0.exchanges.append(exchange) }) { throw .shutDown }
        }
        do {
            return try await exchange.waiter.value()
        } catch let error as FleetError {
            throw error
        } catch {
            throw .cancelled
        }
    }

    // MARK: Messages

    /// Receives the messages of a channel, until the returned value is released or cancelled.
    ///
    /// - Parameter receive: Called on the engine's thread, in order. It must neither block nor take long.
    package func subscribe(
        _ channel: String, _ receive: @escaping @Sendable (RedisMessage) -> Void
    ) -> FleetSubscription {
        let number = nextSubscription.add(1, ordering: .relaxed).newValue
        _ = post { $0.changes.append(.add(number, channel: channel, receive)) }
        return FleetSubscription { [weak self] in
            _ = self?.post { $0.changes.append(.remove(number, channel: channel)) }
        }
    }

    /// Adds work for the engine's thread, which is woken only when there was none before.
    private func post(_ change: (inout sending Inbox) -> Void) -> Bool {
        let (isOpen, wakes) = inbox.withLock { inbox in
            guard !inbox.isClosed else { return (false, false) }
            let wasEmpty = inbox.isEmpty
            change(&inbox)
            return (true, wasEmpty)
        }
        return isOpen && (!wakes || waker.load()?.wake() ?? false)
    }

    // MARK: Status

    /// What is known of the server.
    var status: FleetStatus {
        var status = known.withLock { $0 }
        let nanoseconds = latency.load(ordering: .relaxed)
        status.latency = nanoseconds > 0 ? .nanoseconds(nanoseconds) : nil
        return status
    }

    /// ``FleetStatus/connectionCount`` without the rest.
    var connectionCount: Int { connections.load(ordering: .acquiring) }

    // MARK: The engine's thread

    package var due: MonotonicTime { min(commands.due, subscriptions.due) }

    package func start(_ connections: ByteConnections) {
        commands.start(connections, .now)
        subscriptions.start(connections)
        takeInbox(.now)
    }

    package func turn(_ now: MonotonicTime) {
        takeInbox(now)
        commands.turn(now)
        subscriptions.turn(now)
    }

    private func takeInbox(_ now: MonotonicTime) {
        let (exchanges, changes) = inbox.withLock { inbox in
            defer {
                inbox.exchanges = []
                inbox.changes = []
            }
            return (inbox.exchanges, inbox.changes)
        }
        for exchange in exchanges { commands.submit(exchange, now) }
        for change in changes { subscriptions.change(change, now) }
    }

    package func end() {
        let rest = inbox.withLock { inbox in
            inbox.isClosed = true
            defer { inbox.exchanges = [] }
            return inbox.exchanges
        }
        for exchange in rest { exchange.fail(.shutDown) }
        commands.stop()
        subscriptions.stop()
        known.withLock { $0.state = .shutDown }
        refusal.withLock { $0 = .shutDown }
    }

    /// Copies the state of the connection for commands to the status.
    func commandsHaveChanged() {
        let connection = commands.connection
        refusal.withLock { $0 = commands.refusal }
        connections.store(connection.connectionCount, ordering: .releasing)
        known.withLock { status in
            status.state = connection.isReady ? .ready : connection.isConnecting ? .connecting : .waiting
            status.breaker =
                switch commands.breaker.state {
                case .closed: .closed
                case .open: .open
                case .halfOpen: .halfOpen
                }
            status.lastError = commands.lastError?.message
            status.connectionCount = connection.connectionCount
            status.isReplica = connection.server.isReplica
            status.serverVersion = connection.server.version ?? status.serverVersion
        }
    }

    /// Adds the time that a reply took to the smoothed latency.
    func measured(_ nanoseconds: Int64) {
        let before = latency.load(ordering: .relaxed)
        // As the smoothed round-trip time of TCP (RFC 6298 §2.3).
        latency.store(max(1, before == 0 ? nanoseconds : before + (nanoseconds - before) / 8), ordering: .relaxed)
    }

    /// Reports a failure that only an operator can remove.
    func mustWarn(_ error: FleetError) {
        guard warned.insert(error.kind).inserted else { return }
        configuration.warn(error, prefix: "the fleet continues without its Redis")
    }

    /// The server accepted a log-in, so the next failure may be reported again.
    func mayWarnAgain() { warned = [] }

    /// Counts commands that were not answered in time.
    func timedOut(_ count: Int) { timeouts.add(count) }
}
