import CurlTransport
import HTTPCore
import Platform
import Synchronization

/// Finds out whether servers can be connected to, by probing them.
///
/// ```swift
/// let status = await manager.reachability.probe("daxiang")      // a domain of the table, or a URL
/// if case .reachable(let latency, let address) = status { print(address, latency) }
/// for await status in manager.reachability.updates(of: "daxiang") { show(status.isReachable) }
/// ```
///
/// A probe makes a connection with everything that a request would need (name, proxy, TLS, pins), sends nothing over it
/// (`CURLOPT_CONNECT_ONLY`), and closes it. Results are valid for a while (``Reachability/Configuration/ttl``), and
/// concurrent callers share one probe. When the network changes (rtnetlink), observed targets are probed again at once.
///
/// Use it for display, and to decide when to try again. A request is sent whatever the last status is, because only the
/// request itself shows whether it succeeds.
public final class Reachability: Sendable {
    private typealias Ledger = ProbeLedger<ProbeTarget, Report>

    private struct State {
        var ledger: Ledger
        var tries: [ProbeTarget: Task<Report, Never>] = [:]
        var channels: [String: Channel] = [:]
        /// The statuses to deliver after the lock is released.
        var staged: [LatestValue<Status>] = []
        var isWatching = false
        var isOver = false
    }

    /// The readers of one target's status.
    private struct Channel {
        var target: ProbeTarget?
        let status: LatestValue<Status>
        let monitor: Task<Void, Never>
    }

    private enum Step {
        case known(Report)
        case wait(Task<Report, Never>)
    }

    /// The settings for probes.
    public let configuration: Configuration

    private let engines: LazyEngine
    private let source: ProbeSource
    private let table: @Sendable () -> DomainTable?
    private let deliver: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let state: Mutex<State>
    private let kind = LatestValue(InterfaceKind.none)
    private let kindLock = Mutex<Void>(())

    init(
        _ configuration: Configuration, engines: LazyEngine, table: @escaping @Sendable () -> DomainTable?,
        deliver: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        self.configuration = configuration
        self.engines = engines
        self.table = table
        self.deliver = deliver
        source = ProbeSource(configuration: configuration, engines: engines)
        let ledger = Ledger(ttl: configuration.ttl, failureTTL: configuration.failureTTL)
        state = Mutex(State(ledger: ledger))
    }

    deinit { end() }

    // MARK: Probes

    /// Whether a server can be connected to. Returns the last result while it is valid, and otherwise probes the server.
    ///
    /// - Parameter target: The name of a domain of the table, whose mirrors are probed too, or an absolute URL.
    public func probe(_ target: some URLConvertible) async -> Status { await report(of: target.urlText).status }

    /// Returns the result of ``probe(_:)`` with its details.
    ///
    /// - Parameters:
    ///   - target: The name of a domain of the table, or an absolute URL.
    ///   - isFresh: Whether to probe even while the last result is valid. Default `false`.
    public func report(of target: some URLConvertible, isFresh: Bool = false) async -> Report {
        let target = target.urlText
        var report: Report
        switch begin(target, isFresh: isFresh) {
        case .known(let known): report = known
        case .wait(let task): report = await task.value
        }
        report.target = target
        return report
    }

    /// The last known status of a server, without a probe; ``Reachability/Status/unknown`` if there was none.
    public func currentStatus(of target: some URLConvertible) -> Status {
        let target = target.urlText
        guard let key = try? ProbeTarget(target, in: table(), configuration) else {
            return .unreachable(reason: .unknownName)
        }
        return state.withLock { $0.ledger.answer(of: key)?.status ?? .unknown }
    }

    /// The results of the last probes, by the origin of the preferred address.
    var known: [String: Bool] {
        let answers = state.withLock { $0.ledger.answers }
        return Dictionary(
            answers.map { target, report in
                (target.urls.first.flatMap { URLReference.origin(of: $0) } ?? "", report.status.isReachable)
            }, uniquingKeysWith: { $0 && $1 })
    }

    /// Whether a server was reachable in its last probe; `false` if there was none.
    public func isReachable(_ target: some URLConvertible) -> Bool { currentStatus(of: target).isReachable }

    // MARK: The machine

    /// The kind of this machine's network connection: that of the preferred running interface.
    public var currentStatus: InterfaceKind { InterfaceReader().currentKind }

    /// Whether this machine has a network connection. It says nothing about any server.
    public var isReachable: Bool { ![.none, .loopback].contains(currentStatus) }

    /// The kind of this machine's network connection, now and after every change. The stream ends with the manager.
    public var interfaceUpdates: AsyncStream<InterfaceKind> {
        watchNetwork()
        publishKind()
        return kind.values()
    }

    // MARK: Observation

    /// The status of a server: the current one, then each that differs in more than its latency. While the stream has
    /// readers, the server is probed again when its result expires and when the network changes. A slow reader gets the
    /// newest status. The stream ends with the manager.
    ///
    /// - Parameter target: The name of a domain of the table, or an absolute URL.
    public func updates(of target: some URLConvertible) -> AsyncStream<Status> {
        let target = target.urlText
        let current = currentStatus(of: target)
        let key = try? ProbeTarget(target, in: table(), configuration)
        return state.withLock { state in
            guard !state.isOver else { return AsyncStream { $0.finish() } }
            if let channel = state.channels[target] { return channel.status.values() }
            let channel = Channel(
                target: key, status: LatestValue(current) { [weak self] in self?.unfollow(target) },
                monitor: Self.monitor(target, of: self))
            state.channels[target] = channel
            return channel.status.values()
        }
    }

