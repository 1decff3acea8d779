import CLibcurl
import Glibc
public import HTTPCore
import Platform

/// The settings of an engine, read when it is made. Making it fails with ``NetworkError/Kind/invalidRequest`` for an
/// invalid value or file, and with ``NetworkError/Kind/unsupported`` for a setting that this libcurl does not support.
public struct EngineConfiguration: Sendable {
    /// The maximum time from the start of a transfer to its last byte, without the time in the queue. Default 60 s;
    /// `nil` for no limit. A streamed response has no limit unless ``RequestOptions/Values/timeout`` sets one.
    public var timeout: Duration? = .seconds(60)
    /// The maximum time to establish a connection, TLS included. Default 10 s.
    public var connectTimeout: Duration = .seconds(10)
    /// The maximum time without data on an established connection. Default 60 s; `nil` for no limit.
    public var idleTimeout: Duration? = .seconds(60)
    /// The maximum number of connections to one origin (scheme, host and port). Default 5.
    public var maxConnectionsPerHost = 5
    /// The maximum number of concurrent requests. Default `nil`: limited by ``maxConnectionsPerHost`` only.
    public var maxConnections: Int?
    /// The maximum number of idle connections, to all hosts together, that are kept open for later requests
    /// (`CURLMOPT_MAXCONNECTS`). If ``maxConnectionsPerHost`` is larger, that number applies. Default 256.
    public var maxIdleConnections = 256
    /// The maximum idle time of a reused connection (`CURLOPT_MAXAGE_CONN`), rounded up to whole seconds. Default 118 s.
    public var idleConnectionLifetime: Duration = .seconds(118)
    /// The maximum age of a reused connection (`CURLOPT_MAXLIFETIME_CONN`), rounded up to whole seconds. Default `nil`: any.
    public var connectionLifetime: Duration?
    /// The maximum size of a decoded body that is collected in memory, in bytes. Default 2 GiB.
    public var maxBodySize: Int64 = 2 << 30
    /// The content codings that responses are asked for (`Accept-Encoding`), the preferred one first; those whose library is
    /// missing are left out. A coding of the app's own needs a decoder. Bodies in `gzip`, `deflate`, `br` and `zstd` are decoded
    /// whether they were asked for or not. Default gzip, br and zstd.
    public var contentCodings: [ContentCoding] = [.gzip, .br, .zstd]
    /// The maximum ratio of decoded to received bytes of a compressed body. It is checked once 32 MiB have been decoded,
    /// or 1 MiB when the status is 400 or above. Default 200.
    public var maxDecompressionRatio = 200
    /// The maximum rate at which all transfers together receive bodies, in bytes per second after decompression. The chunk
    /// that exceeds the limit is delivered whole, and later ones wait. Waiting counts towards the total timeout, but not
    /// towards the idle timeout. To limit a single request, see ``RequestOptions/Values/maxReceiveRate``. Default `nil`: no limit.
    public var maxReceiveRate: Int64?
    /// The maximum rate at which all transfers together send bodies, in bytes per second. It is applied like
    /// ``maxReceiveRate``. Default `nil`: no limit.
    public var maxSendRate: Int64?
    /// The `User-Agent` of requests that set none. Default `nil`: `LATNetworking/<version> (<system>; <architecture>)`,
    /// as in `LATNetworking/1.1 (Debian 12; x86_64)`.
    public var userAgent: String?
    /// The HTTP version of requests whose own ``RequestOptions/Values/version`` is ``HTTPVersionPolicy/automatic``. Making a
    /// manager fails with ``NetworkError/Kind/unsupported`` when this libcurl lacks the version. Default
    /// ``HTTPVersionPolicy/automatic``.
    public var version = HTTPVersionPolicy.automatic
    /// The proxy that requests go through. Default ``ProxyPolicy/environment``.
    public var proxy: ProxyPolicy = .environment
    /// The authentication scheme for the credentials in an HTTP proxy's URL. Default
    /// ``EngineConfiguration/ProxyAuthentication/basic``.
    public var proxyAuthentication = ProxyAuthentication.basic
    /// The settings of TLS. Default ``TLSConfiguration/init()``.
    public var tls = TLSConfiguration()
    /// Whether cookies are stored and sent back (RFC 6265). Default ``EngineConfiguration/CookiePolicy/off``.
    public var cookies = CookiePolicy.off
    /// Whether the cookie file also keeps session cookies, which have no expiry date, as the file of `curl --cookie-jar`
    /// does. For programs that run once for each request. Default `false`: session cookies end with the manager.
    public var keepsSessionCookies = false
    /// Whether connections to addresses outside the public internet are refused: private, loopback, link-local, cloud
    /// metadata and the others of ``NetworkError/AddressRule``. Default `false`.
    ///
    /// The address of each connection is checked when its socket is made, also for each hop of a redirect. A host name
    /// that resolves to a private address, even if only at a later look-up, is therefore refused as well. If a name has
    /// several addresses, the public ones are still tried. Unix domain sockets are refused too.
    ///
    /// A proxy's own address is not checked, since the app chooses it. For a request through a proxy, only the URL's host is
    /// checked: an address in any notation, or a name like `localhost`. The proxy itself must restrict what it connects to.
    public var blocksPrivateAddresses = false
    /// The exceptions to ``blocksPrivateAddresses``: addresses, ranges (`10.1.0.0/16`, `fd00:1::/32`) and host names;
    /// `*.example.org` allows all names below `example.org`. Default none.
    public var allowedPrivateAddresses: [String] = []
    /// Receives each warning once, such as that certificates are not verified or that the cookie file cannot be
    /// written. Called on any thread. Default `nil`: warnings go to standard error.
    public var warningHandler: (@Sendable (_ message: String) -> Void)?
    /// Addresses of hosts, used instead of a DNS look-up (`CURLOPT_RESOLVE`): `"api.example.org:443"` to `"127.0.0.1"`,
    /// several addresses separated by commas. Default none.
    public var resolve: [String: String] = [:]
    /// Hosts and ports to connect to in place of the URL's (`CURLOPT_CONNECT_TO`), in libcurl's notation
    /// `HOST1:PORT1:HOST2:PORT2`. The `Host` field and the certificate's name check keep the URL's host. Default none.
    public var connectTo: [String] = []
    /// How long a resolved address is cached (`CURLOPT_DNS_CACHE_TIMEOUT`), rounded up to whole seconds. Default 60 s.
    public var dnsCacheLifetime: Duration = .seconds(60)
    /// Which address of a name a new connection goes to, where the name has several. Default
    /// ``RequestOptions/Addresses/pickFirst``: the first that can be connected to.
    public var addresses = RequestOptions.Addresses.pickFirst
    /// The resolver of host names (`CURLOPT_DOH_URL`, `CURLOPT_DNS_SERVERS`). Default
    /// ``EngineConfiguration/NameResolver/system``.
    public var nameResolver = NameResolver.system
    /// The delay between a first connection attempt and a parallel one to an address of the other family (RFC 8305,
    /// `CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS`). libcurl 8 starts the second attempt before the connect timeout has passed,
    /// even when the delay is longer than that timeout. Default 200 ms.
    public var happyEyeballsDelay = standardHappyEyeballsDelay
    /// The local interface or address of connections (`CURLOPT_INTERFACE`). Default `nil`: the system's choice. Making
    /// a manager fails with ``NetworkError/Kind/invalidRequest`` when there is no such interface or address.
    public var connectionSource: ConnectionSource?
    /// The local ports of connections; each uses the first free one (`CURLOPT_LOCALPORT`, `CURLOPT_LOCALPORTRANGE`).
    /// With fewer ports than connections, some fail with ``NetworkError/Kind/connect``; the port of a closed connection
    /// is free again a minute later. Default `nil`: the system's choice.
    public var localPorts: ClosedRange<Int>?
    /// The file with user names and passwords of hosts (`CURLOPT_NETRC`). Default ``EngineConfiguration/NetrcPolicy/off``.
    public var netrc = NetrcPolicy.off
    /// Whether hosts can require TLS for their URLs (RFC 6797). libcurl's `CURLOPT_HSTS_CTRL` is not used, because
    /// redirects, cookies and credentials have to see the `https` URL. Default ``EngineConfiguration/HSTSPolicy/off``.
    public var hsts = HSTSPolicy.off
    /// Hosts that require TLS from the first request on, whatever ``hsts`` says: `example.org` for the host itself,
    /// `.example.org` also for all names below it. Default none.
    public var hstsPreload: [String] = []
    /// Whether requests use the alternative services that servers announce (RFC 7838). Applied with `CURLOPT_CONNECT_TO`, since
    /// libcurl's `CURLOPT_ALTSVC_CTRL` remembers them for one handle only. Default ``EngineConfiguration/AltSvcPolicy/off``.
    public var altSvc = AltSvcPolicy.off
    /// The Unix domain socket that all requests connect to (`CURLOPT_UNIX_SOCKET_PATH`). Default `nil`: none.
    public var unixSocketPath: String?
    /// Whether the engine watches the machine's links, addresses and routes (rtnetlink). After a change, pooled
    /// connections whose address or route is gone are not reused, and reachability is determined again. Default `true`.
    /// It has no effect where the system refuses a netlink socket.
    public var watchesNetwork = true
    /// Writes text to the cookie file and returns 0 or the system's error. Tests replace it.
    var cookieWriter: (@Sendable (_ path: String, _ text: String) -> CInt)?
    /// The policy behind ``RedirectPolicy/automatic`` when the engine's user follows redirects. If the body of a
    /// redirect that is followed is larger than 64 KiB or takes longer than 250 ms, the response has a stream as its
    /// body, which must be read or abandoned. Default `nil`: redirects are not followed.
    package var redirects: RedirectPolicy?
    /// Called on the engine's thread when an established connection was closed, with the origin that it was opened for and
    /// the time since its socket was made.
    package var connectionDidClose: (@Sendable (_ origin: String, _ time: Duration) -> Void)?

