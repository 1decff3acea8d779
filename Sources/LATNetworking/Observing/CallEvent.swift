public import HTTPCore
import Platform
import Synchronization

/// A call as its observers see it.
public struct ObservedCall: Sendable, Identifiable {
    /// A number that is unique among the calls of the process.
    public let id: UInt64
    /// The request of the call, before any provider adds to it.
    public let request: HTTPRequest
    /// The tag of the request.
    public let tag: String?
    /// What must not be shown of the call: the manager's list and what the request's row adds.
    package let secrets: Secrets
    /// The key of the call, for ``RequestSelection/key(_:)``.
    public var key: String { "request-\(id)" }
}

/// An event in the life of a call.
public struct CallEvent: Sendable {
    /// The kind of an event.
    public enum Kind: Sendable {
        /// The call started.
        case started
        /// The call waits for something else.
        case waiting(Wait)
        /// An attempt is sent, with all its headers. The first one is number 1. Redirects belong to their attempt.
        case sending(attempt: Int, HTTPRequest)
        /// An attempt received a response, with any status.
        case answered(attempt: Int, HTTPResponse)
        /// An attempt received no response.
        case failed(attempt: Int, NetworkError)
        /// The next attempt starts after this time.
        case retrying(after: Duration)
        /// The call is sent again, because its token was renewed.
        case replaying
        /// The call ended with this result for its caller.
        case finished(Result<HTTPResponse, NetworkError>)
    }

    /// What a call waits for.
    public enum Wait: String, Hashable, Sendable {
        /// The end of a barrier.
        case barrier
        /// A slot or a token of the manager's limits.
        case limits
        /// The renewal of the token.
        case token
        /// The response to an equal request of another caller.
        case sharedRequest
        /// A server that can be connected to again.
        case connectivity
    }

    /// The call.
    public let call: ObservedCall
    /// The time since the call started.
    public let offset: Duration
    /// The kind of the event.
    public let kind: Kind
}

/// Observes the calls of a manager. Each of the first four methods is called once for every call, in this order,
/// however the call ends.
///
/// ```swift
/// configuration.accessories = [ActivityIndicator(ActivityIndicator.TerminalSpinner()), RequestLog(.summary)]
/// ```
///
/// A call that fails before it has a request, for example because the table lacks its domain, is not reported. The
/// methods are called one after the other for each call, on any thread, and the call waits until they return.
public protocol RequestAccessory: Sendable {
    /// Called just before a call starts.
    func willStart(_ call: ObservedCall)
    /// Called when a call has started and can be cancelled.
    func didStart(_ call: ObservedCall)
    /// Called when a call has ended, before its caller gets the result. A streamed response ends with its body.
    func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>)
    /// Called after the caller's closure has been called, or just before an `async` caller gets the result.
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>)
    /// Called for every event of a call.
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

/// Distributes the events of a manager's calls. A slow reader loses the oldest.
typealias CallEventHub = EventHub<CallEvent>

extension EventHub<CallEvent> {
    /// The maximum number of events that are kept for a reader.
    static var bufferSize: Int { 4_096 }
}

/// The observers of a manager's calls.
struct CallReporters: Sendable {
    let secrets: Secrets
    let accessories: [any RequestAccessory]
    let hub: CallEventHub
}

/// Reports the events of one call to its observers, in order. The start and the end are reported once each.
final class CallReporter: Sendable {
    private enum Phase: Int {
        case new, started, finishing, finished
    }

    let call: ObservedCall
    private let watchers: CallReporters
    private let startedAt = ContinuousClock.now
    private let phase = Atomic(Phase.new.rawValue)
    private let attempts = Atomic(0)

    init(_ watchers: CallReporters, _ call: ObservedCall) {
        self.watchers = watchers
        self.call = call
    }

    func start() {
        guard advance(from: .new, to: .started) else { return }
        for accessory in watchers.accessories { accessory.willStart(call) }
        record(.started)
        for accessory in watchers.accessories { accessory.didStart(call) }
    }

    /// Returns the number of the attempt that starts, or that a redirect's hop belongs to.
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

    /// Reports the end of the call before its caller gets the result. Does nothing for a call that never started.
    func willFinish(_ result: Result<HTTPResponse, NetworkError>) {
        guard advance(from: .started, to: .finishing) else { return }
        for accessory in watchers.accessories { accessory.willFinish(call, result) }
        record(.finished(result))
    }

    /// Reports that the caller has the result.
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

extension HTTPRequest {
    /// The observers of this request alone, called after the manager's. Default none.
    ///
    /// ```swift
    /// request.accessories = [RequestLog(.curl)]          // logs this call only
    /// ```
    ///
    /// Two requests with accessories are equal only if one is a copy of the other.
    public var accessories: [any RequestAccessory] {
        get { observers?.list.compactMap { $0 as? any RequestAccessory } ?? [] }
        set { observers = newValue.isEmpty ? nil : RequestObservers(newValue) }
    }

    /// Adds closures that are called just before the call starts, and after its caller has got the result.
    ///
    /// ```swift
    /// request.observe(willStart: { _ in spinner.show() }, didFinish: { _, result in spinner.dismiss() })
    /// ```
    public mutating func observe(
        willStart: @escaping @Sendable (_ call: ObservedCall) -> Void = { _ in },
        didFinish: @escaping @Sendable (_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) -> Void = {
            _, _ in
        }
    ) {
        accessories.append(ClosureAccessory(start: willStart, end: didFinish))
    }
}

struct ClosureAccessory: RequestAccessory {
    let start: @Sendable (ObservedCall) -> Void
    let end: @Sendable (ObservedCall, Result<HTTPResponse, NetworkError>) -> Void

    func willStart(_ call: ObservedCall) { start(call) }
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { end(call, result) }
}
