public import HTTPCore
import Platform
import Synchronization

/// A call as those see it who watch it.
public struct ObservedCall: Sendable, Identifiable {
    /// Names the call among all of the process.
    public let id: UInt64
    /// The request as the call made it, before the providers were asked.
    public let request: HTTPRequest
    /// Its tag.
    public let tag: String?
    /// Its key, for ``RequestSelection/key(_:)``.
    public var key: String { "request-\(id)" }
}

/// Something that happened to a call.
public struct CallEvent: Sendable {
    /// What happened.
    public enum Kind: Sendable {
        /// The call began.
        case started
        /// The call stands still until something else is over.
        case waiting(Wait)
        /// An attempt goes out, with all headers it has. The first one is number 1; the hops of a redirect are part of
        /// it.
        case sending(attempt: Int, HTTPRequest)
        /// An attempt brought an answer, of whatever status.
        case answered(attempt: Int, HTTPResponse)
        /// An attempt brought none.
        case failed(attempt: Int, NetworkError)
        /// The next attempt begins after this time.
        case retrying(after: Duration)
        /// The call is sent again because its token was renewed.
        case replaying
        /// The call ended: what its caller gets.
        case finished(Result<HTTPResponse, NetworkError>)
    }

    /// What a call waits for.
    public enum Wait: String, Hashable, Sendable {
        /// A barrier, which is to be over first.
        case barrier
        /// A place or a token of the manager's limits.
        case limits
        /// The renewal of the token.
        case token
        /// The answer to the same request of another caller.
        case sharedRequest
        /// A server that can be connected to.
        case connectivity
    }

    /// The call.
    public let call: ObservedCall
    /// How long after the call's beginning.
    public let offset: Duration
    /// What happened.
    public let kind: Kind
}

/// Watches the calls of a manager: every one of the four is called once for each call, in this order, on every path,
/// whatever the call ends with.
///
/// ```swift
/// configuration.accessories = [ActivityIndicator(TerminalSpinner()), RequestLog(.summary)]
/// ```
///
/// A call that cannot be made into a request, because the table does not know its name for one, begins nothing here.
/// The methods are called one after the other for each call, on any thread, and hold the call up until they return.
public protocol RequestAccessory: Sendable {
    /// A call is about to begin.
    func willStart(_ call: ObservedCall)
    /// A call has begun and can be cancelled.
    func didStart(_ call: ObservedCall)
    /// A call has ended and its caller is about to learn how. A streamed answer ends with its body.
    func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>)
    /// The caller has been called back, or is, as soon as this returns, given the result.
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>)
    /// Something else happened to a call.
    func handle(_ event: CallEvent)
}

extension RequestAccessory {
    /// Does nothing.
    public func willStart(_ call: ObservedCall) {}
    /// Does nothing.
    public func didStart(_ call: ObservedCall) {}
    /// Does nothing.
    public func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {}
    /// Does nothing.
    public func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {}
    /// Does nothing.
    public func handle(_ event: CallEvent) {}
}

/// What happens to a manager's calls, as it happens.
///
/// ```swift
/// for await event in manager.events {
///     if case .retrying(let wait) = event.kind { print(event.call.request.url, "again in", wait) }
/// }
/// ```
///
/// It begins with the first read. A reader who falls behind loses the oldest events, never holds a call up.
public struct CallEvents: AsyncSequence, Sendable {
    /// An event of one of the calls.
    public typealias Element = CallEvent

    private let hub: CallEventHub

    init(_ hub: CallEventHub) { self.hub = hub }

    /// Starts watching: calls that begin from now on, until the iterator is let go of or the manager is.
    public func makeAsyncIterator() -> Iterator { Iterator(hub.events()) }

    /// Reads event by event.
    public struct Iterator: AsyncIteratorProtocol {
        private var events: AsyncStream<CallEvent>.Iterator

        init(_ events: AsyncStream<CallEvent>) { self.events = events.makeAsyncIterator() }

        /// The next event; `nil` when the manager is gone, or the task was cancelled.
        public mutating func next() async -> CallEvent? { await events.next() }
    }
}

/// Hands the events of a manager's calls on. A reader that falls behind loses the oldest.
typealias CallEventHub = EventHub<CallEvent>

extension EventHub<CallEvent> {
    /// How many events wait for a reader at most.
    static var bufferSize: Int { 4_096 }
}

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

    /// Returns the number of the attempt that begins, or that a hop of a redirect is part of.
    func beginAttempt(_ request: HTTPRequest, hop: Int) -> Int {
        let number =
            hop > 0 ? max(1, attempts.load(ordering: .relaxed)) : attempts.add(1, ordering: .relaxed).newValue
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
