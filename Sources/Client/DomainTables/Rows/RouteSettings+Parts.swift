import FoundationEssentials
public import HTTPCore

extension DomainTable {
    /// The members of `retry` in a row, without the number of retries, which is ``RequestOptions/Values/retries``. Each
    /// member comes from the last row that sets it, and from the manager's policy when none does.
    public struct RetrySettings: Sendable {
        /// ``RetryPolicy/statuses``.
        public var statuses: Set<Int>?
        /// ``RetryPolicy/problems``.
        public var problems: [String]?
        /// ``RetryPolicy/firstWait``.
        public var firstWait: Duration?
        /// ``RetryPolicy/longestWait``.
        public var longestWait: Duration?
        /// ``RetryPolicy/longestRetryAfter``.
        public var longestRetryAfter: Duration?
        /// ``RetryPolicy/repeatsOnlyIdempotent``.
        public var repeatsOnlyIdempotent: Bool?

        /// Creates settings in which nothing is set.
        public init() {}

        /// Returns the manager's policy with these members; `nil` when none is set.
        package func over(_ standard: RetryPolicy) -> RetryPolicy? {
            var policy = standard
            if let statuses { policy.statuses = statuses }
            if let problems { policy.problems = Set(problems) }
            if let firstWait { policy.firstWait = firstWait }
            if let longestWait { policy.longestWait = longestWait }
            if let longestRetryAfter { policy.longestRetryAfter = longestRetryAfter }
            if let repeatsOnlyIdempotent { policy.repeatsOnlyIdempotent = repeatsOnlyIdempotent }
            let isSet =
                statuses != nil || problems != nil || firstWait != nil || longestWait != nil || longestRetryAfter != nil
                || repeatsOnlyIdempotent != nil
            return isSet ? policy : nil
        }
    }

    /// The members of `events` in a row: how event streams are read, and whether a lost one is opened again. Each member
    /// comes from the last row that sets it, and from the defaults of `Reconnection` and `EventOptions` of the module
    /// `LATRealtime` when none does.
    public struct EventSettings: Sendable {
        /// Whether a lost event stream is opened again. It applies to GET only.
        public var reconnect: Bool?
        /// The upper bound of the first wait.
        public var firstWait: Duration?
        /// The largest upper bound of a wait.
        public var longestWait: Duration?
        /// How many attempts in a row may bring no event.
        public var attempts: Int?
        /// The statuses after which another attempt is made.
        public var statuses: Set<Int>?
        /// The data of an event that ends the stream, or its type.
        public var endsAt: String?
        /// The largest size of an event, in bytes.
        public var eventLimit: Int?

        /// Creates settings in which nothing is set.
        public init() {}
    }

    /// The members of `documented` in a row. Each comes from the last row that sets it.
    package struct DocumentedSettings: Hashable, Sendable {
        /// The statuses that the call may have, and the first digits of classes such as `4XX`.
        package var statuses: Set<Int>?
        /// The parameters of query and body by name.
        package var parameters: [String: ParameterNote]?

        package init() {}

        /// Whether a status is not one that the document has. Redirects and 304 are not answers of the operation, but the way to
        /// one.
        package func lacks(_ status: Int) -> Bool {
            guard let statuses, !(300..<400).contains(status) else { return false }
            return !statuses.contains(status) && !statuses.contains(status / 100)
        }
    }

    /// The type of a parameter in JSON, with a question mark where it may be left out.
    package enum ParameterNote: String, CaseIterable, Sendable {
        case string, integer, number, boolean, array, object, any
        case optionalString = "string?"
        case optionalInteger = "integer?"
        case optionalNumber = "number?"
        case optionalBoolean = "boolean?"
        case optionalArray = "array?"
        case optionalObject = "object?"
        case optionalAny = "any?"

        package var isOptional: Bool { rawValue.hasSuffix("?") }
        package var isText: Bool { self == .string || self == .optionalString }
    }

    /// The members of `query` in a row. Each comes from the last row that sets it.
    public struct QuerySettings: Sendable {
        /// How arrays are written in query and forms: `brackets` (`ids[]=1&ids[]=2`), as by default, `repeated`
        /// (`ids=1&ids=2`), `comma` (`ids=1,2`), `space`, `pipe` or `json`.
        public var arrays: ParameterEncoding.Arrays?
        /// The same for single parameters, by name, and for objects too: `brackets` (`filter[a]=1`), as by default, `repeated`
        /// (`a=1`), `comma` (`filter=a,1`), `json`.
        public var styles: [String: ParameterEncoding.Arrays]?
        /// Parameters that go into the query although the method has a body.
        public var names: [String]?
        /// Whether all parameters go into the query, and there is no body of parameters.
        public var takesAll: Bool?

        /// Creates settings in which nothing is set.
        public init() {}

        package var rule: ParameterEncoding.QueryRule? {
            guard arrays != nil || styles != nil || names != nil || takesAll != nil else { return nil }
            return ParameterEncoding.QueryRule(
                arrays: arrays ?? .brackets, styles: styles ?? [:], names: Set(names ?? []), takesAll: takesAll ?? false
            )
        }
    }

    /// The members of `tls` in a row. Each comes from the last row that sets it, and from the manager when none does.
    public struct TLSSettings: Sendable {
        /// A PEM file of trusted certificates (``HTTPRequest/TLS/caFile``). In the table its path is relative to the table's
        /// folder.
        public var caFile: String?
        /// The certificate that the client sends (``HTTPRequest/TLS/clientCertificate``).
        public var clientCertificate: ClientCertificateRule?
        /// The oldest version that is offered.
        public var minimumVersion: TLSVersion?
        /// Pins of public keys, `sha256//…` (``HTTPRequest/TLS/pins``). The same as ``DomainTable/DomainRow/pins``.
        public var pins: [String]?

        /// A file with revocation lists (``HTTPRequest/TLS/crlFile``), relative to the table's folder.
        public var crlFile: String?
        /// The URL of the revocation list (``HTTPRequest/TLS/crlURL``).
        public var crlURL: String?
        /// Whether certificates are checked for revocation (``HTTPRequest/TLS/Revocation``).
        public var revocation: HTTPRequest.TLS.Revocation?

        /// Creates settings in which nothing is set.
        public init() {}

        /// The settings of the requests of a row.
        ///
        /// - Throws: ``NetworkError/Kind/invalidRequest`` when the variable of a password is not set.
        package func request(of route: ResolvedRoute) throws(NetworkError) -> HTTPRequest.TLS {
            var tls = HTTPRequest.TLS(caFile: caFile, minimumVersion: minimumVersion)
            if let pins, !pins.isEmpty { tls.pins = pins }
            (tls.crlFile, tls.crlURL, tls.revocation) = (crlFile, crlURL, revocation)
            let keys = [
                "tls.caFile", "tls.clientCertificate", "tls.minimumVersion", "tls.crlFile", "tls.crlURL",
                "tls.revocation",
            ]
            let origins = keys.compactMap { route.settings.origin(of: $0)?.description }
            guard !origins.isEmpty else { return tls }
            let isOfServer = keys.contains { route.row.settings.origin(of: $0) != nil }
            var row = "domain \"\(route.domain)\""
            if let server = route.server, isOfServer { row = "server \"\(server)\"" }
            let places: [String] = origins.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
            let place = "tls of the \(row), \(places.joined(separator: " and "))"
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
