import CurlTransport
import DomainTables
import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// Distributes the events of a manager's calls. A slow reader loses the oldest.
typealias CallEventHub = EventHub<CallEvent>

extension EventHub<CallEvent> {
    static var bufferSize: Int { 4_096 }
}

/// What an observer may ask the manager of a call for. It keeps the engine, but not the manager.
final class CallOrigin: Sendable {
    /// Adds to a request what the engine will add; `nil` without an engine.
    let completes: (@Sendable (HTTPRequest) -> HTTPRequest)?
    let manager: ManagerReference

    init(_ engine: CurlTransport?, _ manager: ManagerReference) {
        if let engine { completes = { engine.completed($0) } } else { completes = nil }
        self.manager = manager
    }
}

final class CallReporters: Sendable {
    let secrets: Secrets
    let accessories: [any RequestAccessory]
    let meters: [any CallMeter]
    let headObservers: [any SentHeadObserver]
    let hub: CallEventHub
    let origin: CallOrigin?

    init(
        secrets: Secrets, _ accessories: [any RequestAccessory], hub: CallEventHub, after first: CallReporters? = nil,
        origin: CallOrigin? = nil
    ) {
        self.secrets = secrets
        self.origin = origin ?? first?.origin
        self.accessories = (first?.accessories ?? []) + accessories.filter { !($0 is any CallMeter) }
        meters = (first?.meters ?? []) + accessories.compactMap { $0 as? any CallMeter }
        headObservers = (first?.headObservers ?? []) + accessories.compactMap { $0 as? any SentHeadObserver }
        self.hub = hub
    }

    /// The same observers, and those of a request after them.
    func adding(_ more: [any RequestAccessory]) -> CallReporters {
        CallReporters(secrets: secrets, more, hub: hub, after: self)
    }

    /// Calls each meter. The elements of the buffer are used in place; a loop over the array would copy each of them.
    @inline(__always) func count(_ body: (any CallMeter) -> Void) {
        meters.withUnsafeBufferPointer { meters in
            for index in meters.indices { body(meters[index]) }
        }
    }

    var isEmpty: Bool { meters.isEmpty && accessories.isEmpty && !hub.isActive }

    /// The accessories that want to observe the call of a request.
    func accessories(observing request: HTTPRequest) -> [any RequestAccessory] {
        guard let first = accessories.firstIndex(where: { !$0.observes(request) }) else { return accessories }
        // Most often no other one wants to, and nothing is allocated.
        var wanting = Array(accessories[..<first])
        for index in (first + 1)..<accessories.count where accessories[index].observes(request) {
            wanting.append(accessories[index])
        }
        return wanting
    }
}

/// An attempt of an observed call, or the hop of one.
final class SentAttempt: Sendable {
    let number: Int
    let hop: Int
    let request: HTTPRequest
    /// The call, with the secrets of this request.
    let call: ObservedCall

    init(_ number: Int, _ hop: Int, _ request: HTTPRequest, of call: ObservedCall) {
        self.number = number
        self.hop = hop
        self.request = request
        self.call = call.sending(request)
    }
}

/// Reports the events of one call to its observers, in order. The start and the end are reported once each.
final class CallReporter: Sendable {
    private enum Phase: Int {
        case new, started, finishing, finished
    }

    /// An attempt whose end is reported later.
    struct Attempt {
        /// `nil` if no events are made.
        fileprivate let sent: SentAttempt?
        /// What the observers want to be called with at its end.
        fileprivate var ends: [RequestAccessory.AttemptEnd] = []
        fileprivate let start: MonotonicTime
    }

    /// The call as the observers see it; `nil` if all of them only count.
    let call: ObservedCall?
    private let row: CallRow?
    /// The statuses that the document has; `nil` for a call of which it says nothing.
    private let documented: DomainTable.DocumentedSettings?
    private let observers: CallReporters
    /// Those of the observers' accessories that observe this call.
    private let accessories: [any RequestAccessory]
    private let startedAt = MonotonicTime.now
    private let phase = Atomic(Phase.new.rawValue)
    private let attempts = Atomic(0)
    private let sentCount = Atomic(0)
    /// The attempt that was redirected last; 0 for none. Of two attempts at once it need not be the last one.
    private let redirected = Atomic(0)

    private var redirectedAttempt: Int {
        let number = redirected.load(ordering: .relaxed)
        return number > 0 ? number : max(1, attempts.load(ordering: .relaxed))
    }

    /// Makes the reporter of a call; `nil` when nothing observes the call, without allocating one.
    ///
    /// - Parameter call: makes the call as these accessories see it, if it is needed.
    static func make(
        _ observers: CallReporters, of request: HTTPRequest, _ details: CallDetails,
        _ call: ([any RequestAccessory]) -> ObservedCall
    ) -> CallReporter? {
        let accessories = observers.accessories(observing: request)
        let makesEvents = !accessories.isEmpty || observers.hub.isActive
        guard makesEvents || !observers.meters.isEmpty else { return nil }
        return CallReporter(observers, accessories, details, makesEvents ? call(accessories) : nil)
    }

    private init(
        _ observers: CallReporters, _ accessories: [any RequestAccessory], _ details: CallDetails, _ call: ObservedCall?
    ) {
        self.observers = observers
        self.accessories = accessories
        self.call = call
        row = details.row
        documented = details.isLinked ? nil : details.row?.documented
    }

    var trace: TraceParent? { call?.trace }

    /// Passes the heads that the engine sends to the observers that ask for them; `nil` when there are none.
    var headHandler: (@Sendable (SentHead) -> Void)? {
        guard let call, !observers.headObservers.isEmpty else { return nil }
        return { [observers = observers.headObservers] head in
            for observer in observers { observer.didSend(head, for: call) }
        }
    }

