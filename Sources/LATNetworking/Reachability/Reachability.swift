import CurlTransport
import HTTPCore
import Synchronization

/// Tells whether servers can be connected to, by trying.
///
/// ```swift
/// let status = await manager.reachability.probe("daxiang")      // a domain of the table, or a URL
/// if case .reachable(let latency, let address) = status { print(address, latency) }
/// for await status in manager.reachability.updates(of: "daxiang") { show(status.isReachable) }
/// ```
///
/// A try is a connection with everything a request would need (name, proxy, TLS, pins) that is closed as soon as it
/// stands; nothing is sent over it (`CURLOPT_CONNECT_ONLY`). Answers are kept for a while
/// (``ReachabilityConfiguration/ttl``), callers that ask at once share one try, and when the network changes
/// (rtnetlink) what is followed is tried again at once.
///
/// It is for showing and for deciding when to try again. It never holds a request back: whether one would get through is
/// known when it has.
public final class Reachability: Sendable {
    private typealias Ledger = ProbeLedger<ProbeTarget, ReachabilityReport>

    private struct State {
        var ledger: Ledger
        var tries: [ProbeTarget: Task<ReachabilityReport, Never>] = [:]
        var channels: [String: Channel] = [:]
        var kindContinuations: [UInt64: AsyncStream<InterfaceKind>.Continuation] = [:]
        var kind: InterfaceKind?
        var lastIdentifier: UInt64 = 0
        var isWatching = false
        var isOver = false

        mutating func nextIdentifier() -> UInt64 {
            lastIdentifier += 1
            return lastIdentifier
        }
    }

    /// Those who follow one target.
    private struct Channel {
        var target: ProbeTarget?
        var last = ReachabilityStatus.unknown
        var continuations: [UInt64: AsyncStream<ReachabilityStatus>.Continuation] = [:]
        var monitor: Task<Void, Never>?
    }

    private enum Step {
        case known(ReachabilityReport)
        case wait(Task<ReachabilityReport, Never>)
    }

    /// How it finds out.
    public let configuration: ReachabilityConfiguration

    private let engines: LazyEngine
    private let source: ProbeSource
    private let table: @Sendable () -> DomainTable?
    private let deliver: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let state: Mutex<State>

    init(
        _ configuration: ReachabilityConfiguration, engines: LazyEngine, table: @escaping @Sendable () -> DomainTable?,
        deliver: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        self.configuration = configuration
        self.engines = engines
        self.table = table
        self.deliver = deliver
        source = ProbeSource(configuration, engines: engines)
        let ledger = Ledger(ttl: configuration.ttl, failureTTL: configuration.failureTTL)
        state = Mutex(State(ledger: ledger))
    }

    deinit { end() }

    // MARK: Asking

    /// Whether a server can be connected to now, or could within the last ``ReachabilityConfiguration/ttl``.
    ///
    /// - Parameter target: the name of a domain of the table, or an absolute URL. Of a domain the mirrors are tried too.
    public func probe(_ target: String) async -> ReachabilityStatus { await report(of: target).status }

    /// What ``probe(_:)`` finds, with all that is known of it.
    ///
    /// - Parameter isFresh: whether a connection is tried even when the last answer still holds. Default `false`.
    public func report(of target: String, isFresh: Bool = false) async -> ReachabilityReport {
        var report: ReachabilityReport
        switch begin(target, isFresh: isFresh) {
        case .known(let known): report = known
        case .wait(let task): report = await task.value
        }
        report.target = target
        return report
    }

    /// What is known of a server, without trying: ``ReachabilityStatus/unknown`` when nobody has yet.
    public func currentStatus(of target: String) -> ReachabilityStatus {
        guard let key = try? ProbeTarget(target, in: table(), configuration) else {
            return .unreachable(reason: .unknownName)
        }
        return state.withLock { $0.ledger.answer(of: key)?.status ?? .unknown }
    }

    /// Whether a server could be connected to when that was last tried; `false` when nobody has.
    public func isReachable(_ target: String) -> Bool { currentStatus(of: target).isReachable }

    // MARK: The machine

    /// How this machine is connected: the kind of the interface that has the default route.
    public var currentStatus: InterfaceKind { NetworkInterface.currentKind }

    /// Whether this machine is connected to more than itself. It says nothing of any server.
    public var isReachable: Bool { ![.none, .loopback].contains(currentStatus) }

