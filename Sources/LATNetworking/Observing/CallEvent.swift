public import HTTPCore

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
