/// When a request is repeated, and after what wait.
///
/// ```swift
/// configuration.retryPolicy = RetryPolicy(retries: 3)          // the same as configuration.retries = 3
/// configuration.retryPolicy.statuses = [502, 503, 504]
/// configuration.retryPolicy.longestWait = .seconds(5)
/// ```
///
/// An idempotent request is repeated after a transient network failure (no connection, a lost one), after one of the
/// ``statuses`` (by default 408, 429, 500, 502, 503 and 504), and, whatever the statuses, after 429 or 503 with a usable
/// `Retry-After` (RFC 9110 §10.2.3). Each wait is random between zero and an upper bound that
/// doubles each time, so that clients that failed together do not repeat together.
public struct RetryPolicy: Sendable, Hashable {
    /// The largest number of repetitions. Default 0. `retries` of a manager, entity, call or request sets only this
    /// number. A manager refuses a negative number or wait; on a single request each counts as 0.
    public var retries: Int
    /// The upper bound of the first wait. It doubles with each repetition. Default 100 ms.
    public var firstWait: Duration
    /// The maximum to which the upper bound grows. Default 10 s.
    public var longestWait: Duration
    /// The statuses after which a request is repeated. Default ``transientStatuses``.
    public var statuses: Set<Int>
    /// The types of problems (RFC 9457) after which a request is repeated, whatever the status. A body that is read as a stream
    /// is not looked at. Default none.
    public var problems: Set<String> = []
    /// The longest `Retry-After` to wait for. A response that asks for more is delivered at once. Zero ignores the field. One
    /// that is neither seconds nor a date counts as absent. Default 60 s.
    public var longestRetryAfter: Duration
    /// The statuses of failures that may pass: 408, 429, 500, 502, 503 and 504, which `curl --retry` repeats too.
    public static let transientStatuses: Set<Int> = [408, 429, 500, 502, 503, 504]
    /// Whether only idempotent methods (RFC 9110 §9.2.2) and requests with an ``HTTPRequest/idempotencyKey`` are
    /// repeated. Default `true`. When `false`, a request may take effect twice.
    public var repeatsOnlyIdempotent: Bool
    /// Decides before the other rules whether to repeat a request, given its response or error; `nil` applies the other
    /// rules. A request whose body cannot be sent again is never repeated. Default `nil`.
    public var judge: (@Sendable (_ request: HTTPRequest, _ answer: Result<HTTPResponse, NetworkError>) -> Bool?)? {
        get { judgement?.judge }
        set { judgement = newValue.map(Judgement.init) }
    }
    private var judgement: Judgement?

    private final class Judgement: Sendable, ComparedByIdentity {
        let judge: @Sendable (HTTPRequest, Result<HTTPResponse, NetworkError>) -> Bool?

        init(_ judge: @escaping @Sendable (HTTPRequest, Result<HTTPResponse, NetworkError>) -> Bool?) {
            self.judge = judge
        }
    }

    /// Makes a policy. Each parameter has the default of its property.
    public init(
        retries: Int = 0, statuses: Set<Int> = RetryPolicy.transientStatuses, problems: Set<String> = [],
        firstWait: Duration = .milliseconds(100),
        longestWait: Duration = .seconds(10), longestRetryAfter: Duration = .seconds(60),
        repeatsOnlyIdempotent: Bool = true,
        judge: (@Sendable (_ request: HTTPRequest, _ answer: Result<HTTPResponse, NetworkError>) -> Bool?)? = nil
    ) {
        self.retries = retries
        self.statuses = statuses
        self.problems = problems
        self.firstWait = firstWait
        self.longestWait = longestWait
        self.longestRetryAfter = longestRetryAfter
        self.repeatsOnlyIdempotent = repeatsOnlyIdempotent
        self.judge = judge
    }

    /// - Parameter what: The owner of the policy, for the message.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a negative number or time.
    package func check(_ what: String) throws(NetworkError) {
        if retries < 0 { throw .invalidRequest("\(what) has \(retries) retries; give 0 or more") }
        for (name, wait) in [
            ("firstWait", firstWait), ("longestWait", longestWait), ("longestRetryAfter", longestRetryAfter),
        ] where wait < .zero {
            throw .invalidRequest("\(what) has a \(name) of \(wait); give 0 or more")
        }
    }
}
