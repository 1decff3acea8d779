internal import CurlTransport
internal import Platform

/// The connection for commands: many exchanges on one connection, answered in order, each with its deadline. Belongs to the
/// engine's thread.
final class RedisCommands: RedisConnectionUser {
    let connection: RedisConnection
    /// Sends for the callers while the connection is idle.
    let direct = DirectSender()
    private let configuration: FleetConfiguration
    weak var owner: RedisClient?
    private(set) var breaker: Breaker
    /// Exchanges that are not sent yet.
    private var waiting = ExchangeQueue()
    /// Exchanges that are sent and not answered yet.
    private var inFlight = ExchangeQueue()
    /// No exchange expires before this time.
    private var nextDeadline = MonotonicTime.distantFuture
    private(set) var lastError: FleetError?
    private var nextRoleCheck = MonotonicTime(nanoseconds: 0)

    /// While this many bytes are unsent, no further exchange is sent. Exchanges that expire meanwhile are never sent.
    private static let unsentLimit = 256 << 10
    /// The shortest time between two checks whether a replica has become a primary, in milliseconds.
    private static let roleCheckInterval: Int64 = 30_000

    init(_ configuration: FleetConfiguration, _ connection: RedisConnection) {
        self.configuration = configuration
        self.connection = connection
        breaker = Breaker(threshold: configuration.breakerThreshold, pause: configuration.breakerPause)
        connection.user = self
    }

    /// Why nothing is sent; `nil` when commands are sent, or wait for a connection that is being made.
    var refusal: FleetError? {
        let why = lastError.map { ": \($0)" } ?? ""
        guard breaker.isClosed else {
            return FleetError(.unavailable, "\(configuration) failed too often and is not asked for now\(why)")
        }
        guard connection.isReady || connection.isConnecting || mayReconnectAtOnce else {
            return FleetError(.unavailable, "\(configuration) is not connected\(why)")
        }
        return nil
    }

    /// Whether a working connection was just lost, so that the next attempt is made at once.
    private var mayReconnectAtOnce = false

    var due: MonotonicTime { min(connection.due, nextDeadline, breaker.due) }

    func start(_ connections: ByteConnections, _ now: MonotonicTime) { connection.start(connections, now) }

    func submit(_ exchange: RedisExchange, _ now: MonotonicTime) {
        if exchange.purpose == .request, let refusal {
            exchange.fail(refusal)
            return
        }
        guard !exchange.isOver else { return }
        nextDeadline = min(nextDeadline, exchange.deadline)
        waiting.append(exchange)
    }

    func turn(_ now: MonotonicTime) {
        takeBack(now)
        connection.turn(now)
        if breaker.probes(now) { probe(now) }
        if nextDeadline <= now { expire(now) }
        pump(now)
        offerIfIdle()
    }

    func stop() {
        takeSent()
        connection.stop()
        for exchange in waiting.removeAll() + inFlight.removeAll() { exchange.fail(.shutDown) }
    }

    // MARK: Sending

    /// Takes over what a caller has sent. From then on only this thread sends, until the connection is idle.
    private func takeBack(_ now: MonotonicTime) {
        takeSent()
        connection.outlet?.waitForSending()
        if let first = inFlight.first, first.hasUnsentBytes { connection.send(first.send(now)) }
    }

    /// Takes over what a caller has sent, or is still sending.
    private func takeSent() {
        guard let exchange = direct.takeBack() else { return }
        nextDeadline = min(nextDeadline, exchange.deadline)
        inFlight.append(exchange)
    }

    private func offerIfIdle() {
        guard inFlight.isEmpty, waiting.isEmpty, connection.isReady, let outlet = connection.outlet else { return }
        direct.offer(outlet)
    }

    private func pump(_ now: MonotonicTime) {
        guard connection.isReady, !waiting.isEmpty else { return }
        takeBack(now)
        while connection.unsentByteCount < Self.unsentLimit, let exchange = waiting.first {
            waiting.removeFirst()
            if exchange.isOver { continue }
            inFlight.append(exchange)
            connection.send(exchange.send(now))
        }
    }

    /// Ends the expired exchanges. Their replies are dropped when they come.
    private func expire(_ now: MonotonicTime) {
        nextDeadline = .distantFuture
        var count = 0
        for exchange in waiting.all + inFlight.all where !exchange.isOver {
            guard exchange.deadline <= now else {
                nextDeadline = min(nextDeadline, exchange.deadline)
                continue
            }
            let error = FleetError(
                .timeout, "\(configuration): no answer to \(exchange.name) within \(exchange.budget)")
            // Without a connection, the last failure says more than a timeout.
            let answer = connection.isReady ? error : lastError ?? error
            // The breaker counts the failure first, so that it is up to date when the caller gets the error.
            note(answer, now)
            if exchange.fail(answer) { count += 1 }
        }
        if count > 0 { refusePending() }
        while let first = waiting.first, first.isOver { waiting.removeFirst() }
        nextDeadline = direct.setAlarm(nextDeadline)
        if count > 0 { owner?.timedOut(count) }
    }

