import HTTPCore
import Synchronization

/// Who watches a manager's calls.
struct CallWatchers: Sendable {
    let accessories: [any RequestAccessory]
    let hub: CallEventHub
}

/// Tells the watchers of one call what happens to it: its beginning and its end once each, in order.
final class CallWatch: Sendable {
    private enum Phase: Int {
        case new, started, finishing, finished
    }

    let call: ObservedCall
    private let watchers: CallWatchers
    private let startedAt = ContinuousClock.now
    private let phase = Atomic(Phase.new.rawValue)
    private let attempts = Atomic(0)

    init(_ watchers: CallWatchers, _ call: ObservedCall) {
        self.watchers = watchers
        self.call = call
    }

    func start() {
        guard advance(from: .new, to: .started) else { return }
        for accessory in watchers.accessories { accessory.willStart(call) }
        record(.started)
        for accessory in watchers.accessories { accessory.didStart(call) }
    }

    /// Returns the number of the attempt that begins.
    func beginAttempt(_ request: HTTPRequest) -> Int {
        let number = attempts.add(1, ordering: .relaxed).newValue
        record(.sending(attempt: number, request))
        return number
    }

    func record(_ kind: CallEvent.Kind) {
        let event = CallEvent(call: call, offset: startedAt.duration(to: .now), kind: kind)
        if watchers.hub.isActive { watchers.hub.send(event) }
        for accessory in watchers.accessories { accessory.handle(event) }
    }

    /// The call has ended and its caller is about to learn how. Nothing happens for a call that never began.
    func willFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .started, to: .finishing) else { return }
        for accessory in watchers.accessories { accessory.willFinish(call, result) }
        record(.finished(result))
    }

    /// The caller knows.
    func didFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .finishing, to: .finished) else { return }
        for accessory in watchers.accessories { accessory.didFinish(call, result) }
    }

    private func advance(from: Phase, to: Phase) -> Bool {
        phase.compareExchange(
            expected: from.rawValue, desired: to.rawValue, ordering: .acquiringAndReleasing
        ).exchanged
    }
}