    /// How this machine is connected, now and whenever it changes. Ends with the manager.
    public var interfaceUpdates: AsyncStream<InterfaceKind> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            watchNetwork()
            let kind = currentStatus
            let identifier = state.withLock { state -> UInt64? in
                guard !state.isOver else { return nil }
                let identifier = state.nextIdentifier()
                state.kindContinuations[identifier] = continuation
                state.kind = kind
                continuation.yield(kind)
                return identifier
            }
            guard let identifier else { return continuation.finish() }
            continuation.onTermination = { [weak self] _ in
                self?.state.withLock { _ = $0.kindContinuations.removeValue(forKey: identifier) }
            }
        }
    }

    // MARK: Following

    /// The status of a server: the current one at once, then each that differs in more than its latency. While somebody
    /// follows it, a server is tried again when its answer ends and whenever the network changes. Who reads slowly gets
    /// the newest. Ends with the manager.
    ///
    /// - Parameter target: the name of a domain of the table, or an absolute URL.
    public func updates(of target: String) -> AsyncStream<ReachabilityStatus> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let current = currentStatus(of: target)
            let key = try? ProbeTarget(target, in: table(), configuration)
            let identifier = state.withLock { state -> UInt64? in
                guard !state.isOver else { return nil }
                let identifier = state.nextIdentifier()
                var channel = state.channels[target] ?? Channel(target: key, last: current)
                channel.continuations[identifier] = continuation
                continuation.yield(channel.last)
                if channel.monitor == nil {
                    channel.monitor = Self.monitor(target, of: self)
                }
                state.channels[target] = channel
                return identifier
            }
            guard let identifier else { return continuation.finish() }
            continuation.onTermination = { [weak self] _ in self?.unfollow(target, identifier) }
        }
    }

    /// Calls back with the status of a server: with the current one, then as ``updates(of:)`` tells. The closure runs
    /// where the manager's callbacks do, until the observation is cancelled or the manager is gone.
    @discardableResult
    public func observe(
        _ target: String, _ handler: @escaping @Sendable (_ status: ReachabilityStatus) -> Void
    ) -> ReachabilityObservation {
        let observation = ReachabilityObservation()
        let updates = updates(of: target)
        observation.start(
            Task { [deliver, weak observation] in
                for await status in updates {
                    deliver { [observation] in if observation?.isCancelled != true { handler(status) } }
                }
            })
        return observation
    }

    /// Waits until a server can be connected to.
    ///
    /// - Returns: `false` when that was not so within the time, or the current task was cancelled.
    public func waitUntilReachable(_ target: String, within limit: Duration) async -> Bool {
        let end = ContinuousClock.now + limit
        if await report(of: target, isFresh: true).status.isReachable { return true }
        return await withTaskGroup(of: Bool.self) { group in
            let updates = updates(of: target)
            group.addTask {
                for await status in updates where status.isReachable { return true }
                return false
            }
            group.addTask {
                try? await Task.sleep(until: end, clock: .continuous)
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    /// Ends everything that is followed and every try, with the manager.
    func shutdown() async {
        end()
        await engines.shutdown()
    }
}

// MARK: - Inside

extension Reachability {
    private func end() {
        let (tries, channels, kinds) = state.withLock { state in
            defer {
                state.tries = [:]
                state.channels = [:]
                state.kindContinuations = [:]
                state.isOver = true
            }
            return (state.tries, state.channels, state.kindContinuations)
        }
        for task in tries.values { task.cancel() }
        for channel in channels.values {
            channel.monitor?.cancel()
            for continuation in channel.continuations.values { continuation.finish() }
        }
        for continuation in kinds.values { continuation.finish() }
    }

    /// Takes an answer that holds, joins a try, or begins one.
    private func begin(_ text: String, isFresh: Bool = false) -> Step {
        let target: ProbeTarget
        do throws(NetworkError) {
            target = try ProbeTarget(text, in: table(), configuration)
        } catch {
            var report = ReachabilityReport(target: text)
            report.status = .unreachable(reason: .unknownName)
            report.error = error
            publish(report.status, to: text)
            return .known(report)
        }
        watchNetwork()
        return state.withLock { state in
            state.channels[text]?.target = target
            switch state.ledger.ask(target, isFresh: isFresh, at: .now) {
            case .take(let report):
                Self.publish(report.status, of: target, &state)
                return .known(report)
            case .join:
                if let task = state.tries[target] { return .wait(task) }
                return .wait(startTry(target, &state))
            case .start:
                return .wait(startTry(target, &state))
            }
        }
    }

    private func startTry(_ target: ProbeTarget, _ state: inout State) -> Task<ReachabilityReport, Never> {
        // Only weakly: who lets go of the manager must not wait for a server that does not answer.
        let task = Task { [source, weak self] in
            while true {
                let report = await source.attempt(target)
                guard let self, self.finish(target, report) == .repeated else { return report }
            }
        }
        state.tries[target] = task
        return task
    }

    private func finish(_ target: ProbeTarget, _ report: ReachabilityReport) -> Ledger.Outcome {
        state.withLock { state in
            guard !state.isOver else { return .deliver }
            let outcome = state.ledger.finish(
                target, report, isReachable: report.status.isReachable, at: .now)
            guard case .deliver = outcome else { return outcome }
            state.tries[target] = nil
            Self.publish(report.status, of: target, &state)
            return outcome
        }
    }

    /// Under the lock, so that everybody hears the same in the same order; a continuation only stores the value.
    private static func publish(_ status: ReachabilityStatus, of target: ProbeTarget, _ state: inout State) {
        for (name, channel) in state.channels where channel.target == target && status.isNews(after: channel.last) {
            state.channels[name]?.last = status
            for continuation in channel.continuations.values { continuation.yield(status) }
        }
    }

    private func publish(_ status: ReachabilityStatus, to name: String) {
        state.withLock { state in
            guard let channel = state.channels[name], status.isNews(after: channel.last) else { return }
            state.channels[name]?.last = status
            for continuation in channel.continuations.values { continuation.yield(status) }
        }
    }

    /// Tries again and again while somebody follows; holds on to nothing in between.
    private static func monitor(_ name: String, of reachability: Reachability) -> Task<Void, Never> {
        Task { [weak reachability] in
            while !Task.isCancelled {
                guard let step = reachability?.begin(name) else { return }
                if case .wait(let task) = step { _ = await task.value }
                guard let due = reachability?.nextTry(of: name) else { return }
                try? await Task.sleep(until: max(due, .now + .milliseconds(10)), clock: .continuous)
            }
        }
    }

    private func nextTry(of name: String) -> ContinuousClock.Instant {
        state.withLock { state in
            guard let target = state.channels[name]?.target else { return .now + configuration.ttl }
            return state.ledger.nextTry(of: target, at: .now)
        }
    }

    private func unfollow(_ name: String, _ identifier: UInt64) {
        state.withLock { state in
            guard var channel = state.channels[name] else { return }
            channel.continuations[identifier] = nil
            if channel.continuations.isEmpty { channel.monitor?.cancel() }
            state.channels[name] = channel.continuations.isEmpty ? nil : channel
        }
    }

    /// From the first question on.
    private func watchNetwork() {
        let isFirst = state.withLock { state in
            defer { state.isWatching = true }
            return !state.isWatching
        }
        guard isFirst, let engine = try? engines.engine() else { return }
        engine.observeNetwork { [weak self] in self?.networkChanged() }
    }

    /// On the engine's thread: says what has to be done, and has it done elsewhere.
    private func networkChanged() {
        let names = state.withLock { state in
            state.ledger.networkChanged()
            return Array(state.channels.keys)
        }
        Task { [weak self] in
            self?.publishKind()
            for name in names { _ = self?.begin(name) }
        }
    }

    private func publishKind() {
        let kind = currentStatus
        state.withLock { state in
            guard kind != state.kind else { return }
            state.kind = kind
            for continuation in state.kindContinuations.values { continuation.yield(kind) }
        }
    }
}

/// Somebody who is told of a server's status. Goes on until it is cancelled, or the manager is gone.
public final class ReachabilityObservation: Sendable {
    private struct State {
        var task: Task<Void, Never>?
        var isCancelled = false
    }

    private let state = Mutex(State())

    init() {}

    func start(_ task: Task<Void, Never>) { state.withLock { $0.task = task } }

    /// Whether ``cancel()`` was called.
    public var isCancelled: Bool { state.withLock(\.isCancelled) }

    /// Ends it: the closure is not called again, but for a call that is under way.
    public func cancel() {
        let task = state.withLock { state in
            state.isCancelled = true
            defer { state.task = nil }
            return state.task
        }
        task?.cancel()
    }
}
