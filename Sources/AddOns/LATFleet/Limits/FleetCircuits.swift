internal import FoundationEssentials
internal import LATNetworking
internal import Platform
internal import Synchronization

/// The circuits of a fleet: a circuit that one process opens is open in all of them, and one process probes the host.
///
/// A hash holds the open circuits, each with the time of Redis (µs) at which its pause ends, the pause (µs), and the process
/// that opened it. A message announces each change. A process that may have missed messages reads the hash.
///
/// A pause that ends later than it can last was written before the clock of Redis was set back, or by somebody else. It
/// counts as over.
final class FleetCircuits: Sendable {
    private struct State {
        var receive: (@Sendable (String, CircuitReport) -> Void)?
        var subscription: FleetSubscription?
        /// How often reading the open circuits has begun.
        var readings = 0
        /// The circuits of the messages that came since the last reading began; `nil` when it has ended.
        var named: Set<String>?
    }

    /// A change that this process announces.
    private struct Change {
        let script: RedisScript
        let argument: RedisArgument
        /// When it is given up.
        let end: ContinuousClock.Instant
    }

    /// The changes that Redis has not taken yet. A later change of a circuit is not sent before an earlier one.
    private final class Outbox: Sendable {
        /// The changes of each circuit, in order. The first one is being sent.
        private let changes = Mutex<[String: [Change]]>([:])

        /// Returns whether the caller must send it: no earlier one is being sent.
        func add(_ change: Change, of circuit: String) -> Bool {
            changes.withLock { changes in
                changes[circuit, default: []].append(change)
                return changes[circuit]?.count == 1
            }
        }

        /// Removes a circuit's first change, and returns the one to send next.
        func next(of circuit: String) -> Change? {
            changes.withLock { changes in
                changes[circuit]?.removeFirst()
                if changes[circuit]?.isEmpty == true { changes[circuit] = nil }
                return changes[circuit]?.first
            }
        }
    }

    private let fleet: Fleet
    private let identity: String
    private let key: String
    private let channel: String
    private let state = Mutex(State())
    private let outbox = Outbox()
    private let openedHere: FleetCounter
    private let heard: FleetCounter
    private let probes: FleetCounter

    /// How long a process waits before it checks again whether another one still probes.
    static let probePause = Duration.seconds(1)
    /// How long the other processes wait for the end of a probe.
    static let probeLease = Duration.seconds(30)
    /// The shortest pause before a change of a circuit is sent again.
    private static let shortestPause = Duration.milliseconds(50)

    init(_ fleet: Fleet, name: String, identity: String) {
        self.fleet = fleet
        self.identity = identity
        key = fleet.key("circuit", name)
        channel = fleet.channel("circuit:\(name)")
        openedHere = fleet.counters.counter("circuits.opened")
        heard = fleet.counters.counter("circuits.heard")
        probes = fleet.counters.counter("circuits.probes")
    }

    func observe(_ receive: @escaping @Sendable (String, CircuitReport) -> Void) {
        // Set before the subscription, because messages may arrive at once.
        state.withLock { $0.receive = receive }
        let subscription = fleet.redis.subscribe(channel) { [weak self] message in
            switch message {
            case .subscribed: self?.beginReading()
            case .interrupted: break
            case .message(let value): self?.take(value)
            }
        }
        state.withLock { $0.subscription = subscription }
    }

    /// The longest time for which a circuit is opened in the other processes.
    static let longestPause = Duration.seconds(365 * 86_400)

    func opened(_ circuit: String, for pause: Duration) {
        openedHere.add()
        publish(Self.openScript, circuit, .integer(max(1, min(pause, Self.longestPause).microseconds)))
    }

    func probeEnded(_ circuit: String, isClosed: Bool) {
        publish(Self.endScript, circuit, isClosed ? "closed" : "undecided")
    }

    func pauseBeforeProbe(_ circuit: String) async -> Duration? {
        let arguments: [RedisArgument] = [
            .text(circuit), .text(identity), .integer(Self.probeLease.microseconds / 1000),
        ]
        let value = try? await fleet.redis.run(Self.probeScript, keys: [key, probeKey(circuit)], arguments, .lookUp)
        // Without a reply, this process decides alone.
        guard let pause = value?.integer else { return nil }
        if pause == 0 { probes.add() }
        // Another process has closed the circuit, and its message may come later than this reply.
        if pause == -2 { report(circuit, .closed) }
        return pause == 0 ? nil : Self.believed(pause) ?? Self.probePause
    }

    /// A pause in µs that came from another process; `nil` for one that no process sends. None is longer than
    /// ``longestPause``.
    static func believed(_ microseconds: Int64?) -> Duration? {
        microseconds.flatMap { $0 > 0 ? min(.microseconds($0), longestPause) : nil }
    }

    private func probeKey(_ circuit: String) -> String { "\(key):probe:\(circuit)" }

    /// Sends a change to Redis, which announces it. No call waits for the reply, so a failed attempt is repeated, for
    /// at most ``probeLease``.
    private func publish(_ script: RedisScript, _ circuit: String, _ argument: RedisArgument) {
        let first = Change(script: script, argument: argument, end: .now + Self.probeLease)
        guard outbox.add(first, of: circuit) else { return }
        Task { [weak fleet, outbox, key, channel, identity, probeKey = probeKey(circuit)] in
            var next: Change? = first
            while let change = next {
                var backoff = Backoff(first: Self.shortestPause, longest: .seconds(2))
                var attempt = 1
                while let redis = fleet?.redis {
                    let arguments: [RedisArgument] = [
                        .text(circuit), .text(identity), .text(channel), change.argument, .integer(Int64(attempt)),
                    ]
                    let answer = try? await redis.run(change.script, keys: [key, probeKey], arguments, .write)
                    guard answer == nil, ContinuousClock.now < change.end else { break }
                    attempt += 1
                    try? await Task.sleep(for: Self.shortestPause + backoff.next(chance: .random(in: 0...1)))
                }
                next = outbox.next(of: circuit)
            }
        }
    }

