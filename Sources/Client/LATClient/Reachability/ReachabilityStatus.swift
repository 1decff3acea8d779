package import CurlTransport
public import FoundationEssentials
import Glibc
public import HTTPCore
import Synchronization

extension Reachability {
    /// The last known reachability of a server.
    public enum Status: Hashable, Sendable {
        /// It has not been probed yet.
        case unknown
        /// A connection was made. `latency` is how long that took, without the name look-up and TLS. `address` is the address
        /// of the server, or of the proxy if there is one; it is empty for a Unix domain socket.
        case reachable(latency: Duration, address: String)
        /// No connection could be made, or what responded is not the server.
        case unreachable(reason: UnreachableReason)

        /// Whether the server is reachable. `false` before the first probe.
        public var isReachable: Bool { if case .reachable = self { true } else { false } }

        /// How long connecting took; `nil` unless the server is reachable.
        public var latency: Duration? { if case .reachable(let latency, _) = self { latency } else { nil } }

        /// The address that was connected to; `nil` unless the server is reachable.
        public var address: String? { if case .reachable(_, let address) = self { address } else { nil } }

        /// The reason why the server is unreachable; `nil` if it is reachable, and before the first probe.
        public var reason: UnreachableReason? {
            if case .unreachable(let reason) = self { reason } else { nil }
        }

        /// Whether the two differ in more than their latency. Only such changes are reported.
        func isChange(after other: Status?) -> Bool {
            switch (self, other) {
            case (.reachable(_, let new), .reachable(_, let old)): new != old
            default: self != other
            }
        }
    }

    /// The reason why a server cannot be reached.
    public enum UnreachableReason: String, Hashable, Sendable, CaseIterable {
        /// The name was not found, or no name server answered.
        case dns
        /// The machine refused the connection: no process listens at the port.
        case refused
        /// There was no response in time: a firewall drops the packets, or the machine is off.
        case timeout
        /// The TLS handshake failed: certificate, pin, version.
        case tls
        /// The proxy cannot be reached, or refuses to connect to the server.
        case proxy
        /// There is no route: no network, or a machine that does not answer its neighbours.
        case network
        /// A connection was made, but the response fails the check. Most likely a captive portal responded.
        case captivePortal
        /// The table has no such domain, or the URL cannot be used.
        case unknownName
        /// Another reason; see ``Reachability/Report/error``.
        case other
    }

    /// The result of a probe with its details.
    public struct Report: Sendable {
        /// The name or URL that was requested.
        public var target: String
        /// The probed URL. For a domain it is the base URL, or the first reachable mirror; empty if there is none.
        public var url = ""
        /// The status.
        public var status = Status.unknown
        /// The times of name look-up, connection and TLS, each measured from the start.
        public var timings = Timings.none
        /// The error with its next step; `nil` if the server is reachable.
        public var error: NetworkError?
        /// The time of the probe; `nil` if there was none.
        public var date: Date?
    }

    /// The settings of a manager's reachability.
    public struct Configuration: Sendable {
        /// How long a reachable result is valid. Default 10 s. A change of the network invalidates it. Observed targets are
        /// probed again when it ends, after a second if it is zero.
        public var ttl: Duration = .seconds(10)
        /// How long an unreachable result is valid. Default 2 s.
        public var failureTTL: Duration = .seconds(2)
        /// The maximum time of a probe: name, connection and TLS, or the check. Default 5 s.
        public var timeout: Duration = .seconds(5)
        /// The request, and the response to it that makes a server count as reachable. Default `nil`: a connection is enough,
        /// and nothing is sent.
        public var check: ResponseCheck?
        /// Checks for domains of the table, instead of ``check``. Default none.
        public var checks: [String: ResponseCheck] = [:]
        /// Whether calls that cannot connect wait for the network, unless they set it themselves. Default `false`.
        public var waitsForConnectivity = false
        /// The maximum time that a call waits for the network, in addition to its own timeout. Default 60 s.
        public var connectivityTimeout: Duration = .seconds(60)

        /// Creates settings with the default values.
        public init() {}

        /// An HTTP request and its expected response. Any other response is taken for that of a captive portal.
        ///
        /// ```swift
        /// configuration.reachability.checks["daxiang"] = .init(path: "/health", status: 200, contains: "ok")
        /// ```
        ///
        /// The request is a `GET` without redirects, on a connection of its own that is closed afterwards.
        public struct ResponseCheck: Hashable, Sendable {
            /// The path, joined to the probed URL, or an absolute URL.
            public var path: String
            /// The expected status.
            public var status: Int
            /// The text that the body must contain; `nil` for any body.
            public var contains: String?

            /// Creates a check. The default status 204 fits `generate_204` pages.
            public init(path: String, status: Int = 204, contains: String? = nil) {
                self.path = path
                self.status = status
                self.contains = contains
            }
        }
    }
}

extension Reachability.UnreachableReason {
    /// The reason for the result of a probe; `nil` if it connected.
    package init?(_ report: ConnectionReport) {
        guard let error = report.error else { return nil }
        if let verdict = report.proxyVerdict {
            self =
                switch verdict {
                case .nameNotFound: .dns
                case .refused: .refused
                case .unreachable: .network
                case .expired: .timeout
                case .failed: .proxy
                }
            return
        }
        switch error.kind {
        case .connect where report.proxy != nil: self = .proxy
        case .connect:
            self =
                switch report.systemError {
                case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EINVAL, EACCES, EPERM: .network
                case ETIMEDOUT: .timeout
                default: .refused
                }
        // The error that libcurl reports when the name server does not answer in time.
        case .timeout where !report.isResolved: self = .dns
        default: self.init(error)
        }
    }

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
}

extension Reachability {
    /// The observation of a server's status. It lasts until it is cancelled or the manager is released.
    public final class Observation: Sendable {
        private let state = Mutex<(task: Task<Void, Never>?, isCancelled: Bool)>((nil, false))

        init() {}

        func start(_ task: Task<Void, Never>) { state.withLock { $0.task = task } }

        /// Whether ``cancel()`` was called.
        public var isCancelled: Bool { state.withLock { $0.isCancelled } }

        /// Ends the observation. The closure is not called again, but a running call completes.
        public func cancel() {
            let task = state.withLock { state in
                defer { state = (nil, true) }
                return state.task
            }
            task?.cancel()
        }
    }
}
