import CLibcurl
internal import HTTPCore
import Platform

/// What an engine's thread does besides ordinary transfers: live connections, connection probes, the network watch, and
/// the work of tenants. Belongs to that thread, so its state needs no run-time exclusivity checks.
///
/// Each has a descriptor of its own in the engine's epoll, so they cost transfers nothing.
final class EngineServices {
    let probes: ProbeRunner
    /// Runs the transfers of live connections, such as event streams. They share the DNS cache, the TLS sessions and the
    /// cookies with the others.
    let live: ServiceMulti
    private let connections: ByteConnections
    @exclusivity(unchecked) private var tenants: [any EngineTenant] = []
    private unowned let engine: Engine
    /// The engine's epoll; `nil` after ``end()``.
    private var events: EventQueue?
    private var network: NetworkWatch?
    private var networkObservers: [@Sendable () -> Void] = []
    @exclusivity(unchecked) private var schedule = ChangeSchedule()
    /// Returns the connections that no longer work; tests replace it. Called on a thread of its own.
    var findDead: @Sendable (Set<ConnectionEnds>) -> Set<ConnectionEnds> = ConnectionRoute.gone(among:)
    private var isCheckingConnections = false
    /// Whether the network has changed again since the check of the connections began.
    private var checksAgain = false
    @exclusivity(unchecked) private var hasEvents = false
    @exclusivity(unchecked) private var hasNetworkEvents = false

    init(engine: Engine, _ events: EventQueue) {
        self.engine = engine
        probes = ProbeRunner(engine: engine, events)
        live = ServiceMulti(events, capacity: 256)
        connections = ByteConnections(engine: engine, events)
        self.events = events
        live.unwatched = { [unowned engine] in engine.inputEnded($0) }
        watchNetwork()
    }

    private func watchNetwork() {
        guard engine.configuration.watchesNetwork, let events, let watch = NetworkWatch() else { return }
        network = watch
        events.watch(watch.descriptor, for: .readable)
    }

    /// Adds an observer. It is called on the engine's thread whenever the network has changed, until the engine ends.
    func observeNetwork(_ observer: @escaping @Sendable () -> Void) { networkObservers.append(observer) }

    /// When ``turn(_:)`` must be called next.
    var due: MonotonicTime {
        guard !hasEvents, !hasNetworkEvents else { return MonotonicTime(nanoseconds: 0) }
        let own = min(probes.multi.due, live.due, schedule.due, connections.due)
        return tenants.isEmpty ? own : tenants.reduce(own) { min($0, $1.due) }
    }

    func host(_ tenant: any EngineTenant) {
        tenants.append(tenant)
        tenant.start(connections)
    }

    /// Records an event on a descriptor of a service. Returns `false` for any other descriptor.
    func noted(_ descriptor: CInt, _ events: EventQueue.Events) -> Bool {
        if descriptor == probes.multi.descriptor || descriptor == live.descriptor {
            hasEvents = true
        } else if descriptor == network?.descriptor {
            hasNetworkEvents = true
        } else {
            return connections.noted(descriptor, events)
        }
        return true
    }

    func turn(_ now: MonotonicTime) {
        if hasNetworkEvents {
            hasNetworkEvents = false
            if network?.takeChanges() == true { schedule.note(now) }
        }
        if schedule.due <= now {
            schedule = ChangeSchedule()
            networkHasChanged()
        }
        hasEvents = false
        probes.turn(now)
        live.turn(now) { engine.concluded($0, $1) }
        connections.turn(now)
        for tenant in tenants where tenant.due <= now { tenant.turn(now) }
    }

    /// Called at the end of each turn of the engine.
    func settle() {
        probes.multi.settle()
        live.settle()
        connections.multi.settle()
    }

    func opened(_ socket: CInt) {
        // At the start there may have been no descriptor for it.
        if network == nil { watchNetwork() }
        probes.multi.opened(socket)
        live.opened(socket)
        connections.multi.opened(socket)
    }

    /// Drops the idle connections that no longer work, then calls the observers. Connections are checked on a separate
    /// thread, which the engine's thread starts so that both are in the same network namespace.
    func networkHasChanged() {
        guard !isCheckingConnections else { return checksAgain = true }
        isCheckingConnections = true
        let ends = engine.idleEnds
        guard !ends.isEmpty else { return finishCheck([]) }
        let isStarted = BackgroundThread.start("lat-routes") { [findDead, mailbox = engine.mailbox] in
            let gone = findDead(ends)
            mailbox.post(.services { $0?.finishCheck(gone) })
        }
        if !isStarted { finishCheck([]) }
    }

