public import FoundationEssentials
public import HTTPCore

extension RequestEntity {
    /// A call of this entity as it is now; see ``EntityCall`` for what can be set on it.
    public var call: EntityCall<Model> { EntityCall(self) }

    /// A call with another total timeout.
    public func timeout(_ timeout: Duration) -> EntityCall<Model> { call.timeout(timeout) }

    /// A call with a header; `nil` removes what everybody else set.
    public func header(_ name: String, _ value: String?) -> EntityCall<Model> { call.header(name, value) }

    /// A call with headers, laid over the entity's.
    public func headers(_ headers: HTTPHeaders) -> EntityCall<Model> { call.headers(headers) }

    /// A call that sends the entity's and its own headers only.
    public func replacingGlobalHeaders() -> EntityCall<Model> { call.replacingGlobalHeaders() }

    /// A call with another cache policy.
    public func cache(_ policy: CachePolicy) -> EntityCall<Model> { call.cache(policy) }

    /// A call whose answer is stored and looked up also when the method is not GET.
    public func cachesUnsafeMethods() -> EntityCall<Model> { call.cachesUnsafeMethods() }

    /// A call with parameters laid over the entity's.
    public func parameters(_ parameters: Parameters) -> EntityCall<Model> { call.parameters(parameters) }

    /// A call whose parameters become a body in another way.
    public func parameterEncoding(_ encoding: ParameterEncoding) -> EntityCall<Model> {
        call.parameterEncoding(encoding)
    }

    /// A call that is repeated this often after a failure of the network, when it is idempotent.
    public func retries(_ count: Int) -> EntityCall<Model> { call.retries(count) }

    /// A call that follows redirects so.
    public func redirects(_ policy: RedirectPolicy) -> EntityCall<Model> { call.redirects(policy) }

    /// A call with credentials.
    public func authentication(_ authentication: Authentication) -> EntityCall<Model> {
        call.authentication(authentication)
    }

    /// A call with a priority.
    public func priority(_ priority: RequestPriority) -> EntityCall<Model> { call.priority(priority) }

    /// A call whose content is sealed so.
    public func sealing(_ policy: SealingPolicy) -> EntityCall<Model> { call.sealing(policy) }

    /// A call that is answered from a fixture, a canned reply or another server.
    public func simulated(_ simulation: Simulation) -> EntityCall<Model> { call.simulated(simulation) }

    /// A call that tells its progress.
    public func progress(_ handler: @escaping ProgressHandler) -> EntityCall<Model> { call.progress(handler) }

    /// A call with a tag; see ``EntityCall/tag(_:)``.
    public func tag(_ tag: String) -> EntityCall<Model> { call.tag(tag) }

    /// A call with its own rule for duplicates.
    public func duplicates(_ policy: DuplicatePolicy) -> EntityCall<Model> { call.duplicates(policy) }

    /// A call with its own rule for repetitions.
    public func retryPolicy(_ policy: RetryPolicy) -> EntityCall<Model> { call.retryPolicy(policy) }

    /// A call with a longest time for all of it.
    public func deadline(_ deadline: Duration) -> EntityCall<Model> { call.deadline(deadline) }

    /// A call whose repetitions are one request to the server.
    public func idempotencyKey(_ key: String) -> EntityCall<Model> { call.idempotencyKey(key) }

    /// A call that holds those that are started after it.
    public func asBarrier() -> EntityCall<Model> { call.asBarrier() }

    /// A call that goes past the manager's ``Authenticator``.
    public func withoutAuthenticator() -> EntityCall<Model> { call.withoutAuthenticator() }

    /// A call of a trace.
    public func traceParent(_ parent: TraceParent) -> EntityCall<Model> { call.traceParent(parent) }

    /// Sends the request and decodes its answer; see ``EntityCall/startRequest(on:)``.
    public func startRequest(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Model {
        try await call.startRequest(on: manager)
    }

    /// Sends the request and gives the answer with all around it; see ``EntityCall/reply(on:)``.
    public func reply(
        on manager: CentralRequestManager = .shared, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Reply<Model> {
        try await call.reply(on: manager)
    }

    /// The replies as they come; see ``EntityCall/replies(on:)``.
    public func replies(on manager: CentralRequestManager = .shared) -> AsyncThrowingStream<Reply<Model>, any Error> {
        call.replies(on: manager)
    }

    /// Sends the request and calls back once; see ``EntityCall/startRequest(on:_:)``.
    @discardableResult
    public func startRequest(
        on manager: CentralRequestManager = .shared,
        _ completion: @escaping @Sendable (_ data: Data?, _ model: Model?, _ error: NetworkError?) -> Void
    ) -> RequestTask {
        call.startRequest(on: manager, completion)
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
