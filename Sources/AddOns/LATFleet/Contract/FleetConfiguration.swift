public import CurlTransport
public import HTTPCore

/// The settings of a fleet, read when it is made.
///
/// ```swift
/// var configuration = try FleetConfiguration(url: "rediss://app:secret@redis.example.org:6380/2")
/// configuration.tls.caFile = "redis-ca.pem"
/// configuration.prefix = "shop"
/// let fleet = try Fleet(configuration)
/// ```
///
/// Its description shows neither user nor password.
public struct FleetConfiguration: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Where the Redis listens.
    public enum Address: Hashable, Sendable {
        /// A host and a port.
        case host(String, port: Int)
        /// A Unix domain socket.
        case unixSocket(path: String)
    }

    /// Where the Redis listens. Default `127.0.0.1`, port 6379.
    public var address = Address.host("127.0.0.1", port: 6379)
    /// Whether the connection uses TLS (`rediss://`). Default `false`.
    public var isSecure = false
    /// The user (Redis 6 and newer). Default `nil`: the user `default`.
    public var user: String?
    /// The password. Default `nil`: none.
    public var password: String?
    /// The number of the database. Default 0.
    public var database = 0
    /// The text that all keys and channels begin with. Fleets with different prefixes share nothing. Default `lat`.
    public var prefix = "lat"
    /// The settings of TLS. Certificates and host names are verified as for requests. Default `TLSConfiguration()`.
    public var tls = TLSConfiguration()
    /// The proxy to the Redis; HTTP proxies must allow `CONNECT` to its port. Default ``ProxyPolicy/direct``.
    public var proxy = ProxyPolicy.direct
    /// The longest time that a request waits for a look-up. Default 10 ms.
    public var lookUpBudget = Duration.milliseconds(10)
    /// The longest time to wait for a write. Default 50 ms.
    public var writeBudget = Duration.milliseconds(50)
    /// The longest time to connect, with TLS and log-in. Default 2 s.
    public var connectTimeout = Duration.seconds(2)
    /// The longest pause between two attempts to connect. The pauses grow, and each is random up to its length (full jitter).
    /// Default 5 s.
    public var maxReconnectPause = Duration.seconds(5)
    /// The number of failures in a row after which no commands are sent. Default 5.
    public var breakerThreshold = 5
    /// How long no commands are sent after ``breakerThreshold`` failures in a row. Then one `PING` tests the server.
    /// The time doubles while the `PING` fails, up to 30 s. Default 1 s.
    public var breakerPause = Duration.seconds(1)
    /// How long the server may be silent before it is sent a `PING`. After the same time again without a reply, the connection
    /// counts as lost. Default 1 s.
    public var heartbeat = Duration.seconds(1)
    /// The largest reply, in bytes. A larger one ends the connection. Default 128 MiB.
    public var maxReplySize = 128 << 20
    /// Receives failures that only an operator can remove: a wrong password, a certificate of another host, a Cluster. Each
    /// kind is reported once until the server accepts a new connection. Called on any thread. Default `nil`: a line on
    /// standard error.
    public var warningHandler: (@Sendable (FleetError) -> Void)?

    /// Makes the settings of a Redis on this machine.
    public init() {}

    /// The address in the form of a URL, without user and password.
    public var description: String {
        switch address {
        case .unixSocket(let path): "unix://\(path)" + (database == 0 ? "" : "?db=\(database)")
        case .host(let host, let port):
            "\(isSecure ? "rediss" : "redis")://\(Self.bracketed(host)):\(port)"
                + (database == 0 ? "" : "/\(database)")
        }
    }

    /// The same as ``description``.
    public var debugDescription: String { description }

    /// The address and the prefix.
    public var customMirror: Mirror { Mirror(self, children: ["address": description, "prefix": prefix]) }

    static func bracketed(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }
}