    private func finishCheck(_ gone: Set<ConnectionEnds>) {
        isCheckingConnections = false
        engine.shutDownIdle(gone)
        guard !checksAgain else {
            checksAgain = false
            return networkHasChanged()
        }
        for observer in networkObservers { observer() }
    }

    /// Ends every probe and closes every descriptor. The transfers of live connections have ended before.
    func end() {
        for tenant in tenants { tenant.end() }
        tenants = []
        connections.end()
        probes.end()
        live.end()
        network?.end()
        events = nil
        networkObservers = []
    }
}

/// Decides when to report a burst of changes: soon after the last change, but not too long after the first. A link that
/// comes up causes a dozen messages (link, carrier, addresses, routes) within milliseconds.
struct ChangeSchedule {
    /// The time without a change that ends a burst, in milliseconds.
    static let quiet: Int64 = 50
    /// The maximum time from the first change to the report, in milliseconds.
    static let longestDelay: Int64 = 500

    private var first: MonotonicTime?
    /// When to report; the distant future when nothing has changed.
    private(set) var due = MonotonicTime.distantFuture

    mutating func note(_ now: MonotonicTime) {
        let first = self.first ?? now
        self.first = first
        due = min(now + Self.quiet, first + Self.longestDelay)
    }
}

/// What origins announced in their responses: that they require TLS (HSTS), and their alternative services.
struct OriginStore: Sendable {
    let hsts: HSTSStore?
    let alternatives: AlternativeServices?
    /// Whether `connectTo` or `unixSocketPath` sets where requests connect, so that alternative services do not apply.
    private let connectsElsewhere: Bool

    init?(_ configuration: EngineConfiguration) throws(NetworkError) {
        hsts = try HSTSStore(configuration)
        alternatives = try AlternativeServices(configuration)
        connectsElsewhere = !configuration.connectTo.isEmpty || configuration.unixSocketPath != nil
        if hsts == nil, alternatives == nil { return nil }
    }

    /// Returns the alternative service that a request uses; `nil` for none. HTTP/3 services, which may have the host
    /// and port of the origin, come first if this libcurl supports them and neither the request nor the manager sets a
    /// version.
    func alternative(for request: HTTPRequest, _ target: Target, _ plan: TransferPlan) -> AlternativeService? {
        guard let alternatives, !connectsElsewhere, plan.proxy == nil, request.unixSocketPath == nil,
            request.body?.isReplayable ?? true
        else { return nil }
        if plan.version == VersionChoice.automatic, GlobalCurl.has(CURL_VERSION_HTTP3),
            let service = alternatives.alternative(for: target, speaking: [AlternativeService.http3])
        {
            return service
        }
        let service = alternatives.alternative(for: target, speaking: AlternativeServices.protocols)
        return service.flatMap { $0.isOrigin(of: target) ? nil : $0 }
    }

    /// Stores what a response announces. Returns whether the request must be sent again, because the alternative service
    /// is not authoritative for the origin (421).
    func note(_ response: HTTPResponse, to transfer: Transfer) -> Bool {
        hsts?.note(response.headers, of: transfer.target)
        alternatives?.note(response, of: transfer.target)
        guard response.status == 421, let alternative = transfer.plan.alternative else { return false }
        alternatives?.setAside(alternative, of: transfer.target)
        return true
    }

    /// Returns whether a failed request must be sent again, because the alternative service could not be connected to. One
    /// that took the request and began no response may have processed it, and is skipped from now on.
    func note(_ error: NetworkError, of transfer: Transfer) -> Bool {
        guard let alternative = transfer.plan.alternative else { return false }
        let isConnected: Bool
        switch error.kind {
        case .connect, .dns, .tls, .timeout(.connect), .addressBlocked: isConnected = false
        case .connectionLost, .protocolViolation, .timeout: isConnected = true
        default: return false
        }
        guard !isConnected || error.response == nil else { return false }
        alternatives?.setAside(alternative, of: transfer.target)
        return !isConnected
    }

    func flush() async {
        await hsts?.flush()
        await alternatives?.flush()
    }
}
