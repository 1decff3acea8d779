/// How a manager finds out what can be reached.
public struct ReachabilityConfiguration: Sendable {
    /// How long an answer holds before a connection is tried again. Default 10 s. A change of the network ends it.
    public var ttl: Duration = .seconds(10)
    /// How long an answer `unreachable` holds. Default 2 s.
    public var failureTTL: Duration = .seconds(2)
    /// The longest a try may take: name, connection and TLS, or the check. Default 5 s.
    public var timeout: Duration = .seconds(5)
    /// What an HTTP request must be answered with, beside the connection, for a server to count as reachable.
    /// Default `nil`: a connection is enough, and nothing is sent.
    public var check: AnswerCheck?
    /// Checks for domains of the table, in place of ``check``. Default none.
    public var checks: [String: AnswerCheck] = [:]
    /// Whether calls wait for the network when no connection comes about, unless they say otherwise. Default `false`:
    /// they fail at once.
    public var waitsForConnectivity = false
    /// The longest a call waits for the network, outside its own timeout. Default 60 s.
    public var connectivityTimeout: Duration = .seconds(60)

    /// The default settings.
    public init() {}

    /// An HTTP request and the answer to it that only the real server gives. What else answers is taken for a captive
    /// portal.
    ///
    /// ```swift
    /// configuration.reachability.checks["daxiang"] = AnswerCheck(path: "/health", status: 200, contains: "ok")
    /// ```
    ///
    /// It is a `GET` that follows no redirect, on a connection of its own that is closed after it.
    public struct AnswerCheck: Hashable, Sendable {
        /// Joined to the URL that is tried; an absolute URL is taken as it is.
        public var path: String
        /// The status that is expected.
        public var status: Int
        /// What the body has to contain; `nil` for any.
        public var contains: String?

        /// Makes a check. By default any 204 will do, as of the `generate_204` pages.
        public init(path: String, status: Int = 204, contains: String? = nil) {
            self.path = path
            self.status = status
            self.contains = contains
        }
    }
}
