import HTTPCore
import Synchronization

/// Tells the watchers of one call what happens to it: its beginning and its end once each, in order.
final class CallTimeline: Sendable {
    private enum Phase {
        case new, started, finishing, finished
    }

    private struct State {
        var phase = Phase.new
        var attempts = 0
    }

    let call: ObservedCall
    private let accessories: [any RequestAccessory]
    private let hub: CallEventHub
    private let startedAt = ContinuousClock.now
    private let state = Mutex(State())

    private static let count = Atomic<UInt64>(0)

    init(_ request: HTTPRequest, tag: String?, _ accessories: [any RequestAccessory], _ hub: CallEventHub) {
        call = ObservedCall(id: Self.count.add(1, ordering: .relaxed).newValue, request: request, tag: tag)
        self.accessories = accessories
        self.hub = hub
    }

    func start() {
        guard advance(from: .new, to: .started) else { return }
        for accessory in accessories { accessory.willStart(call) }
        record(.started)
        for accessory in accessories { accessory.didStart(call) }
    }

    /// The number of the attempt that begins.
    func beginAttempt(_ request: HTTPRequest) -> Int {
        let number = state.withLock { state in
            state.attempts += 1
            return state.attempts
        }
        record(.sending(attempt: number, request))
        return number
    }

    func record(_ kind: CallEvent.Kind) {
        let event = CallEvent(call: call, offset: startedAt.duration(to: .now), kind: kind)
        if hub.isActive { hub.send(event) }
        for accessory in accessories { accessory.handle(event) }
    }

    /// The end is known. Returns what to do when the caller has it.
    func finish(_ result: Result<HTTPResponse, NetworkError>) -> (@Sendable () -> Void)? {
        guard advance(from: .started, to: .finishing) else { return nil }
        for accessory in accessories { accessory.willFinish(call, result) }
        record(.finished(result))
        return { [self] in
            guard advance(from: .finishing, to: .finished) else { return }
            for accessory in accessories { accessory.didFinish(call, result) }
        }
    }

    private func advance(from: Phase, to: Phase) -> Bool {
        state.withLock { state in
            guard state.phase == from else { return false }
            state.phase = to
            return true
        }
    }
}
