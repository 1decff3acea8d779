package import HTTPCore
import Platform
import Synchronization

/// The circuit of one address: whether it is left out. A pure state machine: its methods receive the time.
///
/// A connection that fails leaves its address out at once, because libcurl goes on to the next one and the request loses
/// little. A request without a response may be slow by itself, so it takes three in a row. Each time that the address fails
/// again it is left out for twice as long, and only one connection at a time tries whether it works.
struct AddressCircuit: Hashable, Sendable {
    static let firstPause = Duration.seconds(1)
    static let longestPause = Duration.seconds(120)
    static let requestLimit = 3

    /// How many requests in a row got no response.
    private var failures = 0
    /// How often it was left out since the last response.
    private var openings = 0
    private(set) var leftOutUntil: MonotonicTime?
    /// Whether a connection tries it since it was left out.
    private var isTried = false
    /// Whether it was left out because requests got no response, and none has come since. Its connections are useless too.
    private(set) var isSilent = false

    var isOpen: Bool { leftOutUntil != nil }

    func isLeftOut(at now: MonotonicTime) -> Bool { leftOutUntil.map { now < $0 } ?? false }

    /// Whether nothing is lost when it is forgotten, as its pause was over long ago and nobody has tried it since.
    func isForgettable(at now: MonotonicTime) -> Bool { leftOutUntil.map { $0 + Self.longestPause <= now } ?? true }

    /// Notes a new connection. The first one after a pause tries the address; until it has a response, others leave it out.
    mutating func connects(at now: MonotonicTime) {
        guard let end = leftOutUntil, end <= now else { return }
        leftOutUntil = now + pause
        isTried = true
    }

    /// Records a connection that failed. Connections that were begun before the address was left out say nothing new.
    ///
    /// - Returns: for how long the address is left out from now on; `nil` if nothing changes.
    mutating func connectionFailed(at now: MonotonicTime) -> Duration? { !isOpen || isTried ? open(at: now) : nil }

    /// Records a request that got no response.
    ///
    /// - Parameter isNew: whether its connection was opened for it.
    /// - Returns: as ``connectionFailed(at:)``.
    mutating func requestFailed(isNew: Bool, at now: MonotonicTime) -> Duration? {
        if !isOpen { failures += 1 }
        guard isOpen ? isNew && isTried : failures >= Self.requestLimit else { return nil }
        isSilent = true
        return open(at: now)
    }

    /// Records a response. One on an old connection does not show that the address takes new ones.
    ///
    /// - Returns: whether the address is used again from now on.
    mutating func responded(isNew: Bool) -> Bool {
        (failures, isSilent) = (0, false)
        guard isOpen, isNew else { return false }
        self = AddressCircuit()
        return true
    }

    /// Applies what another process found out. A connection that tries the address now knows better.
    ///
    /// - Returns: whether something has changed.
    mutating func adopt(_ report: CircuitReport, at now: MonotonicTime) -> Bool {
        switch report {
        case .closed:
            defer { self = AddressCircuit() }
            return isOpen
        case .opened(let pause):
            // A trial that was cancelled has no end.
            guard !isTried || !isLeftOut(at: now) else { return false }
            openings = max(1, openings)
            (isTried, leftOutUntil) = (false, now + min(pause, Self.longestPause))
            return true
        }
    }

    private var pause: Duration {
        min(Self.longestPause, Self.firstPause * (1 << min(max(0, openings - 1), 10)))
    }

    private mutating func open(at now: MonotonicTime) -> Duration {
        openings += 1
        (failures, isTried) = (0, false)
        leftOutUntil = now + pause
        return pause
    }
}

extension NetworkError.Kind {
    /// Whether the failure may be that of one address, as with `CircuitBreakerPolicy` that of a host. Certificates that this
    /// process does not accept, and its own, say nothing about an address.
    ///
    /// - Parameter isConnected: whether there was a connection. Without one, the request's own time limit says nothing either.
    func saysAddressFails(isConnected: Bool) -> Bool {
        switch self {
        case .connect, .timeout(.connect), .timeout(.idle), .connectionLost, .protocolViolation: true
        case .timeout(.total), .timeout(.deadline): isConnected
        case .tls(.untrusted), .tls(.selfSigned), .tls(.pinMismatch), .tls(.clientCertificate),
            .tls(.certificateStatus):
            false
        case .tls: true
        default: false
        }
    }
}

/// The circuits of addresses that have failed, for other threads and processes. The name of each is the origin and the address.
package final class AddressCircuits: Sendable {
    package typealias Observer = @Sendable (_ circuit: String, CircuitReport) -> Void

    private let ends = Mutex<[String: MonotonicTime]>([:])
    private let observer = HeldClosure<Observer>()

    /// Whether a circuit has such a name. That of a host ends with its origin.
    package static func isName(_ circuit: String) -> Bool {
        circuit.split(separator: " ").last.map { !$0.contains("://") } ?? false
    }

    /// By the names of the circuits, whether each address is left out.
    package var all: [String: Bool] {
        let now = MonotonicTime.now
        return ends.withLock { $0.mapValues { now < $0 } }
    }

    /// Calls back on the engine's thread when an address fails, or works again.
    package func observe(_ observer: @escaping Observer) { self.observer.set(observer) }

    func report(_ report: CircuitReport, of circuit: String) { observer.closure?(circuit, report) }

    func set(_ all: [String: MonotonicTime]) { ends.withLock { $0 = all } }
}