    // MARK: Messages

    /// Takes a message: its sender, what happened, the pause in µs, the circuit.
    private func take(_ value: RedisValue) {
        guard let parts = value.text?.split(separator: " ", maxSplits: 3), parts.count == 4, parts[0] != identity else {
            return
        }
        let circuit = String(parts[3])
        state.withLock { _ = $0.named?.insert(circuit) }
        switch parts[1] {
        case "opened": if let pause = Self.believed(Int64(parts[2])) { report(circuit, .opened(pause)) }
        case "closed": report(circuit, .closed)
        default: break
        }
    }

    private func beginReading() {
        let reading = state.withLock { state in
            state.readings += 1
            state.named = []
            return state.readings
        }
        // The connection for commands is often made later than that for messages.
        Task { [weak self] in
            var backoff = Backoff(first: Self.shortestPause, longest: .seconds(2))
            while await self?.readOpen(reading) == false {
                try? await Task.sleep(for: Self.shortestPause + backoff.next(chance: .random(in: 0...1)))
            }
        }
    }

    /// Returns `false` when Redis must be asked again.
    private func readOpen(_ reading: Int) async -> Bool {
        var open: [RedisValue] = []
        do throws(FleetError) {
            open = try await fleet.redis.run(Self.readScript, keys: [key], [], .write).array ?? []
        } catch {
            if error.isOfServer, state.withLock({ $0.readings == reading }) { return false }
        }
        // Reports with the lock held, so that no message comes in between.
        state.withLock { state in
            guard state.readings == reading else { return }
            for index in stride(from: 0, to: open.count - 1, by: 2) {
                // A message may be newer than what was read.
                guard let circuit = open[index].text, let pause = Self.believed(open[index + 1].integer),
                    state.named?.contains(circuit) != true
                else { continue }
                state.receive?(circuit, .opened(pause))
                heard.add()
            }
            state.named = nil
        }
        return true
    }

    private func report(_ circuit: String, _ change: CircuitReport) {
        state.withLock(\.receive)?(circuit, change)
        heard.add()
    }

    // MARK: Scripts

    /// Reads the end of a circuit's pause, and the process that opened it; nothing for a pause that counts as over.
    private static let common = """
        local clock = redis.call('TIME')
        local now = clock[1] * 1000000 + clock[2]
        local function opening(text)
            local till, pause, owner = string.match(text or '', '^(%d+) (%d+) (.*)$')
            till, pause = tonumber(till), tonumber(pause)
            if till and till > now and till <= now + pause + 1000000 then return till, owner end
        end

        """

    /// An attempt after the first changes nothing if an earlier one arrived, or if another process has closed the circuit
    /// since.
    private static let openScript = RedisScript(
        "the opening of a circuit",
        common + """
            local pause = tonumber(ARGV[4])
            local known, owner = opening(redis.call('HGET', KEYS[1], ARGV[1]))
            local holder = redis.call('GET', KEYS[2])
            if tonumber(ARGV[5]) > 1 then
                if holder == 'closed' or owner == ARGV[2] then return 0 end
            end
            if not known or known < now + pause then
                redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f ', now + pause, pause) .. ARGV[2])
            end
            local life = math.max(redis.call('PTTL', KEYS[1]), math.ceil(pause / 1000) + 60000)
            redis.call('PEXPIRE', KEYS[1], math.min(life, 31536060000))
            if holder == ARGV[2] or holder == 'closed' then redis.call('DEL', KEYS[2]) end
            redis.call('PUBLISH', ARGV[3], ARGV[2] .. ' opened ' .. ARGV[4] .. ' ' .. ARGV[1])
            return 1
            """)

    /// An attempt after the first changes nothing unless this process still holds the probe.
    private static let endScript = RedisScript(
        "the end of a probe",
        """
        local holds = redis.call('GET', KEYS[2]) == ARGV[2]
        if tonumber(ARGV[5]) > 1 and not holds then return 0 end
        if holds then redis.call('DEL', KEYS[2]) end
        if ARGV[4] == 'closed' then
            redis.call('HDEL', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], 'closed', 'PX', 10000)
            redis.call('PUBLISH', ARGV[3], ARGV[2] .. ' closed 0 ' .. ARGV[1])
        end
        return 1
        """)

    /// 0: this process probes; above 0: the µs for which the circuit stays open; -1: another process probes; -2: the probe of
    /// another process has closed it.
    private static let probeScript = RedisScript(
        "a probe",
        common + """
            -- The key of a probe lives no longer than a lease, whatever the clock was.
            if redis.call('PTTL', KEYS[2]) > tonumber(ARGV[3]) + 1000 or redis.call('PTTL', KEYS[2]) == -1 then
                redis.call('DEL', KEYS[2])
            end
            if redis.call('GET', KEYS[2]) == 'closed' then return -2 end
            local till, owner = opening(redis.call('HGET', KEYS[1], ARGV[1]))
            -- The process that opened it decides when its pause is over.
            if till and owner ~= ARGV[2] then return till - now end
            if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return 0 end
            return -1
            """)

    /// The open circuits, each with the time that is left in µs.
    private static let readScript = RedisScript(
        "the open circuits",
        common + """
            local all, open = redis.call('HGETALL', KEYS[1]), {}
            for i = 1, #all, 2 do
                local till = opening(all[i + 1])
                if till then
                    open[#open + 1] = all[i]
                    open[#open + 1] = till - now
                else
                    redis.call('HDEL', KEYS[1], all[i])
                end
            end
            return open
            """)
}