    private func probe(_ now: MonotonicTime) {
        owner?.commandsHaveChanged()
        // Without a connection, the attempts to connect are the probes.
        guard connection.isReady else { return failed(lastError ?? .shutDown, now) }
        ask(.probe, configuration.lookUpBudget, now)
    }

    /// Sends a `PING` before all waiting exchanges.
    private func ask(_ purpose: RedisExchange.Purpose, _ budget: Duration, _ now: MonotonicTime) {
        takeBack(now)
        let ping = RedisExchange("PING", RedisCommand("PING").bytes, count: 1, purpose, budget: budget, from: now)
        nextDeadline = min(nextDeadline, ping.deadline)
        inFlight.append(ping)
        connection.send(ping.send(now))
    }

    // MARK: The breaker

    private func failed(_ error: FleetError, _ now: MonotonicTime) {
        note(error, now)
        refusePending()
    }

    private func note(_ error: FleetError, _ now: MonotonicTime) {
        let before = breaker.state
        breaker.failed(now)
        lastError = error
        if breaker.state != before { owner?.commandsHaveChanged() }
    }

    /// Ends all pending requests once the breaker is open: most likely they would only time out.
    private func refusePending() {
        guard !breaker.isClosed, let refusal else { return }
        for exchange in waiting.all + inFlight.all where exchange.purpose == .request { exchange.fail(refusal) }
    }

    private func succeeded() {
        let wasClosed = breaker.isClosed
        breaker.succeeded()
        guard !wasClosed || lastError != nil else { return }
        lastError = nil
        owner?.commandsHaveChanged()
    }

    // MARK: The connection's events

    func connectionIsReady(_ now: MonotonicTime) {
        mayReconnectAtOnce = false
        breaker.reconnected(now)
        if breaker.isClosed { lastError = nil }
        owner?.mayWarnAgain()
        owner?.commandsHaveChanged()
        if breaker.probes(now) { probe(now) }
        pump(now)
        offerIfIdle()
    }

    func connectionReceived(_ value: RedisValue, _ now: MonotonicTime) {
        if inFlight.isEmpty { takeSent() }
        guard let exchange = inFlight.first else {
            let error = FleetError(.protocolViolation, "\(configuration) sent an unexpected reply")
            return connection.fail(error, now)
        }
        let isComplete = exchange.take(value)
        if case .failure(let code, let text) = value {
            refused(FleetError(code: code, text: text, command: exchange.name), exchange, now)
            // `refused` may have closed the connection.
            guard inFlight.first === exchange else { return }
        } else if isComplete, !exchange.isOver, exchange.purpose != .heartbeat {
            // The reply to a heartbeat may be slow, so the breaker does not count it.
            succeeded()
        }
        guard isComplete else { return }
        inFlight.removeFirst()
        // The connection is offered before the caller continues, so that the caller's next command finds it idle.
        offerIfIdle()
        owner?.measured(now.nanoseconds - exchange.sentAt.nanoseconds)
        exchange.finish()
    }

    private func refused(_ error: FleetError, _ exchange: RedisExchange, _ now: MonotonicTime) {
        if error.concernsServer {
            if !exchange.isOver { failed(error, now) }
        } else if !exchange.isOver {
            succeeded()
        }
        if error.isForOperators { owner?.mustWarn(error) }
        if error.kind == .readOnly, !connection.server.isReplica || nextRoleCheck <= now {
            // Another server may have become the primary, under the same name.
            nextRoleCheck = now + Self.roleCheckInterval
            exchange.fail(error)
            connection.fail(error, now)
        }
    }

    func connectionHasRoom(_ now: MonotonicTime) { pump(now) }

    func connectionIsSilent(_ now: MonotonicTime) {
        ask(.heartbeat, configuration.longestSilence, now)
    }

    func connectionIsDown(_ error: FleetError, pause: Int64, _ now: MonotonicTime) {
        mayReconnectAtOnce = pause == 0
        takeSent()
        let lost = inFlight.removeAll()
        if error.kind == .readOnly { lastError = error } else { failed(error, now) }
        let answer = FleetError(error.kind == .shutDown ? .shutDown : .connectionLost, "\(error)")
        for exchange in lost { exchange.fail(answer) }
        if pause > 0 {
            // Only a patient exchange keeps waiting, and only if the next attempt may succeed.
            for exchange in waiting.removeAll() {
                if exchange.purpose == .patient, !error.isLasting {
                    waiting.append(exchange)
                } else {
                    exchange.fail(exchange.purpose == .patient ? error : refusal ?? error)
                }
            }
        }
        if error.isForOperators { owner?.mustWarn(error) }
        owner?.commandsHaveChanged()
    }
}
