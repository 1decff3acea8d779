package import CurlTransport
public import FoundationEssentials
public import HTTPCore
public import ResponseCache

/// A call as its observers see it.
public struct ObservedCall: Sendable, Identifiable {
    /// One object for each call, because every event of the call has a copy of ``ObservedCall``.
    private final class Facts: Sendable {
        let id: UInt64
        let request: HTTPRequest
        let entityHeaders: HTTPHeaders
        let tag: String?
        let secrets: Secrets
        let trace: TraceParent?
        let startsTrace: Bool
        let startTime = Date()
        let row: Row?
        let origin: CallOrigin?

        init(
            id: UInt64, request: HTTPRequest, entityHeaders: HTTPHeaders, tag: String?, secrets: Secrets,
            trace: TraceParent?, startsTrace: Bool, row: Row?, origin: CallOrigin?
        ) {
            self.id = id
            self.request = request
            self.entityHeaders = entityHeaders
            self.tag = tag
            self.secrets = secrets
            self.trace = trace
            self.startsTrace = startsTrace
            self.row = row
            self.origin = origin
        }
    }

    private let facts: Facts
    /// What the request of an attempt adds to the secrets of the call; `nil` for nothing.
    private var added: Secrets?

    init(
        id: UInt64, request: HTTPRequest, entityHeaders: HTTPHeaders, tag: String?, secrets: Secrets, row: Row?,
        joinedTrace: TraceParent?, _ accessories: [any RequestAccessory], _ origin: CallOrigin?
    ) {
        let trace = joinedTrace ?? accessories.lazy.compactMap { $0.trace(of: request) }.first
        facts = Facts(
            id: id, request: request, entityHeaders: entityHeaders, tag: tag, secrets: secrets, trace: trace,
            startsTrace: joinedTrace == nil && trace != nil, row: row, origin: origin)
    }

    /// A number that is unique among the calls of the process.
    public var id: UInt64 { facts.id }
    /// The request of the call, before any provider adds to it.
    public var request: HTTPRequest { facts.request }
    /// The header fields that the call's entity has set itself. A field of the call replaces one of the same name.
    public var entityHeaders: HTTPHeaders { facts.entityHeaders }
    /// The tag of the request.
    public var tag: String? { facts.tag }
    /// What must not be shown of the call: the manager's list and what the request's row adds. An event about an
    /// attempt adds the fields that the authenticator has set.
    public var secrets: Secrets { added.map(facts.secrets.union) ?? facts.secrets }
    /// The trace of the call: the request's, else the task's, else what an observer began; `nil` for none.
    public var trace: TraceParent? { facts.trace }
    /// Whether ``trace`` begins with this call, so that its span is the call's own.
    public var startsTrace: Bool { facts.startsTrace }
    /// When the call began.
    public var startTime: Date { facts.startTime }
    /// The rows of the table that the call belongs to; `nil` for a call of a plain URL.
    public var row: Row? { facts.row }

    /// The request with the credentials that the engine adds to it: those of the netrc file and of the proxy, and the cookies
    /// of the jar.
    package func completed(_ request: HTTPRequest) -> HTTPRequest { facts.origin?.completes?(request) ?? request }

    /// The manager of the call; `nil` when it is gone.
    package var manager: CentralRequestManager? { facts.origin?.manager.value }

    /// The call for the events about an attempt, whose request may have more secrets.
    func sending(_ request: HTTPRequest) -> ObservedCall {
        let secrets = request.context.rowSecrets
        guard !secrets.isEmpty else { return self }
        var call = self
        call.added = secrets
        return call
    }

    /// The key of the call, for ``RequestSelection/key(_:)``.
    public var key: String { "request-\(id)" }

