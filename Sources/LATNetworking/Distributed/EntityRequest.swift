public import FoundationEssentials
public import HTTPCore

/// What can be sent as an entity's request, and set on it first: a ``RequestEntity``, or a call of one.
///
/// ```swift
/// let reply = try await FetchUser(id: 42).timeout(.seconds(5)).header("User-Agent", "Demo/1").reply()
/// ```
///
/// Each setting gives a call, which is a value: the entity itself, and other calls of it, stay as they are.
public protocol EntityRequest<Model> {
    /// What the answer is decoded to.
    associatedtype Model: Decodable & Sendable

    /// The call: of an entity, one of it as it is now.
    var call: EntityCall<Model> { get }
}

extension RequestEntity {
    /// A call of this entity as it is now.
    public var call: EntityCall<Model> { EntityCall(self) }
}

// Settings of a call.
extension EntityRequest {
    /// The total timeout.
    public func timeout(_ timeout: Duration) -> EntityCall<Model> { call.with { $0.options.timeout = timeout } }

    /// A header; `nil` removes what everybody else set.
    public func header(_ name: String, _ value: String?) -> EntityCall<Model> {
        call.with { $0.options.headers[name] = value }
    }

    /// Headers, laid over the entity's.
    public func headers(_ headers: HTTPHeaders) -> EntityCall<Model> { call.with { $0.options.headers.merge(headers) } }

    /// Sends the entity's and this call's headers only, as if nobody else had set any.
    public func replacingGlobalHeaders() -> EntityCall<Model> { call.with { $0.options.replacesGlobalHeaders = true } }

    /// How a cache may take part.
    public func cache(_ policy: CachePolicy) -> EntityCall<Model> { call.with { $0.options.cachePolicy = policy } }

    /// The user whose answers are stored and found (``HTTPRequest/cachePartition``).
    public func cachePartition(_ partition: String) -> EntityCall<Model> {
        call.with { $0.options.cachePartition = partition }
    }

    /// Stores and looks up the answer also when the method is not GET; its body is then part of the key.
    public func cachesUnsafeMethods() -> EntityCall<Model> { call.with { $0.options.cachesUnsafeMethods = true } }

    /// Parameters, laid over the entity's.
    public func parameters(_ parameters: Parameters) -> EntityCall<Model> {
        call.with { $0.extraParameters.merge(parameters) { $1 } }
    }

    /// How parameters become a body.
    public func parameterEncoding(_ encoding: ParameterEncoding) -> EntityCall<Model> {
        call.with { $0.options.parameterEncoding = encoding }
    }

    /// How often the request is repeated after a failure of the network, when it is idempotent.
    public func retries(_ count: Int) -> EntityCall<Model> { call.with { $0.options.retries = count } }

    /// Whether redirects are followed.
    public func redirects(_ policy: RedirectPolicy) -> EntityCall<Model> { call.with { $0.options.redirects = policy } }

    /// Credentials.
    public func authentication(_ authentication: Authentication) -> EntityCall<Model> {
        call.with { $0.options.authentication = authentication }
    }

    /// Which request is started first when several wait.
    public func priority(_ priority: RequestPriority) -> EntityCall<Model> {
        call.with { $0.options.priority = priority }
    }

    /// Whether the content is sealed, and by which sealer.
    public func sealing(_ policy: SealingPolicy) -> EntityCall<Model> { call.with { $0.options.sealing = policy } }

    /// Whether the body is compressed with gzip.
    public func compressingBody(_ compresses: Bool = true) -> EntityCall<Model> {
        call.with { $0.options.compressesBody = compresses }
    }

    /// Fields that are sent after the body.
    public func trailers(_ trailers: RequestTrailers) -> EntityCall<Model> {
        call.with { $0.options.trailers = trailers }
    }

