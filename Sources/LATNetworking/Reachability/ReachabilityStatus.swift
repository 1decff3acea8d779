package import CurlTransport
public import FoundationEssentials
import Glibc
public import HTTPCore

/// Whether a server can be connected to, as far as is known.
public enum ReachabilityStatus: Hashable, Sendable {
    /// Nobody has tried yet.
    case unknown
    /// A connection stood. `latency` is how long it took without the look-up of the name and without TLS; `address` is
    /// what was connected to: the proxy's when there is one, empty for a Unix domain socket.
    case reachable(latency: Duration, address: String)
    /// No connection came about, or what answered is not the server.
    case unreachable(reason: UnreachableReason)

    /// Whether a connection stood. `false` while nothing is known.
    public var isReachable: Bool { if case .reachable = self { true } else { false } }

    /// How long the connection took; `nil` without one.
    public var latency: Duration? { if case .reachable(let latency, _) = self { latency } else { nil } }

    /// What was connected to; `nil` without a connection.
    public var address: String? { if case .reachable(_, let address) = self { address } else { nil } }

    /// Why no connection came about; `nil` when one did, and when nobody has tried.
    public var reason: UnreachableReason? { if case .unreachable(let reason) = self { reason } else { nil } }

    /// Whether the two differ in more than how fast it went: only such changes are told.
    func isNews(after other: ReachabilityStatus?) -> Bool {
        switch (self, other) {
        case (.reachable(_, let new), .reachable(_, let old)): new != old
        default: self != other
        }
    }
}

/// Why a server cannot be reached.
public enum UnreachableReason: String, Hashable, Sendable, CaseIterable {
    /// The name was not found, or no name server answered.
    case dns
    /// The machine is there, but nobody listens at the port.
    case refused
    /// No answer came in time: a firewall drops the packets, or the machine is off.
    case timeout
    /// The TLS handshake failed: certificate, pin, version.
    case tls
    /// The proxy cannot be reached, or refuses the way on.
    case proxy
    /// There is no way there: no network, no route, the machine does not answer its neighbours.
    case network
    /// A connection stood, but what answered is not what the check expects: a captive portal, most likely.
    case captivePortal
    /// The table has no such domain, or the URL cannot be used.
    case unknownName
    /// Anything else; ``ReachabilityReport/error`` tells.
    case other
}

/// All that is known of the last try to reach a server.
public struct ReachabilityReport: Sendable {
    /// The name or URL that was asked for.
    public var target: String
    /// The URL that was tried: for a domain its base, or the mirror that could be reached; empty when there is none.
    public var url = ""
    /// What came of it.
    public var status = ReachabilityStatus.unknown
    /// How long name, connection and TLS took; each counted from the start.
    public var timings = Timings.none
    /// Why it failed, with the next step for the reader; `nil` otherwise.
    public var error: NetworkError?
    /// When; `nil` when nobody has tried.
    public var date: Date?

    init(target: String) { self.target = target }
}

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

extension UnreachableReason {
    /// The reason in what a probe came back with; `nil` when it connected.
    package init?(_ report: ConnectionReport) {
        guard let error = report.error else { return nil }
        if let verdict = report.proxyVerdict {
            self.init(verdict)
            return
        }
        switch error.kind {
        case .connect where report.proxy != nil: self = .proxy
        case .connect: self = Self.reason(ofSystemError: report.systemError)
        // libcurl's word for a name server that does not answer in time.
        case .timeout where !report.isResolved: self = .dns
        default: self.init(error)
        }
    }

    /// The reason in an error of a request.
    init(_ error: NetworkError) {
        self =
            switch error.kind {
            case .dns: .dns
            case .connect: .refused
            case .timeout: .timeout
            case .tls: .tls
            case .proxy: .proxy
            case .connectionLost: .network
            case .unknownName, .invalidRequest: .unknownName
            default: .other
            }
    }

    private static func reason(ofSystemError error: Int32) -> UnreachableReason {
        switch error {
        case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EINVAL, EACCES, EPERM: .network
        case ETIMEDOUT: .timeout
        default: .refused
        }
    }

    private init(_ verdict: ProxyVerdict) {
        self =
            switch verdict {
            case .nameNotFound: .dns
            case .refused: .refused
            case .unreachable: .network
            case .expired: .timeout
            case .failed: .proxy
            }
    }
}