    /// The rows that a call belongs to. There are few different values, however many URLs are requested.
    public struct Row: Hashable, Sendable {
        /// The name of the domain row; `nil` for a route outside the table.
        public let domain: String?
        /// The name of the server row; `nil` for a route that names only a domain or a URL.
        public let server: String?
        /// The path with the names of its parameters in braces: `/users/{id}`.
        public let path: String
        /// What set each header of the rows, such as a line of the table's file, by the header's name in lower case.
        public let headerOrigins: [String: DomainTable.SettingOrigin]
    }
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
        indirect case sending(attempt: Int, HTTPRequest)
        /// An attempt received a response, with any status.
        indirect case answered(attempt: Int, HTTPResponse)
        /// An attempt received no response.
        case failed(attempt: Int, NetworkError)
        /// The next attempt starts after this time.
        case retrying(after: Duration)
        /// The call is sent a second time beside the first, because it has had no response for this time.
        case hedging(after: Duration)
        /// An attempt was cancelled, because another one was answered first.
        case abandoned(attempt: Int)
        /// The call is sent again, because its token was renewed.
        case replaying
        /// The wait has ended. A call that ends while it waits has no such event.
        case waited(Wait)
        /// Where the values of the next attempt's fields came from, by their names in lower case. Fields that are not named
        /// were added later: by a signer, a sealer or the cache.
        case composed([String: FieldSource])
        /// The cache decided, and why.
        case cache(CacheExplanation.Verdict)
        /// A response is not stored, and why.
        case notStored(CacheRefusal)
        /// The server answered with a status that the row's `documented` does not have. An attempt that is repeated has an event
        /// of its own.
        case undocumentedStatus(Int)
        /// The reply has a value of an enum that is not one of its ``KnownValues``. Each value of a reply is one event. The value
        /// is content of the reply, as JSON, with at most 200 Unicode scalars of a text. Of a reply that is decoded after its
        /// call, as the result of a poll without `until`, there is none.
        indirect case unknownValue(type: String, value: String)
        /// A fault was made on purpose (``RequestOptions/Chaos``).
        case chaos(RequestOptions.Chaos.Fault)
        /// The call ended with this result for its caller. Events of an attempt that was slower than another one may follow.
        indirect case finished(Result<HTTPResponse, NetworkError>)
    }

    /// Where the value of a request's field came from.
    public enum FieldSource: String, Hashable, Sendable {
        /// The manager's `headers`.
        case manager
        /// A row of the table.
        case row
        /// A provider of the app.
        case provider
        /// The entity of the call.
        case entity
        /// The call itself, such as `header(_:_:)` or the `headers` of a central call, or the encoding of its body.
        case call
        /// The authenticator, or an interceptor of the app.
        case authenticator
    }

    /// What a call waits for.
    public enum Wait: String, Hashable, Sendable {
        /// The end of a barrier.
        case barrier
        /// A slot or a token of the limits: the manager's, those of the rows, or those that processes share.
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
    /// The number of redirects before an event of an attempt or a decision of the cache; 0 for any other event.
    public let hop: Int
    /// The request as it was sent; `nil` for events that are not those of an attempt.
    public var request: HTTPRequest? { sent?.request }
    /// The time since the attempt was sent; `nil` for other events than its response or failure.
    public let elapsed: Duration?
    let sent: SentAttempt?
}

/// Observes the calls of a manager. Each of the first four methods is called once for every observed call, in this order,
/// however the call ends.
///
/// ```swift
/// configuration.accessories = [RequestLog(.summary)]
/// ```
///
/// A call that fails before it has a request, for example because the table lacks its domain, is not reported. The
/// methods are called one after the other for each call, on any thread, and the call waits until they return.
public protocol RequestAccessory: Sendable {
    /// Receives the end of an attempt.
    typealias AttemptEnd = @Sendable (_ result: Result<HTTPResponse, NetworkError>) -> Void

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
    /// Called first, on the caller's thread and with its task-local values. `false` keeps a call from this observer: none of
    /// the other methods is called for it, and if no observer wants it, no events are made.
    func observes(_ request: HTTPRequest) -> Bool
    /// Called before each attempt and each hop of a redirect is sent. Fields that are set here are sent, but not signed, and
    /// take the place of `traceparent` and `baggage` of ``ObservedCall/trace``.
    ///
    /// - Parameters:
    ///   - request: the request that is about to be sent.
    ///   - resends: how many requests were sent for the call before; 0 for the first one.
    /// - Returns: a closure that is called once with the response to this request or its failure. A streamed body is not read
    ///   yet. `nil` for none.
    func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd?
    /// Called before the other methods for a call without a trace. The first trace that an observer returns is the call's.
    func trace(of request: HTTPRequest) -> TraceParent?
    /// Called with each piece of a streamed response that the caller reads, before the caller gets it.
    func didRead(_ chunk: Data, of call: ObservedCall)
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
    /// `true`.
    public func observes(_ request: HTTPRequest) -> Bool { true }
    /// Changes nothing.
    public func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? { nil }
    /// `nil`.
    public func trace(of request: HTTPRequest) -> TraceParent? { nil }
    /// Does nothing.
    public func didRead(_ chunk: Data, of call: ObservedCall) {}
}