    /// The most bytes of bodies that are received and sent in a second; `nil` for no limit but the manager's.
    public func maxRate(receive: Int64? = nil, send: Int64? = nil) -> EntityCall<Model> {
        call.with { ($0.options.maxReceiveRate, $0.options.maxSendRate) = (receive, send) }
    }

    /// Names a group of calls that ``CentralRequestManager/cancelRequests(_:)`` ends together.
    public func tag(_ tag: String) -> EntityCall<Model> { call.with { $0.options.tag = tag } }

    /// What happens when the same request is under way.
    public func duplicates(_ policy: DuplicatePolicy) -> EntityCall<Model> {
        call.with { $0.options.duplicates = policy }
    }

    /// When the request is repeated.
    public func retryPolicy(_ policy: RetryPolicy) -> EntityCall<Model> {
        call.with { $0.options.retryPolicy = policy }
    }

    /// The longest time of the whole call, repetitions and waits included.
    public func deadline(_ deadline: Duration) -> EntityCall<Model> { call.with { $0.options.deadline = deadline } }

    /// Tells the server that repetitions are one request.
    public func idempotencyKey(_ key: String) -> EntityCall<Model> { call.with { $0.options.idempotencyKey = key } }

    /// Holds the calls that are started after this one until it is over.
    public func asBarrier() -> EntityCall<Model> { call.with { $0.options.isBarrier = true } }

    /// Goes past the manager's ``Authenticator``.
    public func withoutAuthenticator() -> EntityCall<Model> { call.with { $0.options.authenticates = false } }

    /// The trace the request belongs to.
    public func traceParent(_ parent: TraceParent) -> EntityCall<Model> {
        call.with { $0.options.traceParent = parent }
    }

    /// Answers from a fixture, a canned reply or another server instead of the domain's.
    public func simulated(_ simulation: Simulation) -> EntityCall<Model> { call.with { $0.simulation = simulation } }

    /// Called with the progress, where the manager's callbacks run.
    public func progress(_ handler: @escaping ProgressHandler) -> EntityCall<Model> {
        call.with { $0.progressHandler = handler }
    }
}

// Starting a call.
extension EntityRequest {
    /// Sends the request and decodes its answer.
    ///
    /// - Throws: ``NetworkError``: `business` when the server answered and said no, `httpStatus`, `decoding` and the
    ///   kinds of the network; `CancellationError` when the current task was cancelled.
    public func startRequest(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Model {
        try await reply(on: manager).model
    }

    /// Sends the request and gives the answer with all around it. With ``CachePolicy/cacheThenNetwork`` that is the
    /// network's, or its failure; what is cached goes to ``replies(on:)`` and to closures only.
    ///
    /// - Throws: as ``startRequest(on:isolation:)``.
    public func reply(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Reply<Model> {
        let call = call
        return try await manager.reply(to: try call.plan(), as: Model.self, progress: call.progressHandler)
    }

    /// The replies as they come: one, or two with ``CachePolicy/cacheThenNetwork``, the cached one first
    /// (``HTTPResponse/source`` tells).
    ///
    /// When the network fails after a cached reply, the sequence throws after it; without one it throws at once.
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

    /// Sends the request and calls back once, later, where the manager's callbacks run: with data and model, or with
    /// the error, and then with the data when there was an answer.
    ///
    /// With ``CachePolicy/cacheThenNetwork`` it may be called once before, with what is cached;
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
}

extension RequestSelection {
    /// The calls of a type of entity.
    public static func entity<Entity: RequestEntity>(_ type: Entity.Type) -> RequestSelection {
        RequestSelection(.entityType(ObjectIdentifier(type)))
    }

    /// The calls of an entity of this type that says the same of its request: equal parameters and properties.
    public static func entity<Entity: RequestEntity>(_ entity: Entity) -> RequestSelection {
        guard let reference = try? EntityContent(entity).reference else {
            // One that does not encode has no calls.
            return RequestSelection(.keys([]))
        }
        return RequestSelection(.entity(reference.identity))
    }
}
