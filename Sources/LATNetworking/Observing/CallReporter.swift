import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// Distributes the events of a manager's calls. A slow reader loses the oldest.
typealias CallEventHub = EventHub<CallEvent>

extension EventHub<CallEvent> {
    /// The maximum number of events that are kept for a reader.
    static var bufferSize: Int { 4_096 }
}

/// The observers of a manager's calls.
final class CallReporters: Sendable {
    let secrets: Secrets
    /// Those that receive events.
    let accessories: [any RequestAccessory]
    /// Those that only count.
    let meters: [any CallMeter]
    let hub: CallEventHub

    init(secrets: Secrets, _ accessories: [any RequestAccessory], hub: CallEventHub) {
        self.secrets = secrets
        self.accessories = accessories.filter { !($0 is any CallMeter) }
        meters = accessories.compactMap { $0 as? any CallMeter }
        self.hub = hub
    }

    private init(_ reporters: CallReporters, adding more: CallReporters) {
        secrets = reporters.secrets
        accessories = reporters.accessories + more.accessories
        meters = reporters.meters + more.meters
        hub = reporters.hub
    }

    /// The same observers, and those of a request after them.
    func adding(_ more: [any RequestAccessory]) -> CallReporters {
        CallReporters(self, adding: CallReporters(secrets: secrets, more, hub: hub))
    }

    /// Calls each meter. An element of the buffer is used in place, where a loop over the array would copy it.
    @inline(__always) func count(_ body: (any CallMeter) -> Void) {
        meters.withUnsafeBufferPointer { meters in
            for index in meters.indices { body(meters[index]) }
        }
    }

    var makesEvents: Bool { !accessories.isEmpty || hub.isActive }
    var isEmpty: Bool { meters.isEmpty && !makesEvents }
}

/// An attempt of an observed call, or the hop of one.
final class SentAttempt: Sendable {
    /// The number of the attempt. The first one is number 1.
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
        fileprivate let start: MonotonicTime
    }

    /// The call as the observers see it; `nil` if all of them only count.
    let call: ObservedCall?
    private let row: ObservedCall.Row?
    private let observers: CallReporters
    private let startedAt = MonotonicTime.now
    private let phase = Atomic(Phase.new.rawValue)
    private let attempts = Atomic(0)

    /// - Parameter call: makes the call as the observers see it, if it is needed.
    init(_ observers: CallReporters, row: ObservedCall.Row?, _ call: () -> ObservedCall) {
        self.observers = observers
        self.row = row
        self.call = observers.makesEvents ? call() : nil
    }

    /// The trace that an observer began for the call.
    var trace: TraceParent? { call?.trace }

    func start() {
        guard advance(from: .new, to: .started) else { return }
        observers.count { $0.callDidStart() }
        guard let call else { return }
        for accessory in observers.accessories { accessory.willStart(call) }
        report(.started, of: call)
        for accessory in observers.accessories { accessory.didStart(call) }
    }

    /// Reports that an attempt starts, or a redirect's hop, which belongs to the attempt before.
    func beginAttempt(_ request: HTTPRequest, hop: Int) -> Attempt {
        observers.count { $0.attemptDidStart(request) }
        let now = MonotonicTime.now
        guard let call else { return Attempt(sent: nil, start: now) }
        let number =
            hop > 0 ? max(1, attempts.load(ordering: .relaxed)) : attempts.add(1, ordering: .relaxed).newValue
        let sent = SentAttempt(number, hop, request, of: call)
        report(
            CallEvent(
                call: sent.call, offset: startedAt.duration(to: now), kind: .sending(attempt: number, request),
                hop: hop,
                elapsed: nil, sent: sent))
        return Attempt(sent: sent, start: now)
    }

    /// Reports the response to an attempt.
    func endAttempt(_ attempt: Attempt, _ request: HTTPRequest, _ response: HTTPResponse) {
        let now = MonotonicTime.now
        let time = attempt.start.duration(to: now)
        observers.count { $0.attemptDidEnd(request, with: response, row: row, after: time) }
        guard let sent = attempt.sent else { return }
        report(.answered(attempt: sent.number, response), of: sent, at: now, after: time)
    }

    /// Reports that an attempt failed.
    func endAttempt(_ attempt: Attempt, _ request: HTTPRequest, _ error: NetworkError) {
        let now = MonotonicTime.now
        let time = attempt.start.duration(to: now)
        observers.count { $0.attemptDidFail(request, with: error, row: row, after: time) }
        guard let sent = attempt.sent else { return }
        report(.failed(attempt: sent.number, error), of: sent, at: now, after: time)
    }

    private func report(_ kind: CallEvent.Kind, of sent: SentAttempt, at now: MonotonicTime, after time: Duration) {
        report(
            CallEvent(
                call: sent.call, offset: startedAt.duration(to: now), kind: kind, hop: sent.hop, elapsed: time,
                sent: sent
            ))
    }

    /// Reports what happened between the attempts.
    func record(_ kind: CallEvent.Kind, hop: Int = 0) {
        observers.count { $0.count(kind) }
        if let call { report(kind, of: call, hop: hop) }
    }

    private func report(_ kind: CallEvent.Kind, of call: ObservedCall, hop: Int = 0) {
        report(
            CallEvent(call: call, offset: startedAt.duration(to: .now), kind: kind, hop: hop, elapsed: nil, sent: nil))
    }

    private func report(_ event: CallEvent) {
        if observers.hub.isActive { observers.hub.send(event) }
        for accessory in observers.accessories { accessory.handle(event) }
    }

    /// Reports what the caller reads of a stream.
    func didRead(_ chunk: Data) {
        guard let call else { return }
        for accessory in observers.accessories { accessory.didRead(chunk, of: call) }
    }

    /// Reports the end of the call before its caller gets the result. Does nothing for a call that never started.
    func willFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .started, to: .finishing) else { return }
        if !observers.meters.isEmpty {
            let time = startedAt.duration(to: .now)
            observers.count { $0.callDidEnd(with: result, after: time) }
        }
        guard let call else { return }
        for accessory in observers.accessories { accessory.willFinish(call, result) }
        report(.finished(result), of: call)
    }

    /// Reports that the caller has the result.
    func didFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .finishing, to: .finished), let call else { return }
        for accessory in observers.accessories { accessory.didFinish(call, result) }
    }

    private func advance(from: Phase, to: Phase) -> Bool {
        phase.compareExchange(
            expected: from.rawValue, desired: to.rawValue, ordering: .acquiringAndReleasing
        ).exchanged
    }
}
