public import HTTPCore

/// The settings of an engine. They are read when it is made.
public struct EngineConfiguration: Sendable {
    /// The longest time from the start of a transfer to its last byte. Default 60 s; `nil` for none.
    public var timeout: Duration? = .seconds(60)
    /// The longest time until a connection stands, TLS included. Default 10 s.
    public var connectTimeout: Duration = .seconds(10)
    /// The longest silence on a standing connection. Default 60 s; `nil` for none.
    public var idleTimeout: Duration? = .seconds(60)
    /// The most connections to one scheme, host and port. Default 5.
    public var maxConnectionsPerHost = 5
    /// The most requests that run at once. Default `nil`: what ``maxConnectionsPerHost`` gives.
    public var maxConnections: Int?
    /// How many connections are kept open for later requests (`CURLMOPT_MAXCONNECTS`). Default 256.
    public var maxIdleConnections = 256
    /// How long an unused connection may still be used again (`CURLOPT_MAXAGE_CONN`), in whole seconds.
    /// Default 118 s.
    public var idleConnectionLifetime: Duration = .seconds(118)
    /// How old a connection may become (`CURLOPT_MAXLIFETIME_CONN`), in whole seconds. Default `nil`: any age.
    public var connectionLifetime: Duration?
    /// The largest decoded body that is collected in memory. Default 2 GiB.
    public var maxBodySize: Int64 = 2 << 30
    /// By how much a body may grow when its compression is taken off, looked at after 32 MiB. Default 200.
    public var maxDecompressionRatio = 200
    /// The `User-Agent` of requests that name none. Default `nil`: `LATNetworking/<version> (<system>; <architecture>)`, as
    /// in `LATNetworking/1.0 (Debian 12; x86_64)`.
    public var userAgent: String?
    /// Where requests go through. Default ``ProxyPolicy/environment``.
    public var proxy: ProxyPolicy = .environment
    /// Certificates and their checking.
    public var tls = TLSConfiguration()
    /// Addresses for hosts, instead of asking the name server (`CURLOPT_RESOLVE`): `"api.example.org:443"` to
    /// `"127.0.0.1"`, several with commas between.
    public var resolve: [String: String] = [:]
    /// Other hosts and ports to connect to than the URL's (`CURLOPT_CONNECT_TO`), in libcurl's notation
    /// `HOST1:PORT1:HOST2:PORT2`. Name checks and the `Host` field stay with the URL's.
    public var connectTo: [String] = []
    /// How long a looked-up address is used again (`CURLOPT_DNS_CACHE_TIMEOUT`), in whole seconds. Default 60 s.
    public var dnsCacheLifetime: Duration = .seconds(60)
    /// A Unix domain socket to connect to, for all requests. Default `nil`.
    public var unixSocketPath: String?
    /// Whether the kernel's news of links, addresses and routes (rtnetlink) is heard: pooled connections whose address or
    /// route is gone are not used again, and reachability is looked at anew. Default `true`; where the system refuses,
    /// it is as if `false`.
    public var watchesNetwork = true

    /// The default settings.
    public init() {}
}

/// How servers' certificates are checked.
public struct TLSConfiguration: Hashable, Sendable {
    /// A PEM file of trusted certificates, in place of the system's (`CURLOPT_CAINFO`). Default `nil`.
    public var caFile: String?

    /// The system's certificates.
    public init() {}
}

/// What is alive in an engine: for tests, and to see that nothing stays behind.
public struct EngineGauges: Hashable, Sendable {
    /// libcurl handles, running and pooled.
    public var easyHandles: Int
    /// Open sockets, idle connections among them.
    public var sockets: Int
    /// Whether the engine's thread runs.
    public var isRunning: Bool
}
