import CLibcurl
import HTTPCore
import Platform

/// What an engine's thread does beside its transfers: connect probes, and the
/// watch over the network. Belongs to that thread.
///
/// Each has a descriptor of its own in the engine's epoll, so that the transfers' path knows nothing of them.
final class EngineServices {
    let probes: ProbeLane
    private unowned let engine: Engine
    private let network: NetworkWatch?
    private var networkObservers: [@Sendable () -> Void] = []
    private var schedule = ChangeSchedule()
    /// Which connections lead nowhere any more; tests have another. Called on a thread of its own.
    var findGone: @Sendable (Set<ConnectionEnds>) -> Set<ConnectionEnds> = ConnectionRoute.gone(among:)
    private var isLooking = false
    /// The network has changed again meanwhile.
    private var looksAgain = false
    private var hasProbeEvents = false
    private var hasNetworkEvents = false

    init(engine: Engine, _ events: EventQueue) {
        self.engine = engine
        probes = ProbeLane(engine: engine, events)
        network = engine.configuration.watchesNetwork ? NetworkWatch() : nil
        if let network { events.watch(network.descriptor, for: .readable) }
    }

    /// Called on the engine's thread whenever the network has changed, until the engine ends.
    func observeNetwork(_ observer: @escaping @Sendable () -> Void) { networkObservers.append(observer) }

    /// When to be called next, whatever happens.
    var due: MonotonicTime {
        hasProbeEvents || hasNetworkEvents ? MonotonicTime(nanoseconds: 0) : min(probes.due, schedule.due)
    }

    func isDue(_ now: MonotonicTime) -> Bool { due <= now }

    /// Takes note of an event, when it is one of here.
    func noted(_ descriptor: CInt) -> Bool {
        if descriptor == probes.descriptor {
            hasProbeEvents = true
        } else if descriptor == network?.descriptor {
            hasNetworkEvents = true
        } else {
            return false
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
        hasProbeEvents = false
        probes.turn(now)
    }

    /// Drops the idle connections that lead nowhere any more, then tells the observers. The system is asked on a thread of
    /// its own, which the engine's starts so that it lives in the same network namespace.
    func networkHasChanged() {
        guard !isLooking else { return looksAgain = true }
        isLooking = true
        let ends = engine.idleEnds
        guard !ends.isEmpty else { return finishLook([]) }
        let isStarted = BackgroundThread.start("lat-routes") { [findGone, mailbox = engine.mailbox] in
            let gone = findGone(ends)
            mailbox.post(.services { $0?.finishLook(gone) })
        }
        if !isStarted { finishLook([]) }
    }

    private func finishLook(_ gone: Set<ConnectionEnds>) {
        isLooking = false
        engine.shutDownIdle(gone)
        guard !looksAgain else {
            looksAgain = false
            return networkHasChanged()
        }
        for observer in networkObservers { observer() }
    }

    /// The engine's end: every probe ends, every descriptor is closed.
    func end() {
        probes.end()
        network?.end()
        networkObservers = []
    }
}

/// When a burst of changes is told: soon after its last, and not too long after its first. A link that comes up is a
/// dozen messages (link, carrier, addresses, routes) within some milliseconds.
struct ChangeSchedule {
    /// So long nothing may come before the change is told, in milliseconds…
    static let quiet: Int64 = 50
    /// …but after so long it is told all the same.
    static let patience: Int64 = 500

    private var first: MonotonicTime?
    /// When to tell; the distant future while there is nothing to.
    private(set) var due = MonotonicTime.distantFuture

    /// Something has changed.
    mutating func note(_ now: MonotonicTime) {
        let first = self.first ?? now
        self.first = first
        due = min(now + Self.quiet, first + Self.patience)
    }
}
