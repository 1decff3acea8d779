public import HTTPCore

/// How one call goes along with others; every `nil` takes the manager's setting.
struct FlowOptions: Sendable {
    var tag: String?
    var duplicates: DuplicatePolicy?
    var retryPolicy: RetryPolicy?
    var deadline: Duration?
    /// When all has to be over, on the rooms' clock; set by the room of the deadline.
    var deadlineAt: Duration?
    var isBarrier = false
    var authenticates = true
    var traceParent: TraceParent?
    /// Tells of what happens to the call; `nil` while nobody listens.
    var timeline: CallTimeline?

    static let standard = FlowOptions()
}

extension HTTPRequest {
    /// The options; setting one of a request without any makes them.
    var flow: FlowOptions {
        get { flowOptions as? FlowOptions ?? .standard }
        set { flowOptions = newValue }
    }

    /// Names a group of calls that can be cancelled together: a screen, a user, a job. Default `nil`.
    public var tag: String? {
        get { flow.tag }
        set { flow.tag = newValue }
    }

    /// What happens when the same request is under way already. Default `nil`: the manager's choice.
    public var duplicates: DuplicatePolicy? {
        get { flow.duplicates }
        set { flow.duplicates = newValue }
    }

    /// When the request is repeated. Default `nil`: the manager's policy; ``retries`` changes the number alone.
    public var retryPolicy: RetryPolicy? {
        get { flow.retryPolicy }
        set { flow.retryPolicy = newValue }
    }

    /// The longest time of the whole call, repetitions, waits and queues included; over, it fails with
    /// ``NetworkError/Kind/timeout(_:)`` of phase ``NetworkError/TimeoutPhase/deadline``. Default `nil`: the manager's.
    public var deadline: Duration? {
        get { flow.deadline }
        set { flow.deadline = newValue }
    }

    /// Whether the requests that are started after this one wait until it is over, its repetitions included. Default
    /// `false`.
    public var isBarrier: Bool {
        get { flow.isBarrier }
        set { flow.isBarrier = newValue }
    }

    /// Whether the manager's ``Authenticator`` has a say in the request. Default `true`.
    public var authenticates: Bool {
        get { flow.authenticates }
        set { flow.authenticates = newValue }
    }

    /// The trace the request belongs to (W3C Trace Context); each attempt gets a span of its own below it. Default
    /// `nil`: ``TraceParent/current``.
    public var traceParent: TraceParent? {
        get { flow.traceParent }
        set { flow.traceParent = newValue }
    }

    /// Tells the server that repetitions are one request, so that a `POST` may be repeated too: the field
    /// `Idempotency-Key`, the same for all attempts. Default `nil`.
    ///
    /// ```swift
    /// request.idempotencyKey = HTTPRequest.randomIdempotencyKey()
    /// ```
    public var idempotencyKey: String? {
        get { headers.hasNoFields ? nil : headers["Idempotency-Key"] }
        set { headers["Idempotency-Key"] = newValue }
    }

    /// A key that no other request has: 128 random bits in hexadecimal.
    public static func randomIdempotencyKey() -> String { Hexadecimal.random(byteCount: 16) }
}
