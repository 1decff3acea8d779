import HTTPCore

extension RequestOptions {
    /// Names a group of calls that ``CentralRequestManager/cancelRequests(_:)`` ends together. Default `nil`.
    public var tag: String? {
        get { flow?.tag }
        set { setFlow { $0.tag = newValue } }
    }

    /// What happens when the same request is under way. Default `nil`: the manager's choice.
    public var duplicates: DuplicatePolicy? {
        get { flow?.duplicates }
        set { setFlow { $0.duplicates = newValue } }
    }

    /// When the request is repeated. Default `nil`: the manager's policy; ``retries`` changes the number alone.
    public var retryPolicy: RetryPolicy? {
        get { flow?.retryPolicy }
        set { setFlow { $0.retryPolicy = newValue } }
    }

    /// The longest time of the whole call, repetitions, waits and queues included. Default `nil`: the manager's.
    public var deadline: Duration? {
        get { flow?.deadline }
        set { setFlow { $0.deadline = newValue } }
    }

    /// Whether the calls that are started after this one wait until it is over. Default `false`.
    public var isBarrier: Bool {
        get { flow?.isBarrier ?? false }
        set { setFlow { $0.isBarrier = newValue } }
    }

    /// Whether the manager's ``Authenticator`` has a say. Default `true`.
    public var authenticates: Bool {
        get { flow?.authenticates ?? true }
        set { setFlow { $0.authenticates = newValue } }
    }

    /// The trace the calls belong to. Default `nil`: ``TraceParent/current``.
    public var traceParent: TraceParent? {
        get { flow?.traceParent }
        set { setFlow { $0.traceParent = newValue } }
    }

    private mutating func setFlow(_ change: (inout FlowOptions) -> Void) {
        var changed = flow ?? .standard
        change(&changed)
        flow = changed
    }
}

extension RequestEntity {
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
}

extension RequestSelection {
    /// The calls of a type of entity.
    public static func entity<Entity: RequestEntity>(_ type: Entity.Type) -> RequestSelection {
        RequestSelection(.entityType(ObjectIdentifier(type)))
    }

    /// The calls of an entity of this type that says the same of its request: equal parameters and properties.
    public static func entity<Entity: RequestEntity>(_ entity: Entity) -> RequestSelection {
        guard let identity = try? EntityContent(entity).identity else {
            // One that does not encode has no calls.
            return RequestSelection(.key(""))
        }
        return RequestSelection(.entity(identity))
    }
}
