public import FoundationEssentials
public import HTTPCore

/// One call of an entity, with what is special to it: a value, so that no call touches another.
///
/// ```swift
/// let reply = try await FetchUser(id: 42)
///     .timeout(.seconds(5)).header("User-Agent", "Demo/1").cache(.networkOnly)
///     .reply()
/// ```
///
/// The entity is read when the call is made, by the first of these methods.
public struct EntityCall<Model: Decodable & Sendable>: Sendable {
    /// What the entity said, or why it could not be read; thrown when the call is started.
    private var content: Result<EntityContent, NetworkError>
    private var options: RequestOptions
    private var extraParameters: Parameters = [:]
    private var simulation: Simulation?
    private var progressHandler: ProgressHandler?

    init(_ entity: some RequestEntity) {
        content = Result { () throws(NetworkError) in try EntityContent(entity) }
        options = entity.options
    }

    // MARK: Settings of the call

    /// The total timeout.
    public func timeout(_ timeout: Duration) -> Self { with { $0.options.timeout = timeout } }

    /// A header; `nil` removes what everybody else set.
    public func header(_ name: String, _ value: String?) -> Self { with { $0.options.headers[name] = value } }

    /// Headers, laid over the entity's.
    public func headers(_ headers: HTTPHeaders) -> Self { with { $0.options.headers.merge(headers) } }

    /// Sends the entity's and this call's headers only, as if nobody else had set any.
    public func replacingGlobalHeaders() -> Self { with { $0.options.replacesGlobalHeaders = true } }

    /// How a cache may take part.
    public func cache(_ policy: CachePolicy) -> Self { with { $0.options.cachePolicy = policy } }

    /// Stores and looks up the answer also when the method is not GET; its body is then part of the key.
    public func cachesUnsafeMethods() -> Self { with { $0.options.cachesUnsafeMethods = true } }

    /// Parameters, laid over the entity's.
    public func parameters(_ parameters: Parameters) -> Self {
        with { $0.extraParameters.merge(parameters) { $1 } }
    }

    /// How parameters become a body.
    public func parameterEncoding(_ encoding: ParameterEncoding) -> Self {
        with { $0.options.parameterEncoding = encoding }
    }

    /// How often the request is repeated after a failure of the network, when it is idempotent.
    public func retries(_ count: Int) -> Self { with { $0.options.retries = count } }

    /// Whether redirects are followed.
    public func redirects(_ policy: RedirectPolicy) -> Self { with { $0.options.redirects = policy } }

    /// Credentials.
    public func authentication(_ authentication: Authentication) -> Self {
        with { $0.options.authentication = authentication }
    }

    /// Which request is started first when several wait.
    public func priority(_ priority: RequestPriority) -> Self { with { $0.options.priority = priority } }

    /// Whether the content is sealed, and by which sealer.
    public func sealing(_ policy: SealingPolicy) -> Self { with { $0.options.sealing = policy } }

    /// Names a group of calls that ``CentralRequestManager/cancelRequests(_:)`` ends together.
    public func tag(_ tag: String) -> Self { with { $0.options.tag = tag } }

    /// What happens when the same request is under way.
    public func duplicates(_ policy: DuplicatePolicy) -> Self { with { $0.options.duplicates = policy } }

    /// When the request is repeated.
    public func retryPolicy(_ policy: RetryPolicy) -> Self { with { $0.options.retryPolicy = policy } }

    /// The longest time of the whole call, repetitions and waits included.
    public func deadline(_ deadline: Duration) -> Self { with { $0.options.deadline = deadline } }

    /// Tells the server that repetitions are one request.
    public func idempotencyKey(_ key: String) -> Self { with { $0.options.idempotencyKey = key } }

    /// Holds the calls that are started after this one until it is over.
    public func asBarrier() -> Self { with { $0.options.isBarrier = true } }

    /// Goes past the manager's ``Authenticator``.
    public func withoutAuthenticator() -> Self { with { $0.options.authenticates = false } }