extension FleetConfiguration {
    /// The URL for libcurl, which knows only the schemes of HTTP.
    var transportURL: String {
        switch address {
        case .unixSocket: "http://localhost/"
        case .host(let host, let port): "\(isSecure ? "https" : "http")://\(Self.bracketed(host)):\(port)/"
        }
    }

    /// The settings of the engine that makes the connections.
    var engine: EngineConfiguration {
        var engine = EngineConfiguration()
        engine.tls = tls
        engine.proxy = proxy
        engine.timeout = nil
        engine.idleTimeout = nil
        engine.connectTimeout = connectTimeout
        return engine
    }

    /// How long the server may be silent before the connection counts as lost.
    var longestSilence: Duration { min(heartbeat, .milliseconds(Int32.max)) * 2 }

    /// Reports a problem to the operator. The caller reports each problem once.
    ///
    /// - Parameter prefix: What the line on standard error says before the problem.
    func warn(_ error: FleetError, prefix: String) {
        guard let warningHandler else { return engine.warn("\(prefix): \(error)") }
        // The app's code must not block the caller.
        Task.detached { warningHandler(error) }
    }

    /// - Throws: ``FleetError/Kind/configuration`` that names the setting.
    func validate() throws(FleetError) {
        switch address {
        case .host(let host, let port):
            guard !host.isEmpty else {
                throw .configuration("the address of the Redis has no host; write redis://HOST:PORT")
            }
            guard (1...65_535).contains(port) else {
                throw .configuration(
                    "\(port) is not a port; give a number from 1 to 65535 (Redis uses 6379 by default)")
            }
        case .unixSocket(let path):
            guard path.hasPrefix("/") else {
                throw .configuration(
                    "the socket \"\(path)\" is not an absolute path; write unix:///run/redis/redis.sock")
            }
            guard !isSecure else {
                throw .configuration("a Unix socket has no TLS; leave out isSecure, or give host and port")
            }
        }
        guard database >= 0 else { throw .configuration("the database is \(database); give 0 or more") }
        guard Self.isName(prefix) else {
            throw .configuration(
                "the prefix \"\(prefix)\" must be printable ASCII without blanks, braces, brackets, *, ? and \\")
        }
        let times: [(String, Duration)] = [
            ("lookUpBudget", lookUpBudget), ("writeBudget", writeBudget), ("connectTimeout", connectTimeout),
            ("maxReconnectPause", maxReconnectPause), ("breakerPause", breakerPause), ("heartbeat", heartbeat),
        ]
        for (name, time) in times where time <= .zero {
            throw .configuration("\(name) is \(time); give a time above zero")
        }
        guard breakerThreshold > 0 else {
            throw .configuration("breakerThreshold is \(breakerThreshold); give 1 or more")
        }
        guard maxReplySize >= 1 << 20 else {
            throw .configuration("maxReplySize is \(maxReplySize); give at least 1 MiB")
        }
        if user != nil, password == nil {
            throw .configuration(
                "there is a user but no password; write redis://USER:PASSWORD@…, or :PASSWORD@ without a user")
        }
    }

    /// Whether a text may be a part of a key: printable ASCII without characters that have a meaning in Redis' patterns and
    /// hash tags.
    static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 > 32 && $0 < 127 && !"{}*?[]\\".utf8.contains($0) }
    }
}

/// What a manager shares with the other processes of a fleet.
public struct FleetParts: OptionSet, Hashable, Sendable {
    /// One bit for each part.
    public let rawValue: Int

    /// Makes a set from its bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The Redis is the lowest tier of the manager's cache, and one process fetches for all (``Fleet/cache(above:_:)``).
    public static let cache = FleetParts(rawValue: 4)
    /// The manager's limits, and those of its table's rows, hold for all processes together.
    public static let limits = FleetParts(rawValue: 1)
    /// A circuit that one process opens is open in all of them, and one process probes the host.
    public static let circuits = FleetParts(rawValue: 2)
    /// All parts.
    public static let all: FleetParts = [.cache, .limits, .circuits]
}
