public import FoundationEssentials
public import HTTPCore

/// A request of an entity, with settings and ways to start it: a ``RequestEntity``, or a call of one.
///
/// ```swift
/// let reply = try await FetchUser(id: 42).timeout(.seconds(5)).header("User-Agent", "Demo/1").reply()
/// ```
///
/// Each setting returns a call, which is a value: the entity itself, and its other calls, do not change.
public protocol EntityRequest<Model> {
    /// The type that the response is decoded to.
    associatedtype Model: Decodable & Sendable

    /// The call. For an entity, a new call with the entity's current values.
    var call: EntityCall<Model> { get }
}

// Settings of a call.
extension EntityRequest {
    private func with(_ change: (inout RequestOptions) -> Void) -> EntityCall<Model> {
        var call = call
        change(&call.options)
        return call
    }

    /// Sets any setting; it overrides the entity's.
    ///
    /// ```swift
    /// try await FetchUser(id: 42).setting(\.connectTimeout, .seconds(2)).setting(\.tls.minimumVersion, .v1_3).startRequest()
    /// ```
    public func setting<Value>(
        _ setting: WritableKeyPath<RequestOptions.Values, Value>, _ value: Value
    ) -> EntityCall<Model> {
        with { $0[dynamicMember: setting] = value }
    }

    /// Sets the total timeout.
    public func timeout(_ timeout: Duration) -> EntityCall<Model> { with { $0.timeout = timeout } }

    /// Sets a header field; `nil` removes the field that the entity, the table, the provider or the manager set.
    public func header(_ name: String, _ value: String?) -> EntityCall<Model> { with { $0.headers[name] = value } }

    /// Sets header fields; they override the entity's.
    public func headers(_ headers: HTTPHeaders) -> EntityCall<Model> { with { $0.headers.merge(headers) } }

    /// Sends only the entity's and this call's headers, not those of the manager, the table and the provider.
    public func replacingGlobalHeaders() -> EntityCall<Model> { with { $0.replacesGlobalHeaders = true } }

    /// Sets how the cache is used.
    public func cache(_ policy: CachePolicy) -> EntityCall<Model> { with { $0.cachePolicy = policy } }

    /// Sets the user whose responses are stored and found (``RequestOptions/Values/cachePartition``).
    public func cachePartition(_ partition: String) -> EntityCall<Model> { with { $0.cachePartition = partition } }

    /// Stores and looks up the response also when the method is not GET or HEAD, except for `PUT`, `PATCH` and `DELETE`; the
    /// key then includes the request's body.
    public func cachesUnsafeMethods() -> EntityCall<Model> { with { $0.cachesUnsafeMethods = true } }

    /// Sets parameters; they override the entity's.
    public func parameters(_ parameters: Parameters) -> EntityCall<Model> {
        var call = call
        call.extraParameters.merge(parameters) { $1 }
        return call
    }

    /// Sets how parameters are encoded as a body.
    public func parameterEncoding(_ encoding: ParameterEncoding) -> EntityCall<Model> {
        with { $0.parameterEncoding = encoding }
    }

    /// Sets how parameters are written and the response is read.
    public func coding(_ coding: Coding) -> EntityCall<Model> { with { $0.coding = coding } }

    /// Sets how often an idempotent request is retried after a network failure.
    public func retries(_ count: Int) -> EntityCall<Model> { with { $0.retries = count } }

    /// Sets whether redirects are followed.
    public func redirects(_ policy: RedirectPolicy) -> EntityCall<Model> { with { $0.redirects = policy } }

    /// Sets the credentials.
    public func authentication(_ authentication: Authentication) -> EntityCall<Model> {
        with { $0.authentication = authentication }
    }

    /// Sets the priority: waiting requests of a higher priority start first.
    public func priority(_ priority: RequestPriority) -> EntityCall<Model> { with { $0.priority = priority } }

    /// Sets whether the content is sealed, and by which sealer.
    public func sealing(_ policy: RequestOptions.Sealing) -> EntityCall<Model> { with { $0.sealing = policy } }

    /// Sets the coding in which the body is sent, such as `.gzip`.
    public func contentCoding(_ coding: ContentCoding) -> EntityCall<Model> { with { $0.contentCoding = coding } }

    /// Sets the fields that are sent after the body.
    public func trailers(_ trailers: HTTPRequest.Trailers) -> EntityCall<Model> { with { $0.trailers = trailers } }

    /// Limits the bytes of bodies that are received and sent per second; `nil`, the default, for the manager's limit.
    public func maxRate(receive: Int64? = nil, send: Int64? = nil) -> EntityCall<Model> {
        with { ($0.maxReceiveRate, $0.maxSendRate) = (receive, send) }
    }

    /// Names a group of calls that ``CentralRequestManager/cancelRequests(_:)`` ends together.
    public func tag(_ tag: String) -> EntityCall<Model> { with { $0.tag = tag } }

    /// Sets what happens when an equal request is running.
    public func duplicates(_ policy: DuplicatePolicy) -> EntityCall<Model> { with { $0.duplicates = policy } }

    /// Sets when the request is retried.
    public func retryPolicy(_ policy: RetryPolicy) -> EntityCall<Model> { with { $0.retryPolicy = policy } }

    /// Sets the time limit of the whole call, including retries and waits.
    public func deadline(_ deadline: Duration) -> EntityCall<Model> { with { $0.deadline = deadline } }

    /// Sets the `Idempotency-Key`, by which the server recognizes a retry as the same request.
    public func idempotencyKey(_ key: String) -> EntityCall<Model> { with { $0.idempotencyKey = key } }

