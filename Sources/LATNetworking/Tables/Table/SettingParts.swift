import FoundationEssentials
public import HTTPCore

extension DomainTable {
    /// The members of `retry` in a row, without the number of retries, which is ``DomainTable/RouteSettings/retries``. Each
    /// member comes from the last row that sets it, and from the manager's policy when none does.
    public struct RetrySettings: Sendable {
        /// ``RetryPolicy/statuses``.
        @Tracked public var statuses: Set<Int>?
        /// ``RetryPolicy/firstWait``.
        @Tracked public var firstWait: Duration?
        /// ``RetryPolicy/longestWait``.
        @Tracked public var longestWait: Duration?
        /// ``RetryPolicy/longestRetryAfter``.
        @Tracked public var longestRetryAfter: Duration?
        /// ``RetryPolicy/repeatsOnlyIdempotent``.
        @Tracked public var repeatsOnlyIdempotent: Bool?

        /// Creates settings in which nothing is set.
        public init() {}

        func over(_ other: RetrySettings) -> RetrySettings {
            var merged = RetrySettings()
            merged.$statuses = $statuses.over(other.$statuses)
            merged.$firstWait = $firstWait.over(other.$firstWait)
            merged.$longestWait = $longestWait.over(other.$longestWait)
            merged.$longestRetryAfter = $longestRetryAfter.over(other.$longestRetryAfter)
            merged.$repeatsOnlyIdempotent = $repeatsOnlyIdempotent.over(other.$repeatsOnlyIdempotent)
            return merged
        }

        /// Returns the manager's policy with these members; `nil` when none is set.
        func over(_ standard: RetryPolicy) -> RetryPolicy? {
            var policy = standard
            if let statuses { policy.statuses = statuses }
            if let firstWait { policy.firstWait = firstWait }
            if let longestWait { policy.longestWait = longestWait }
            if let longestRetryAfter { policy.longestRetryAfter = longestRetryAfter }
            if let repeatsOnlyIdempotent { policy.repeatsOnlyIdempotent = repeatsOnlyIdempotent }
            let isSet =
                statuses != nil || firstWait != nil || longestWait != nil || longestRetryAfter != nil
                || repeatsOnlyIdempotent != nil
            return isSet ? policy : nil
        }
    }

    /// The members of `events` in a row: how event streams are read, and whether a lost one is opened again. Each member
    /// comes from the last row that sets it, and from the defaults of `Reconnection` and `EventOptions` of the module
    /// `LATRealtime` when none does.
    public struct EventSettings: Sendable {
        /// Whether a lost event stream is opened again. It applies to GET only.
        @Tracked public var reconnect: Bool?
        /// The upper bound of the first wait.
        @Tracked public var firstWait: Duration?
        /// The largest upper bound of a wait.
        @Tracked public var longestWait: Duration?
        /// How many attempts in a row may bring no event.
        @Tracked public var attempts: Int?
        /// The statuses after which another attempt is made.
        @Tracked public var statuses: Set<Int>?
        /// The data of an event that ends the stream.
        @Tracked public var endsAt: String?
        /// The largest size of an event, in bytes.
        @Tracked public var eventLimit: Int?

        /// Creates settings in which nothing is set.
        public init() {}

        func over(_ other: EventSettings) -> EventSettings {
            var merged = EventSettings()
            merged.$reconnect = $reconnect.over(other.$reconnect)
            merged.$firstWait = $firstWait.over(other.$firstWait)
            merged.$longestWait = $longestWait.over(other.$longestWait)
            merged.$attempts = $attempts.over(other.$attempts)
            merged.$statuses = $statuses.over(other.$statuses)
            merged.$endsAt = $endsAt.over(other.$endsAt)
            merged.$eventLimit = $eventLimit.over(other.$eventLimit)
            return merged
        }
    }

    /// The members of `tls` in a row. Each comes from the last row that sets it, and from the manager when none does.
    public struct TLSSettings: Sendable {
        /// A PEM file of trusted certificates (``HTTPRequest/TLS/caFile``). In the table its path is relative to the table's
        /// folder.
        @Tracked public var caFile: String?
        /// The certificate that the client sends (``HTTPRequest/TLS/clientCertificate``).
        @Tracked public var clientCertificate: ClientCertificateRule?
        /// The oldest version that is offered.
        @Tracked public var minimumVersion: TLSVersion?
        /// Pins of public keys, `sha256//…` (``HTTPRequest/pinnedPublicKeys``). The same as ``DomainTable/DomainRow/pins``.
        @Tracked public var pins: [String]?

        /// Creates settings in which nothing is set.
        public init() {}

        func over(_ other: TLSSettings) -> TLSSettings {
            var merged = TLSSettings()
            merged.$caFile = $caFile.over(other.$caFile)
            merged.$clientCertificate = $clientCertificate.over(other.$clientCertificate)
            merged.$minimumVersion = $minimumVersion.over(other.$minimumVersion)
            merged.$pins = $pins.over(other.$pins)
            return merged
        }

        /// What set the members of ``HTTPRequest/TLS``, each place once.
        private var origins: [String] {
            [$caFile.origin, $clientCertificate.origin, $minimumVersion.origin].compactMap { $0?.description }
                .reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
        }

        /// The settings of the requests of a row; `nil` when there are none.
        ///
        /// - Throws: ``NetworkError/Kind/invalidRequest`` when the variable of a password is not set.
        func request(of route: ResolvedRoute) throws(NetworkError) -> HTTPRequest.TLS? {
            var tls = HTTPRequest.TLS(caFile: caFile, minimumVersion: minimumVersion)
            guard !origins.isEmpty else { return nil }
            var row = "domain \"\(route.domain)\""
            if let server = route.server, !route.row.settings.tls.origins.isEmpty { row = "server \"\(server)\"" }
            let place = "tls of the \(row), \(origins.joined(separator: " and "))"
            if let clientCertificate { tls.clientCertificate = try clientCertificate.resolved(place) }
            tls.place = place
            return tls
        }
    }

    /// A client certificate in a row, and where its password comes from.
    public struct ClientCertificateRule: Hashable, Sendable {
        /// The files, and the password if it is not in a variable.
        public var certificate: ClientCertificate
        /// The environment variable with the password. It is read when a call first uses the row. Default `nil`: none.
        public var passwordVariable: String?

        /// Creates a rule.
        public init(_ certificate: ClientCertificate, passwordVariable: String? = nil) {
            self.certificate = certificate
            self.passwordVariable = passwordVariable
        }

        fileprivate func resolved(_ place: String) throws(NetworkError) -> ClientCertificate {
            guard let passwordVariable else { return certificate }
            guard let password = ProcessInfo.processInfo.environment[passwordVariable] else {
                throw .invalidRequest(
                    "tls.clientCertificate (\(certificate)): the environment variable \(passwordVariable) for its password "
                        + "is not set; set it (\(place))")
            }
            return certificate.with(password: password)
        }
    }
}
