/// The maximum number and rate of a manager's requests.
///
/// ```swift
/// configuration.limits.maxConcurrentRequestsPerHost = 4
/// configuration.limits.rate = RequestLimits.RateLimit(perSecond: 20, burst: 5)
/// ```
///
/// Waiting for a slot counts towards no timeout except the deadline. Requests of a higher priority go first, and those
/// of equal priority in the order in which they arrived. A request holds no slot while it waits for a retry or a new
/// token. A streamed request holds its slot until the head of the response has arrived.
public struct RequestLimits: Hashable, Sendable {
    /// The maximum number of concurrent requests. Default `nil`: only the engine's limits apply.
    public var maxConcurrentRequests: Int?
    /// The maximum number of concurrent requests to one host and port. Default `nil`: only the engine's limits apply.
    public var maxConcurrentRequestsPerHost: Int?
    /// The maximum rate at which requests are started. Default `nil`: unlimited.
    public var rate: RateLimit?
    /// The maximum rate at which requests to one host and port are started. Default `nil`: unlimited.
    public var ratePerHost: RateLimit?

    /// Whether the limits that a server tells are kept, for each host and port. Default `false`.
    ///
    /// The fields are `RateLimit` with `RateLimit-Policy`, `RateLimit-Remaining` with `RateLimit-Reset`, and those of the same
    /// name with `X-`. What remains of a quota is spread over the rest of its window, with small bursts, so that the
    /// quota is not used up. After a 429, 503 or 425 with `Retry-After`, all requests to the host wait that long.
    public var followsServer = false

    /// How many requests to one host and port run at once, found by how long they take. Default `nil`: no such limit.
    public var adaptive: Adaptive?

    /// Creates limits that allow everything.
    public init() {}

    /// Limits with one rate for each host.
    package init(ratePerHost: RateLimit) { self.ratePerHost = ratePerHost }

    /// - Parameter what: the owner of the limits, for the message.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for limits under which nothing could ever start, and for an infinite rate.
    package func check(of what: String) throws(NetworkError) {
        for rate in [rate, ratePerHost] {
            guard let rate, !(rate.perSecond > 0 && rate.perSecond.isFinite) else { continue }
            throw .invalidRequest(
                "the rate of \(what) is \(rate.perSecond) per second; give a number above 0, or nil for none")
        }
        if let adaptive, !(1...Adaptive.largest).contains(adaptive.floor) || adaptive.ceiling < adaptive.floor {
            throw .invalidRequest(
                "\(what) adapts between \(adaptive.floor) and \(adaptive.ceiling) requests at once; give a floor of 1 or "
                    + "more, and a ceiling that is not below it")
        }
        for number in [maxConcurrentRequests, maxConcurrentRequestsPerHost] {
            guard let number, number < 1 else { continue }
            throw .invalidRequest("\(what) permits \(number) requests at once; give 1 or more, or nil for no limit")
        }
    }

    package var isUnlimited: Bool {
        maxConcurrentRequests == nil && maxConcurrentRequestsPerHost == nil && rate == nil && ratePerHost == nil
            && !followsServer && adaptive == nil
    }
}

extension RequestLimits {
    /// The bounds of a number of concurrent requests that follows the latency of the server: `limits: "adaptive"` in a row.
    ///
    /// ```swift
    /// configuration.limits.adaptive = .init(floor: 2, ceiling: 50)
    /// ```
    ///
    /// When responses take longer than at their best, beyond what they vary by themselves, requests queue at the server, and the
    /// number is lowered; it rises again while they do not. Refusals (429, 503) and timeouts lower it by their share of the
    /// requests, at most by a quarter at once. Only successful responses to requests with at most 16 KiB of content are measured,
    /// to their first byte. It begins at 10, for each host and port.
    public struct Adaptive: Hashable, Sendable {
        /// The smallest number, at least 1. Default 1.
        public var floor: Int
        /// The largest number. Default 200.
        public var ceiling: Int

        /// Makes bounds. Each parameter has the default of its property.
        public init(floor: Int = 1, ceiling: Int = 200) { (self.floor, self.ceiling) = (floor, ceiling) }

        package static let largest = 1_000_000
    }
}

extension RequestLimits {
    /// A rate in requests per second, with bursts (a token bucket).
    public struct RateLimit: Hashable, Sendable {
        /// The requests per second, more than 0.
        public var perSecond: Double
        /// The number of requests that may start at once after a pause, at least 1. Default 1.
        public var burst: Int

        /// Creates a limit. `burst` is 1 by default.
        public init(perSecond: Double, burst: Int = 1) {
            self.perSecond = perSecond
            self.burst = burst
        }
    }
}

extension RequestLimits {
    /// A policy that stops requests to a host for a while after repeated failures.
    ///
    /// ```swift
    /// configuration.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 5, pause: .seconds(30))
    /// ```
    ///
    /// After a number of failures in a row, requests to the host fail at once with ``NetworkError/Kind/circuitOpen``, and
    /// nothing is sent. After the pause, one request probes the host. Its success closes the circuit, its failure starts
    /// another pause.
    public struct CircuitBreakerPolicy: Hashable, Sendable {
        /// The number of failures in a row that open the circuit. Default 5.
        public var failures: Int
        /// How long the circuit stays open. Default 30 s.
        public var pause: Duration
        /// The statuses that count as failures, like network failures. Default 500, 502, 503, 504.
        public var statuses: Set<Int>

        /// Creates a policy. Each parameter has the default of its property.
        public init(failures: Int = 5, pause: Duration = .seconds(30), statuses: Set<Int> = [500, 502, 503, 504]) {
            self.failures = failures
            self.pause = pause
            self.statuses = statuses
        }

        /// - Parameter what: The owner of the policy, for the message.
        /// - Throws: ``NetworkError/Kind/invalidRequest`` for fewer than one failure and for a negative pause.
        package func check(_ what: String) throws(NetworkError) {
            if failures < 1 { throw .invalidRequest("\(what) opens after \(failures) failures; give 1 or more") }
            if pause < .zero { throw .invalidRequest("\(what) has a pause of \(pause); give 0 or more") }
        }
    }

    /// The circuit breaker of a row: `circuit` of the table.
    public enum CircuitChoice: Hashable, Sendable {
        /// None, whatever the broader rows and the manager say: `circuit: null`.
        case off
        /// A circuit breaker with this policy.
        case breaker(CircuitBreakerPolicy)
    }
}