    /// Makes the default settings.
    public init() {}

    static let standardHappyEyeballsDelay = Duration.milliseconds(200)

    /// Reports a warning.
    package func warn(_ message: String) {
        if let warningHandler { return warningHandler(message) }
        TextOutput.write("LATNetworking: \(message)\n", to: STDERR_FILENO)
    }
}

/// Counts of what an engine currently holds, for tests and for finding leaks.
package struct EngineGauges: Hashable, Sendable {
    /// The libcurl handles, in use and pooled.
    public var easyHandles: Int
    /// The open sockets, including those of idle connections.
    public var sockets: Int
    /// The sockets by the origin of the request that each was opened for, without those of probes.
    package var origins: [String: Connections] = [:]
    /// Whether the engine's thread is running.
    public var isRunning: Bool
    /// The running transfers, including those of live connections.
    public var transfers = 0
    /// The transfers that wait for a free connection.
    public var waiting = 0

    /// The sockets of an origin: those that a transfer uses or that are being connected, and those kept for later requests.
    package struct Connections: Hashable, Sendable {
        package var active = 0
        package var idle = 0
    }
}

/// Makes errors from what libcurl and the engine report. This file has those that belong to no transfer.
package enum EngineFailure {
    static let cancelled = NetworkError(.cancelled, message: "the request was cancelled")

    package static let shutDown = NetworkError(
        .shutDown, message: "the manager was shut down; make a new one, or shut it down after its last request")

    static func noResources(_ what: String) -> NetworkError {
        NetworkError(.other, message: "the system has no \(what) left; check ulimit -n and the free memory")
    }

    /// The error for a descriptor that the system has just refused.
    static func noDescriptor(_ error: SystemError, for what: String) -> NetworkError {
        NetworkError(.other, message: "no \(what) can be opened: \(error.text)")
    }

    static func refusedOption(_ option: CURLoption, _ code: CURLcode) -> NetworkError {
        var name = "option \(option.rawValue)"
        if let known = curl_easy_option_by_id(option) { name = "CURLOPT_\(String(cString: known.pointee.name))" }
        return NetworkError(
            [CURLE_NOT_BUILT_IN, CURLE_UNKNOWN_OPTION, CURLE_UNSUPPORTED_PROTOCOL].contains(code)
                ? .unsupported : .other,
            message: "libcurl refused \(name): \(String(cString: curl_easy_strerror(code)))",
            curlCode: Int(code.rawValue))
    }
}
