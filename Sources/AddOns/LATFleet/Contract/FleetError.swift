public import HTTPCore

/// Why a fleet could not do something, with the next step for the reader.
///
/// Requests never fail with it: they go on without the fleet. It is thrown when a fleet, its cache or its authenticator is made
/// and by ``Fleet/connect(within:)``, and reported by ``FleetStatus/lastError`` and ``FleetConfiguration/warningHandler``.
public struct FleetError: Error, Sendable, CustomStringConvertible {
    /// A kind of failure.
    public enum Kind: Hashable, Sendable {
        /// A setting is invalid.
        case configuration
        /// This build, or this kind of server, is not supported: no package trait, an old Redis, a Cluster, a Sentinel.
        case unsupported
        /// The server cannot be reached.
        case connect
        /// The TLS handshake failed.
        case tls(NetworkError.TLSFailure)
        /// User or password are wrong or missing.
        case authentication
        /// The user may not run a command or use a key.
        case permission
        /// The server did not answer within the budget of the operation.
        case timeout
        /// Commands are not sent now, because the server failed lately. One that was sent before may have been carried out.
        case unavailable
        /// The connection was lost before the reply. It is unknown whether the command was carried out.
        case connectionLost
        /// The server is busy: it loads its data, runs a script, or waits for its primary.
        case notReady
        /// The server's memory is full.
        case full
        /// The server is a replica, which refuses writes.
        case readOnly
        /// The server refused a command with this code.
        case refused(code: String)
        /// The server sent bytes that are not the Redis protocol, or a reply that is too large.
        case protocolViolation
        /// The task was cancelled.
        case cancelled
        /// The fleet was shut down.
        case shutDown
    }

    /// What failed.
    public let kind: Kind
    /// One sentence: what was found, what was expected, the next step. It contains no password.
    public let message: String

    package init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    /// The message.
    public var description: String { message }
}

extension FleetError {
    static let withoutTrait = FleetError(
        .unsupported,
        "this build cannot speak to Redis; name the package trait: .package(url: …, traits: [\"Fleet\"]), or build with "
            + "--traits Fleet")

    static let cancelled = FleetError(.cancelled, "the task was cancelled")

    static let shutDown = FleetError(.shutDown, "the fleet was shut down; make a new one, or shut it down last")

    static func configuration(_ message: String) -> FleetError { FleetError(.configuration, message) }

    /// What the server refused.
    init(code: String, text: String, command: String) {
        let (code, text) = Self.inScript(code, text)
        // Some messages of the server repeat arguments, which may be long or contain control characters.
        let detail = URLText.visible(String(text.prefix(160)))
        switch code {
        case "NOAUTH":
            self.init(
                .authentication, "Redis requires a password; write redis://:PASSWORD@… or redis://USER:PASSWORD@…")
        case "WRONGPASS":
            self.init(
                .authentication, "Redis refused the user or the password of the URL; compare them with `ACL LIST`")
        case "NOPERM": self.init(.permission, "\(detail); allow it with `ACL SETUSER`")
        case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN":
            self.init(.notReady, "\(detail); it is used again once it is ready")
        case "OOM":
            self.init(
                .full, "Redis' memory is full (\(command)); raise maxmemory, or set maxmemory-policy to allkeys-lru")
        case "READONLY":
            self.init(.readOnly, "the Redis is a read-only replica; give the address of its primary")
        case "MISCONF":
            self.init(
                .refused(code: code),
                "Redis cannot save its data, and refuses writes (\(command)) until it can; see its log, and make room on its disk"
            )
        case "NOREPLICAS":
            self.init(
                .refused(code: code),
                "Redis has fewer replicas than min-replicas-to-write, and refuses writes (\(command)) until it has them"
            )
        case "MOVED", "ASK", "CLUSTERDOWN", "CROSSSLOT": self = .isCluster
        default: self.init(.refused(code: code), "Redis refused \(command): \(detail)")
        }
    }

    /// The code and the text of an error. Redis 6 wraps one that a script has: `ERR Error running script (call to f_…):
    /// @user_script:4: @user_script: 4: -READONLY You can't write against a read only replica.`
    private static func inScript(_ code: String, _ text: String) -> (code: String, text: String) {
        guard code == "ERR", text.hasPrefix("ERR Error running script") else { return (code, text) }
        if let mark = text.firstRange(of: ": -") {
            let inner = text[mark.upperBound...]
            return (String(inner.prefix { $0 != " " }), String(inner))
        }
        // There, a missing right has no code.
        let isForbidden = text.contains("The user executing the script can't")
        return (isForbidden ? "NOPERM" : code, text)
    }

    static let isCluster = FleetError(
        .unsupported,
        "the server belongs to a Redis Cluster, which is not supported; give the address of a single Redis or of a proxy"
    )

    static let isSentinel = FleetError(
        .unsupported, "the server is a Redis Sentinel, which holds no data; give the address of the primary it watches")

    /// A failure of the connection, with the address in the form of the configuration.
    init(_ error: NetworkError, _ configuration: FleetConfiguration) {
        let address = configuration.description
        let detail = error.message.replacing(String(configuration.transportURL.dropLast()), with: address)
        switch error.kind {
        case .tls(let reason): self.init(.tls(reason), "\(address): \(detail)")
        case .connectionLost: self.init(.connectionLost, "\(address): \(detail)")
        case .shutDown: self = .shutDown
        default: self.init(.connect, "\(address): \(detail)")
        }
    }

    /// Whether the server itself fails, so that the next command would fail too.
    var concernsServer: Bool {
        switch kind {
        case .timeout, .connectionLost, .notReady, .connect, .tls, .protocolViolation: true
        default: false
        }
    }

    /// Whether the server fails or has failed lately, so that the same command may succeed later.
    var isOfServer: Bool { concernsServer || kind == .unavailable }

    /// Whether only an operator can remove the cause.
    var isForOperators: Bool {
        switch kind {
        case .full, .readOnly, .protocolViolation, .refused(code: "MISCONF"), .refused(code: "NOREPLICAS"): true
        default: isLasting
        }
    }

    /// Whether another attempt can succeed only after a change of settings.
    var isLasting: Bool {
        switch kind {
        case .authentication, .permission, .unsupported, .tls, .configuration: true
        default: false
        }
    }
}
