import CLibcurl
import Glibc
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
    /// How many idle connections are kept open for later requests, of all hosts together; of one host always as many as
    /// ``maxConnectionsPerHost`` allows. The connections in use come on top (`CURLMOPT_MAXCONNECTS`). Default 256.
    public var maxIdleConnections = 256
    /// How long an unused connection may still be used again (`CURLOPT_MAXAGE_CONN`), in whole seconds.
    /// Default 118 s.
    public var idleConnectionLifetime: Duration = .seconds(118)
    /// How old a connection may become (`CURLOPT_MAXLIFETIME_CONN`), in whole seconds. Default `nil`: any age.
    public var connectionLifetime: Duration?
    /// The largest decoded body that is collected in memory. Default 2 GiB.
    public var maxBodySize: Int64 = 2 << 30
    /// By how much a body may grow when its compression is taken off, looked at after 32 MiB, and after 1 MiB when the status
    /// is 400 or above. Default 200.
    public var maxDecompressionRatio = 200
    /// The most bytes of bodies that all transfers together receive in a second, counted as they are handed on, without
    /// their compression. The piece that crosses the limit is taken whole, and those after it wait; that is no silence, but
    /// the total timeout goes on. For a limit of one request see ``HTTPRequest/maxReceiveRate``. Default `nil`: no limit.
    public var maxReceiveRate: Int64?
    /// The most bytes of bodies that all transfers together send in a second, as ``maxReceiveRate``. Default `nil`: no
    /// limit.
    public var maxSendRate: Int64?
    /// The `User-Agent` of requests that name none. Default `nil`: `LATNetworking/<version> (<system>; <architecture>)`, as
    /// in `LATNetworking/1.1 (Debian 12; x86_64)`.
    public var userAgent: String?
    /// The HTTP version of requests whose own ``HTTPRequest/version`` is ``HTTPVersionPolicy/automatic``. A version that this
    /// libcurl lacks is refused when the manager is made, with ``NetworkError/Kind/unsupported``. Default
    /// ``HTTPVersionPolicy/automatic``.
    public var version = HTTPVersionPolicy.automatic
    /// Where requests go through. Default ``ProxyPolicy/environment``.
    public var proxy: ProxyPolicy = .environment
    /// How the password of a proxy's URL is sent to an HTTP proxy. Default ``ProxyAuthentication/basic``.
    public var proxyAuthentication = ProxyAuthentication.basic
    /// Certificates and their checking.
    public var tls = TLSConfiguration()
    /// Whether cookies are kept and sent back (RFC 6265). Default ``CookiePolicy/off``.
    public var cookies = CookiePolicy.off
    /// Whether connections to addresses that are none of the public internet are refused: private, loopback, link-local,
    /// cloud metadata and the others of ``AddressRule``. Default `false`.
    ///
    /// The address that is really connected to is judged, when its socket is made, for each hop of a redirect and each
    /// connection; so a name that resolves to such an address, or changes between two look-ups, comes no further. Of
    /// several addresses of a name the public ones are still tried. Unix domain sockets are refused too.
    ///
    /// A proxy's own address is the app's choice and not judged. What the proxy then connects to is out of sight: of a
    /// request through a proxy only the URL's host is judged, when it is an address in any notation or a name like
    /// `localhost`. A proxy that must not reach inside has to see to that itself.
    public var blocksPrivateAddresses = false
    /// What ``blocksPrivateAddresses`` lets through: addresses and ranges (`10.1.0.0/16`, `fd00:1::/32`), and names of
    /// hosts, `*.example.org` for all names below one. Default none.
    public var allowedPrivateAddresses: [String] = []
    /// Told once of what a person should know: that certificates are not verified, that the cookie file cannot be
    /// written. Called on any thread. Default `nil`: a line on standard error.
    public var warningHandler: (@Sendable (_ message: String) -> Void)?
    /// Addresses for hosts, instead of asking the name server (`CURLOPT_RESOLVE`): `"api.example.org:443"` to
    /// `"127.0.0.1"`, several with commas between.
    public var resolve: [String: String] = [:]
    /// Other hosts and ports to connect to than the URL's (`CURLOPT_CONNECT_TO`), in libcurl's notation
    /// `HOST1:PORT1:HOST2:PORT2`. Name checks and the `Host` field stay with the URL's.
    public var connectTo: [String] = []
    /// How long a looked-up address is used again (`CURLOPT_DNS_CACHE_TIMEOUT`), in whole seconds. Default 60 s.
    public var dnsCacheLifetime: Duration = .seconds(60)
    /// Who is asked for the addresses of hosts (`CURLOPT_DOH_URL`, `CURLOPT_DNS_SERVERS`). Default
    /// ``NameResolver/system``.
    public var nameResolver = NameResolver.system
    /// How long an attempt at a host's first address has before one at an address of the other family begins beside it
    /// (RFC 8305, `CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS`). libcurl 8 does not wait for all of the connect timeout, whatever this
    /// says. Default 200 ms.
    public var happyEyeballsDelay = standardHappyEyeballsDelay
    /// The interface or address of this machine that connections come from (`CURLOPT_INTERFACE`). Default `nil`: the
    /// system's choice. One that is not there is refused when the manager is made, with
    /// ``NetworkError/Kind/invalidRequest``.
    public var connectionSource: ConnectionSource?
    /// The ports of this machine that connections come from, the first free one of them (`CURLOPT_LOCALPORT`,
    /// `CURLOPT_LOCALPORTRANGE`). With fewer ports than connections some fail, with ``NetworkError/Kind/connect``; a closed
    /// connection's port is free again a minute later. Default `nil`: the system's choice.
    public var localPorts: ClosedRange<Int>?
    /// Where user names and passwords of hosts are read from (`CURLOPT_NETRC`). Default ``NetrcPolicy/off``.
    public var netrc = NetrcPolicy.off
    /// Whether hosts that ask for it are only spoken to over TLS (RFC 6797; libcurl's `CURLOPT_HSTS_CTRL` is not used, since
    /// redirects, cookies and credentials have to see the address). Default ``HSTSPolicy/off``.
    public var hsts = HSTSPolicy.off
    /// Hosts that are only spoken to over TLS from the first request on, whatever ``hsts`` says: `example.org` for itself,
    /// `.example.org` for all names below it too. Default none.
    public var hstsPreload: [String] = []
    /// Whether requests go to the other addresses that servers name (RFC 7838, by `CURLOPT_CONNECT_TO`; libcurl's
    /// `CURLOPT_ALTSVC_CTRL` knows them for one handle only). Default ``AltSvcPolicy/off``.
    public var altSvc = AltSvcPolicy.off
    /// A Unix domain socket to connect to, for all requests. Default `nil`.
    public var unixSocketPath: String?
    /// Whether the kernel's news of links, addresses and routes (rtnetlink) is heard: pooled connections whose address or
    /// route is gone are not used again, and reachability is looked at anew. Default `true`; where the system refuses,
    /// it is as if `false`.
    public var watchesNetwork = true
    /// Puts text into the cookie file; returns 0 or the system's error. Tests have another.
    var cookieWriter: (@Sendable (_ path: String, _ text: String) -> CInt)?
    /// What ``RedirectPolicy/automatic`` stands for, when whoever uses the engine follows redirects. Of one that is followed
    /// the head is then the answer, with a stream as its body, when the body is larger than 64 KiB or takes longer than
    /// 250 ms; the stream is to be read or abandoned. Default `nil`: nobody follows any.
    package var redirects: RedirectPolicy?

    /// The default settings.
    public init() {}

    static let standardHappyEyeballsDelay = Duration.milliseconds(200)
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

extension EngineConfiguration {
    /// Says what a person should know.
    func warn(_ message: String) {
        if let warningHandler { return warningHandler(message) }
        let line = Array("LATNetworking: \(message)\n".utf8)
        // One write, so that lines of several threads do not mix; where nobody reads, nobody is told.
        _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