    /// Makes the calls that are started after this one wait until it has ended.
    public func asBarrier() -> EntityCall<Model> { with { $0.isBarrier = true } }

    /// Sets which ``Authenticator`` is used, or none.
    public func authenticator(_ policy: RequestOptions.AuthenticatorChoice) -> EntityCall<Model> {
        with { $0.authenticator = policy }
    }

    /// Sets the trace that the request belongs to.
    public func traceParent(_ parent: TraceParent) -> EntityCall<Model> { with { $0.traceParent = parent } }

    /// Sets the statuses that are a success, in place of 2xx and 304.
    public func acceptedStatuses(_ statuses: Set<Int>) -> EntityCall<Model> { with { $0.acceptedStatuses = statuses } }

    /// Sets what the app wants to find again in observers and errors. It is not sent.
    public func userInfo(_ values: [String: JSONValue]) -> EntityCall<Model> {
        with { $0.userInfo.merge(values) { $1 } }
    }

    /// Adds an observer of this call alone, such as a ``RequestLog``.
    public func accessory(_ accessory: any RequestAccessory) -> EntityCall<Model> {
        with { $0.accessories.append(accessory) }
    }

    /// Adds closures that are called just before the call starts, and when its caller gets the result.
    public func observe(
        willStart: @escaping @Sendable (_ call: ObservedCall) -> Void = { _ in },
        didFinish: @escaping @Sendable (_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) -> Void = {
            _, _ in
        }
    ) -> EntityCall<Model> {
        accessory(ClosureAccessory(start: willStart, end: didFinish))
    }

    /// Uses a fixture, a canned response or another server instead of the domain's server.
    public func simulated(_ simulation: Simulation) -> EntityCall<Model> {
        var call = call
        call.simulation = simulation
        return call
    }

    /// Sets a handler of the progress, called on the manager's callback executor. Streams and downloads ignore it.
    public func progress(_ handler: @escaping ProgressHandler) -> EntityCall<Model> {
        var call = call
        call.progressHandler = handler
        return call
    }
}

// Starting a call.
extension EntityRequest {
    /// Sends the request and decodes its response.
    ///
    /// - Parameters:
    ///   - manager: sends the request. Default ``CentralRequestManager/shared``, as in the other forms.
    ///   - isolation: the caller's actor, on which this method runs. Leave the default.
    /// - Throws: ``NetworkError``: `business` when the server answered and reported a failure, `httpStatus`, `decoding`
    ///   and the network kinds; `CancellationError` when the current task was cancelled.
    @discardableResult
    public func startRequest(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Model {
        try await reply(on: manager).model
    }

    /// Sends the request and returns the model with its response and envelope. With ``CachePolicy/cacheThenNetwork``
    /// this is the network's reply, or its failure; only ``replies(on:)`` and closures receive the cached one.
    ///
    /// - Throws: as ``startRequest(on:isolation:)``.
    public func reply(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Reply<Model> {
        let call = call
        return try await manager.reply(to: try call.plan(), as: Model.self, progress: call.progressHandler)
    }

    /// The replies as they arrive: one, or two with ``CachePolicy/cacheThenNetwork``, the cached one first.
    ///
    /// When the network fails after a cached reply, the sequence delivers that reply before it throws.
    public func replies(on manager: CentralRequestManager = .shared) -> AsyncThrowingStream<Reply<Model>, any Error> {
        let call = call
        return AsyncThrowingStream { continuation in
            let work = Task {
                do {
                    let reply = try await manager.reply(
                        to: try call.plan(), as: Model.self, progress: call.progressHandler,
                        cached: { continuation.yield($0) })
                    continuation.yield(reply)
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in work.cancel() }
        }
    }

    /// Sends the request and calls back once, never synchronously, on the manager's callback executor: with
    /// data and model, or with the error and, if there was a response, its data.
    ///
    /// With ``CachePolicy/cacheThenNetwork`` it may be called once before that with a cached reply;
    /// ``RequestTask/isFinished`` is `false` then.
    @discardableResult
    public func startRequest(
        on manager: CentralRequestManager = .shared,
        _ completion: @escaping @Sendable (_ data: Data?, _ model: Model?, _ error: NetworkError?) -> Void
    ) -> RequestTask {
        let call = call
        let plan = Result { () throws(NetworkError) in try call.plan() }
        return manager.start(plan, as: Model.self, progress: call.progressHandler) { _, result in
            switch result {
            case .success(let reply): completion(reply.response.data, reply.model, nil)
            case .failure(let error): completion(error.response?.data, nil, error)
            }
        }
    }

    /// Sends the request and returns its response as soon as the head has arrived. The body is then read from
    /// ``HTTPResponse/body``, with backpressure, and is not decoded.
    ///
    /// The status decides whether it is a success; envelope and judge, which need the whole body, are not asked. If the
    /// call has an envelope or a judge, the cache does not store the response, because it might be a failure.
    ///
    /// - Throws: as ``CentralRequestManager/stream(_:)``.
    public func stream(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> HTTPResponse {
        var plan = try call.plan()
        plan.streams = true
        return try await manager.stream(plan)
    }
}

extension RequestSelection {
    /// Selects the calls of a type of entity.
    public static func entity<Entity: RequestEntity>(_ type: Entity.Type) -> RequestSelection {
        RequestSelection(.entityType(ObjectIdentifier(type)))
    }

    /// Selects the calls of equal entities: of the same type, with equal parameters and properties.
    public static func entity<Entity: RequestEntity>(_ entity: Entity) -> RequestSelection {
        // An entity that cannot be encoded has no calls.
        guard let reference = try? EntityContent(entity).reference else { return RequestSelection(.keys([])) }
        return RequestSelection(.entity(reference))
    }
}
