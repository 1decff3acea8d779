import CLibcurl
import Glibc
public import HTTPCore

/// The settings of an engine, which reads them when it is made.
public struct EngineConfiguration: Sendable {
    /// The longest time from the start of a transfer to its last byte, without the time in the queue. Default 60 s;
    /// `nil` for none.
    public var timeout: Duration? = .seconds(60)
    /// The longest time to establish a connection, TLS included. Default 10 s.
    public var connectTimeout: Duration = .seconds(10)
    /// The longest time without data on an established connection. Default 60 s; `nil` for none.
    public var idleTimeout: Duration? = .seconds(60)
    /// The most connections to one origin (scheme, host and port). Default 5.
    public var maxConnectionsPerHost = 5
    /// The most concurrent requests. Default `nil`: limited by ``maxConnectionsPerHost`` only.
    public var maxConnections: Int?
    /// How many idle connections to all hosts together are kept open for later requests; to one host, always as many as
    /// ``maxConnectionsPerHost`` allows. Connections in use do not count (`CURLMOPT_MAXCONNECTS`). Default 256.
    public var maxIdleConnections = 256
    /// How long a connection may be idle and still be reused (`CURLOPT_MAXAGE_CONN`), in whole seconds. Default 118 s.
    public var idleConnectionLifetime: Duration = .seconds(118)
    /// The age at which a connection is no longer reused (`CURLOPT_MAXLIFETIME_CONN`), in whole seconds. Default `nil`: any.
    public var connectionLifetime: Duration?
    /// The largest decoded body that is collected in memory, in bytes. Default 2 GiB.
    public var maxBodySize: Int64 = 2 << 30
    /// The largest ratio of decoded to received bytes of a compressed body. It is checked after 32 MiB, and after 1 MiB
    /// when the status is 400 or above. Default 200.
    public var maxDecompressionRatio = 200
    /// The most bytes of bodies per second that all transfers together receive, counted after decompression. The chunk that
    /// exceeds the limit is delivered whole and later ones wait. Waiting does not count towards the idle timeout, but does
    /// towards the total timeout. To limit a single request, see ``HTTPRequest/maxReceiveRate``. Default `nil`: no limit.
    public var maxReceiveRate: Int64?
    /// The most bytes of bodies per second that all transfers together send. Limits like ``maxReceiveRate``. Default
    /// `nil`: no limit.
    public var maxSendRate: Int64?
    /// The `User-Agent` of requests that set none. Default `nil`: `LATNetworking/<version> (<system>; <architecture>)`,
    /// as in `LATNetworking/1.1 (Debian 12; x86_64)`.
    public var userAgent: String?
    /// The HTTP version of requests whose own ``HTTPRequest/version`` is ``HTTPVersionPolicy/automatic``. Making a
    /// manager fails with ``NetworkError/Kind/unsupported`` when this libcurl lacks the version. Default
    /// ``HTTPVersionPolicy/automatic``.
    public var version = HTTPVersionPolicy.automatic
    /// The proxy that requests go through. Default ``ProxyPolicy/environment``.
    public var proxy: ProxyPolicy = .environment
    /// The scheme that sends the credentials of a proxy's URL to an HTTP proxy. Default ``ProxyAuthentication/basic``.
    public var proxyAuthentication = ProxyAuthentication.basic
    /// The settings of TLS. Default ``TLSConfiguration/init()``.
    public var tls = TLSConfiguration()
    /// Whether cookies are stored and sent back (RFC 6265). Default ``CookiePolicy/off``.
    public var cookies = CookiePolicy.off
    /// Whether connections to addresses outside the public internet are refused: private, loopback, link-local, cloud
    /// metadata and the others of ``AddressRule``. Default `false`.
    ///
    /// The guard judges the address of each connection when its socket is made, also for each hop of a redirect. A host
    /// name that resolves to a private address, or changes between two look-ups, is therefore refused as well. If a
    /// name has several addresses, the public ones are still tried. Unix domain sockets are refused too.
    ///
    /// A proxy's own address is not judged, since the app chooses it. For a request through a proxy, only the URL's host is
    /// judged: an address in any notation, or a name like `localhost`. The proxy itself must restrict what it connects to.
    public var blocksPrivateAddresses = false
    /// The exceptions to ``blocksPrivateAddresses``: addresses, ranges (`10.1.0.0/16`, `fd00:1::/32`) and host names;
    /// `*.example.org` allows all names below `example.org`. Default none.
    public var allowedPrivateAddresses: [String] = []
    /// Receives each warning once: that certificates are not verified, that the cookie file cannot be written. Called
    /// on any thread. Default `nil`: warnings go to standard error.
    public var warningHandler: (@Sendable (_ message: String) -> Void)?
    /// Addresses of hosts, used instead of a DNS look-up (`CURLOPT_RESOLVE`): `"api.example.org:443"` to `"127.0.0.1"`,
    /// several addresses separated by commas. Default none.
    public var resolve: [String: String] = [:]
    /// Hosts and ports to connect to in place of the URL's (`CURLOPT_CONNECT_TO`), in libcurl's notation
    /// `HOST1:PORT1:HOST2:PORT2`. The `Host` field and the certificate's name check keep the URL's host. Default none.
    public var connectTo: [String] = []
    /// How long a resolved address is cached (`CURLOPT_DNS_CACHE_TIMEOUT`), in whole seconds. Default 60 s.
    public var dnsCacheLifetime: Duration = .seconds(60)
    /// The resolver of host names (`CURLOPT_DOH_URL`, `CURLOPT_DNS_SERVERS`). Default ``NameResolver/system``.
    public var nameResolver = NameResolver.system
    /// How long the first connection attempt runs alone before a second one, to an address of the other family, starts
    /// beside it (RFC 8305, `CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS`). libcurl 8 starts the second attempt before the
    /// connect timeout has passed, even when this is longer. Default 200 ms.
    public var happyEyeballsDelay = standardHappyEyeballsDelay
    /// The local interface or address of connections (`CURLOPT_INTERFACE`). Default `nil`: the system's choice. Making
    /// a manager fails with ``NetworkError/Kind/invalidRequest`` when there is no such interface or address.
    public var connectionSource: ConnectionSource?
    /// The local ports of connections; each uses the first free one (`CURLOPT_LOCALPORT`, `CURLOPT_LOCALPORTRANGE`).
    /// With fewer ports than connections, some fail with ``NetworkError/Kind/connect``; the port of a closed connection
    /// is free again a minute later. Default `nil`: the system's choice.
    public var localPorts: ClosedRange<Int>?
    /// The file with user names and passwords of hosts (`CURLOPT_NETRC`). Default ``NetrcPolicy/off``.
    public var netrc = NetrcPolicy.off
    /// Whether hosts can require TLS for their URLs (RFC 6797). libcurl's `CURLOPT_HSTS_CTRL` is not used, because
    /// redirects, cookies and credentials have to see the `https` URL. Default ``HSTSPolicy/off``.
    public var hsts = HSTSPolicy.off
    /// Hosts that require TLS from the first request on, whatever ``hsts`` says: `example.org` for the host itself,
    /// `.example.org` also for all names below it. Default none.
    public var hstsPreload: [String] = []
    /// Whether requests use the alternative services that servers announce (RFC 7838). Applied with `CURLOPT_CONNECT_TO`, since
    /// libcurl's `CURLOPT_ALTSVC_CTRL` remembers them for one handle only. Default ``AltSvcPolicy/off``.
    public var altSvc = AltSvcPolicy.off
    /// The Unix domain socket that all requests connect to (`CURLOPT_UNIX_SOCKET_PATH`). Default `nil`: none.
    public var unixSocketPath: String?
    /// Whether the engine follows the kernel's news of links, addresses and routes (rtnetlink). After a change, pooled
    /// connections whose address or route is gone are not reused, and reachability is determined anew. Default `true`;
    /// without effect where the system refuses.
    public var watchesNetwork = true
    /// Writes text to the cookie file and returns 0 or the system's error. Tests replace it.
    var cookieWriter: (@Sendable (_ path: String, _ text: String) -> CInt)?
    /// The policy behind ``RedirectPolicy/automatic`` when the engine's user follows redirects. If the body of a
    /// redirect that is followed is larger than 64 KiB or takes longer than 250 ms, the response has a stream as its
    /// body, which must be read or abandoned. Default `nil`: redirects are not followed.
    package var redirects: RedirectPolicy?

    /// Makes the default settings.
    public init() {}

    static let standardHappyEyeballsDelay = Duration.milliseconds(200)
}

/// What an engine holds at the moment: for tests, and to find leaks.
public struct EngineGauges: Hashable, Sendable {
    /// The libcurl handles, in use and pooled.
    public var easyHandles: Int
    /// The open sockets, including those of idle connections.
    public var sockets: Int
    /// Whether the engine's thread is running.
    public var isRunning: Bool
}

extension EngineConfiguration {
    /// Reports a warning.
    func warn(_ message: String) {
        if let warningHandler { return warningHandler(message) }
        let line = Array("LATNetworking: \(message)\n".utf8)
        // A single write keeps lines of several threads apart. Failure is ignored: standard error may be closed.
        _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