    /// The trace the request belongs to.
    public func traceParent(_ parent: TraceParent) -> Self { with { $0.options.traceParent = parent } }

    /// Answers from a fixture, a canned reply or another server instead of the domain's.
    public func simulated(_ simulation: Simulation) -> Self { with { $0.simulation = simulation } }

    /// Called with the progress, where the manager's callbacks run.
    public func progress(_ handler: @escaping ProgressHandler) -> Self { with { $0.progressHandler = handler } }

    private func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }

    // MARK: Starting

    /// Sends the request and decodes its answer.
    ///
    /// - Throws: ``NetworkError``: `business` when the server answered and said no, `httpStatus`, `decoding` and the
    ///   kinds of the network; `CancellationError` when the current task was cancelled.
    public func startRequest(on manager: CentralRequestManager = .shared) async throws -> Model {
        try await reply(on: manager).model
    }

    /// Sends the request and gives the answer with all around it. With ``CachePolicy/cacheThenNetwork`` that is the
    /// network's, or its failure; what is cached goes to ``replies(on:)`` and to closures only.
    ///
    /// - Throws: as ``startRequest(on:)``.
    public func reply(on manager: CentralRequestManager = .shared) async throws -> Reply<Model> {
        try await manager.reply(to: try plan(), as: Model.self, progress: progressHandler)
    }

    /// The replies as they come: one, or two with ``CachePolicy/cacheThenNetwork``, the cached one first
    /// (``HTTPResponse/source`` tells).
    ///
    /// When the network fails after a cached reply, the sequence throws after it; without one it throws at once.
    public func replies(on manager: CentralRequestManager = .shared) -> AsyncThrowingStream<Reply<Model>, any Error> {
        AsyncThrowingStream { continuation in
            let work = Task {
                do {
                    let reply = try await manager.reply(
                        to: try plan(), as: Model.self, progress: progressHandler,
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
        let plan = Result { () throws(NetworkError) in try self.plan() }
        return manager.start(plan, as: Model.self, progress: progressHandler) { _, result in
            switch result {
            case .success(let reply): completion(reply.response.data, reply.model, nil)
            case .failure(let error): completion(error.response?.data, nil, error)
            }
        }
    }

    func plan() throws(NetworkError) -> EntityPlan {
        var content = try content.get()
        if !extraParameters.isEmpty {
            let extra = try RequestBuilder.encoded(extraParameters)
            for name in extraParameters.keys { content.parameters.remove(name) }
            content.parameters.addMissing(extra)
        }
        return EntityPlan(content: content, options: options, simulation: simulation)
    }
}

/// What an entity says of its request, read once.
struct EntityContent: Sendable {
    var route: Route
    var parameters: EncodedMembers
    /// The encoded properties beside explicit parameters: they may fill the path.
    var properties = EncodedMembers()
    var files: [UploadFile]
    /// What entity it is, to cancel it by; `nil` for a call without one.
    var reference: EntityReference?

    init<Entity: RequestEntity>(_ entity: Entity) throws(NetworkError) {
        route = Entity.route
        files = entity.files
        if let explicit = entity.parameters {
            parameters = try RequestBuilder.encoded(explicit)
            if let encodable = entity as? any Encodable {
                properties = (try? RequestBuilder.properties(of: encodable, "")) ?? EncodedMembers()
            }
        } else if let encodable = entity as? any Encodable {
            parameters = try RequestBuilder.properties(of: encodable, "give it `parameters`")
        } else {
            parameters = EncodedMembers()
        }
        reference = EntityReference(type: ObjectIdentifier(Entity.self), parameters: parameters, properties: properties)
    }
}

/// All a manager needs to send an entity's request.
struct EntityPlan: Sendable {
    var content: EntityContent
    var options: RequestOptions
    var simulation: Simulation?
    /// The total timeout where neither the call nor a row names one; `nil` for the manager's.
    var standardTimeout: Duration?
}
