/// When a request is repeated, and after which wait.
///
/// ```swift
/// configuration.retryPolicy = RetryPolicy(retries: 3, statuses: [502, 503, 504])
/// configuration.retryPolicy.longestWait = .seconds(5)
/// ```
///
/// Repeated are failures of the network at which the server can be asked again (no connection, a lost one), the
/// ``statuses``, and 429 and 503 that say when to come back (`Retry-After`, RFC 9110 §10.2.3). The waits are random,
/// from zero to a range that doubles each time, so that clients that failed together do not come back together.
public struct RetryPolicy: Sendable, Hashable {
    /// How often at most. Default 0; the `retries` of a manager or request are the short way to set it.
    public var retries: Int
    /// The range of the first wait; it doubles with each repetition. Default 100 ms.
    public var firstWait: Duration
    /// The largest range. Default 10 s.
    public var longestWait: Duration
    /// The statuses that are repeated. Default none.
    public var statuses: Set<Int>
    /// The longest `Retry-After` that is waited for; a server that asks for more gets its answer delivered at once.
    /// Zero leaves the field alone. Default 60 s.
    public var longestRetryAfter: Duration
    /// Whether only idempotent methods (RFC 9110 §9.2.2) and requests with an ``HTTPRequest/idempotencyKey``
    /// are repeated. Default `true`. Off, a request that had an effect may have it twice.
    public var repeatsOnlyIdempotent: Bool
    /// Asked first, with the request, the error or the response; `nil` leaves it to the rules above. What cannot be
    /// sent again, a stream that is read once, never is. Default `nil`.
    public var judge: (@Sendable (_ request: HTTPRequest, _ answer: Result<HTTPResponse, NetworkError>) -> Bool?)? {
        get { judgement?.judge }
        set { judgement = newValue.map(Judgement.init) }
    }
    private var judgement: Judgement?

    /// A judge, which equals only itself.
    private final class Judgement: Sendable, Hashable {
        let judge: @Sendable (HTTPRequest, Result<HTTPResponse, NetworkError>) -> Bool?

        init(_ judge: @escaping @Sendable (HTTPRequest, Result<HTTPResponse, NetworkError>) -> Bool?) {
            self.judge = judge
        }

        static func == (lhs: Judgement, rhs: Judgement) -> Bool { lhs === rhs }

        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    /// Makes a policy.
    public init(
        retries: Int = 0, statuses: Set<Int> = [], firstWait: Duration = .milliseconds(100),
        longestWait: Duration = .seconds(10), longestRetryAfter: Duration = .seconds(60),
        repeatsOnlyIdempotent: Bool = true,
        judge: (@Sendable (_ request: HTTPRequest, _ answer: Result<HTTPResponse, NetworkError>) -> Bool?)? = nil
    ) {
        self.retries = retries
        self.statuses = statuses
        self.firstWait = firstWait
        self.longestWait = longestWait
        self.longestRetryAfter = longestRetryAfter
        self.repeatsOnlyIdempotent = repeatsOnlyIdempotent
        self.judge = judge
    }
}