/// An accessory that also sees what libcurl sends.
package protocol SentHeadObserver: RequestAccessory {
    /// Called when the head of a request was sent, on the engine's thread, so it must be quick. With Digest, and with a
    /// connection that the server has closed, one attempt sends several.
    func didSend(_ head: SentHead, for call: ObservedCall)
}

/// An accessory that only counts, such as `Metrics` of LATInspect. It gets the requests and responses themselves. No events are
/// made for it, so it slows a call less than another accessory does.
///
/// The methods of ``RequestAccessory`` are not called. Those of this protocol are called on any thread, and the call waits
/// until they return.
public protocol CallMeter: RequestAccessory {
    /// Called when a call starts.
    func callDidStart()
    /// Called when an attempt is sent, with all its headers. The hop of a redirect counts as one.
    func attemptDidStart(_ request: HTTPRequest)
    /// Called when an attempt has received a response, with any status.
    ///
    /// - Parameters:
    ///   - request: the request as it was sent.
    ///   - response: the response; a streamed body is not read yet.
    ///   - row: the rows of the table that the call belongs to; `nil` for a call of a plain URL.
    ///   - time: the time since the attempt started.
    func attemptDidEnd(
        _ request: HTTPRequest, with response: HTTPResponse, row: ObservedCall.Row?, after time: Duration)
    /// Called when an attempt has ended without a response. The parameters are those of the method above.
    func attemptDidFail(_ request: HTTPRequest, with error: NetworkError, row: ObservedCall.Row?, after time: Duration)
    /// Called in place of the two methods above when an attempt was cancelled because another one of the same call was answered
    /// first. It is neither a failure nor a sample of the server's speed. By default it is reported as a failure of the kind
    /// ``NetworkError/Kind/cancelled``, so that each start has its end.
    func attemptWasAbandoned(_ request: HTTPRequest, row: ObservedCall.Row?, after time: Duration)
    /// Called for what happens between attempts: waits and their ends, repetitions, decisions of the cache.
    func count(_ kind: CallEvent.Kind)
    /// Called when a call has ended, before its caller gets the result.
    func callDidEnd(with result: Result<HTTPResponse, NetworkError>, after time: Duration)
    /// Called when an established connection was closed, on the engine's thread, so it must be quick.
    ///
    /// - Parameters:
    ///   - origin: scheme, host and port of the request that the connection was opened for: `https://example.org:443`.
    ///   - time: how long it was open.
    func connectionDidClose(to origin: String, after time: Duration)
}

extension CallMeter {
    /// Does nothing.
    public func connectionDidClose(to origin: String, after time: Duration) {}

    /// Calls ``attemptDidFail(_:with:row:after:)`` with ``NetworkError/Kind/cancelled``.
    public func attemptWasAbandoned(_ request: HTTPRequest, row: ObservedCall.Row?, after time: Duration) {
        let message = "another request of the same call was answered first"
        attemptDidFail(
            request, with: NetworkError(.cancelled, message: message, request: request), row: row, after: time)
    }
}

extension RequestOptions.Values {
    /// The observers of this request alone, called after the manager's. Those of an entity and of its call are all called.
    /// Default none.
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
}

extension HTTPRequest {
    /// Adds closures that are called just before the call starts, and when its caller gets the result.
    ///
    /// ```swift
    /// request.observe(willStart: { call in print(call.key) }, didFinish: { _, result in print(result) })
    /// ```
    public mutating func observe(
        willStart: @escaping @Sendable (_ call: ObservedCall) -> Void = { _ in },
        didFinish: @escaping @Sendable (_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) -> Void = {
            _, _ in
        }
    ) {
        options.accessories.append(ClosureAccessory(start: willStart, end: didFinish))
    }
}

struct ClosureAccessory: RequestAccessory {
    let start: @Sendable (ObservedCall) -> Void
    let end: @Sendable (ObservedCall, Result<HTTPResponse, NetworkError>) -> Void

    func willStart(_ call: ObservedCall) { start(call) }
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { end(call, result) }
}