    /// Calls a closure with the status of a server: the current one, then those of ``updates(of:)``. The closure runs
    /// where the manager's callbacks do, until the observation is cancelled or the manager is released.
    @discardableResult
    public func observe(
        _ target: some URLConvertible, _ handler: @escaping @Sendable (_ status: Status) -> Void
    ) -> Observation {
        let observation = Observation()
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
    /// - Returns: `false` if the limit passes first, or the current task is cancelled.
    public func waitUntilReachable(_ target: some URLConvertible, within limit: Duration) async -> Bool {
        await wait(for: target.urlText, within: limit) { $0.isReachable }
    }

    /// Waits until a server accepts connections. A failed TLS handshake counts as well: a request may have other TLS
    /// settings than the probe of its domain.
    package func waitUntilConnectable(_ target: String, within limit: Duration) async -> Bool {
        await wait(for: target, within: limit) { $0.isReachable || $0 == .unreachable(reason: .tls) }
    }

    private func wait(
        for target: String, within limit: Duration, until isReached: @escaping @Sendable (Reachability.Status) -> Bool
    ) async -> Bool {
        let end = ContinuousClock.now + min(limit, CallClock.longestSleep)
        return await withTaskGroup(of: Bool.self) { group in
            group.addTask { [self] in
                guard let status = await freshStatus(of: target) else { return false }
                if isReached(status) { return true }
                for await status in updates(of: target) where isReached(status) { return true }
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

    /// Probes a server. `nil` if the current task is cancelled first; the probe then goes on for others.
    private func freshStatus(of target: String) async -> Status? {
        switch begin(target, isFresh: true) {
        case .known(let report): return report.status
        case .wait(let task):
            let waiter = Waiter<Status>()
            Task { waiter.end(.success(await task.value.status)) }
            return try? await waiter.value()
        }
    }

    /// Ends all observations and probes when the manager shuts down.
    func shutdown() async {
        end()
        await engines.shutdown()
    }

    // MARK: Internal

    private func end() {
        let (tries, channels) = state.withLock { state in
            defer {
                state.tries = [:]
                state.channels = [:]
                state.isOver = true
            }
            return (state.tries, state.channels)
        }
        for task in tries.values { task.cancel() }
        for channel in channels.values {
            channel.monitor.cancel()
            channel.status.finish()
        }
        kind.finish()
    }

    /// Uses a valid result, joins a running probe, or starts one.
    private func begin(_ text: String, isFresh: Bool = false) -> Step {
        let target: ProbeTarget
        do throws(NetworkError) {
            target = try ProbeTarget(text, in: table(), configuration)
        } catch {
            var report = Report(target: text)
            report.status = .unreachable(reason: .unknownName)
            report.error = error
            changeStatuses { state in
                // The target is not probed until the table has it again.
                state.channels[text]?.target = nil
                if let channel = state.channels[text] { Self.publish(report.status, to: channel, &state) }
            }
            return .known(report)
        }
        watchNetwork()
        return changeStatuses { state in
            state.channels[text]?.target = target
            let channels = state.channels
            let action = state.ledger.ask(target, isFresh: isFresh, at: .now) {
                Set(channels.values.compactMap(\.target))
            }
            switch action {
            case .take(let report):
                Self.publish(report.status, of: target, &state)
                return .known(report)
            case .join: return .wait(state.tries[target] ?? startTry(target, &state))
            case .start: return .wait(startTry(target, &state))
            }
        }
    }

    private func startTry(_ target: ProbeTarget, _ state: inout State) -> Task<Report, Never> {
        // A weak reference, so that releasing the manager does not wait for a server that does not answer.
        let task = Task { [source, weak self] in
            while true {
                let report = await source.attempt(target)
                guard let self, self.finish(target, report) else { return report }
            }
        }
        state.tries[target] = task
        return task
    }

    private func finish(_ target: ProbeTarget, _ report: Report) -> Bool {
        changeStatuses { state in
            guard !state.isOver else { return false }
            let repeats = state.ledger.finish(target, report, isReachable: report.status.isReachable, at: .now)
            guard !repeats else { return true }
            state.tries[target] = nil
            Self.publish(report.status, of: target, &state)
            return false
        }
    }

    /// Changes the state, then delivers the statuses that changed with it. All readers get them in the same order.
    private func changeStatuses<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, staged) = state.withLock { state in
            let result = body(&state)
            defer { state.staged = [] }
            return (result, state.staged)
        }
        for status in staged { status.deliver() }
        return result
    }

    private static func publish(_ status: Status, of target: ProbeTarget, _ state: inout State) {
        for channel in state.channels.values where channel.target == target { publish(status, to: channel, &state) }
    }

    private static func publish(_ status: Status, to channel: Channel, _ state: inout State) {
        guard status.isChange(after: channel.status.current) else { return }
        channel.status.stage(status)
        state.staged.append(channel.status)
    }

    /// Probes a target repeatedly while it is observed. Between probes, nothing is retained.
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
            guard let target = state.channels[name]?.target else { return .now + state.ledger.ttl }
            return state.ledger.nextTry(of: target, at: .now)
        }
    }

    /// Stops observing a target, unless there are new readers.
    private func unfollow(_ name: String) {
        state.withLock { state in
            guard let channel = state.channels[name], !channel.status.hasReaders else { return }
            channel.monitor.cancel()
            state.channels[name] = nil
        }
    }

    private func watchNetwork() {
        let isFirst = state.withLock { state in
            defer { state.isWatching = true }
            return !state.isWatching
        }
        guard isFirst, let engine = try? engines.engine() else { return }
        engine.observeNetwork { [weak self] in self?.networkChanged() }
    }

    /// Called on the engine's thread, so it leaves the work to a task.
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
        kindLock.withLock { _ in
            // Read under the lock, so that an older kind cannot replace a newer one.
            let current = currentStatus
            if kind.current != current { kind.stage(current) }
        }
        kind.deliver()
    }
}