    func start() {
        guard advance(from: .new, to: .started) else { return }
        observers.count { $0.callDidStart() }
        guard let call else { return }
        for accessory in accessories { accessory.willStart(call) }
        report(.started, of: call)
        for accessory in accessories { accessory.didStart(call) }
    }

    /// Lets the observers change a request that is about to be sent.
    ///
    /// - Returns: what they want to be called with at its end.
    func willSend(_ request: inout HTTPRequest) -> [RequestAccessory.AttemptEnd] {
        guard let call = call?.sending(request) else { return [] }
        let resends = sentCount.add(1, ordering: .relaxed).oldValue
        var ends: [RequestAccessory.AttemptEnd] = []
        for accessory in accessories {
            if let end = accessory.willSend(&request, of: call, resends: resends) { ends.append(end) }
        }
        return ends
    }

    /// Reports the start of an attempt, or of a redirect's hop, which belongs to the attempt that was redirected.
    ///
    /// - Parameter ends: called with its end.
    func beginAttempt(_ request: HTTPRequest, hop: Int, _ ends: [RequestAccessory.AttemptEnd]) -> Attempt {
        observers.count { $0.attemptDidStart(request) }
        let now = MonotonicTime.now
        // One of several requests that begins when another one has been answered is none of the call's events.
        guard let call, phase.load(ordering: .acquiring) == Phase.started.rawValue else {
            return Attempt(sent: nil, ends: ends, start: now)
        }
        let number =
            hop > 0 ? redirectedAttempt : attempts.add(1, ordering: .relaxed).newValue
        let sent = SentAttempt(number, hop, request, of: call)
        report(.sending(attempt: number, request), of: sent.call, hop: hop, at: now, sent: sent)
        return Attempt(sent: sent, ends: ends, start: now)
    }

    func endAttempt(_ attempt: Attempt, _ request: HTTPRequest, _ response: HTTPResponse) {
        let now = MonotonicTime.now
        let time = attempt.start.duration(to: now)
        observers.count { $0.attemptDidEnd(request, with: response, row: row?.observed, after: time) }
        defer {
            if documented?.lacks(response.status) == true {
                record(.undocumentedStatus(response.status), hop: attempt.sent?.hop ?? 0)
            }
        }
        if let sent = attempt.sent {
            if sent.hop == 0, (300..<400).contains(response.status) {
                redirected.store(sent.number, ordering: .relaxed)
            }
            report(.answered(attempt: sent.number, response), of: sent, at: now, after: time)
        }
        for end in attempt.ends { end(.success(response)) }
    }

    func endAttempt(_ attempt: Attempt, _ request: HTTPRequest, _ error: NetworkError) {
        let now = MonotonicTime.now
        let time = attempt.start.duration(to: now)
        observers.count { $0.attemptDidFail(request, with: error, row: row?.observed, after: time) }
        if let sent = attempt.sent { report(.failed(attempt: sent.number, error), of: sent, at: now, after: time) }
        for end in attempt.ends { end(.failure(error)) }
    }

    /// Reports the end of an attempt that was cancelled because another one was answered first.
    ///
    /// - Parameter error: that of its cancellation.
    func abandonAttempt(_ attempt: Attempt, _ request: HTTPRequest, _ error: NetworkError) {
        let now = MonotonicTime.now
        let time = attempt.start.duration(to: now)
        observers.count { $0.attemptWasAbandoned(request, row: row?.observed, after: time) }
        if let sent = attempt.sent { report(.abandoned(attempt: sent.number), of: sent, at: now, after: time) }
        for end in attempt.ends { end(.failure(error)) }
    }

    private func report(_ kind: CallEvent.Kind, of sent: SentAttempt, at now: MonotonicTime, after time: Duration) {
        report(kind, of: sent.call, hop: sent.hop, at: now, elapsed: time, sent: sent)
    }

    /// Reports what happened between the attempts. What a response says is told only while the call runs.
    func record(_ kind: CallEvent.Kind, hop: Int = 0) {
        switch kind {
        case .undocumentedStatus, .unknownValue:
            guard phase.load(ordering: .acquiring) == Phase.started.rawValue else { return }
        default: break
        }
        observers.count { $0.count(kind) }
        if let call { report(kind, of: call, hop: hop) }
    }

    private func report(
        _ kind: CallEvent.Kind, of call: ObservedCall, hop: Int = 0, at now: MonotonicTime = .now,
        elapsed: Duration? = nil, sent: SentAttempt? = nil
    ) {
        let event = CallEvent(
            call: call, offset: startedAt.duration(to: now), kind: kind, hop: hop, elapsed: elapsed, sent: sent)
        if observers.hub.isActive { observers.hub.send(event) }
        for accessory in accessories { accessory.handle(event) }
    }

    func didRead(_ chunk: Data) {
        guard let call else { return }
        for accessory in accessories { accessory.didRead(chunk, of: call) }
    }

    /// Reports the end of the call before its caller gets the result. Does nothing for a call that never started.
    func willFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .started, to: .finishing) else { return }
        if !observers.meters.isEmpty {
            let time = startedAt.duration(to: .now)
            observers.count { $0.callDidEnd(with: result, after: time) }
        }
        guard let call else { return }
        for accessory in accessories { accessory.willFinish(call, result) }
        report(.finished(result), of: call)
    }

    func didFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .finishing, to: .finished), let call else { return }
        for accessory in accessories { accessory.didFinish(call, result) }
    }

    private func advance(from: Phase, to: Phase) -> Bool {
        phase.compareExchange(
            expected: from.rawValue, desired: to.rawValue, ordering: .acquiringAndReleasing
        ).exchanged
    }
}
