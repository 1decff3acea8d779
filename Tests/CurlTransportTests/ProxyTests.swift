import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// Proxy settings, and the behaviour of single proxy programs. ``RealProxyTests`` tests what all of them share.
@Suite struct ProxyTests {
    private func configuration(_ proxy: String) -> EngineConfiguration {
        testConfiguration {
            $0.proxy = .url(proxy)
            $0.tls.caFile = TestCertificates.shared?.authority
        }
    }

    private func origin() throws -> MockServer {
        let server = try MockServer()
        server.fallback { .text("for \($0.headers["Host"] ?? "-")") }
        return server
    }

    // MARK: HTTP

    @Test(.needs("tinyproxy"))
    func proxyPasswordIsNotSentToServers() async throws {
        let proxy = try await RealProxy.tinyproxy("BasicAuth ada love-lace")
        let origin = try origin()
        let secure = try await TLSServer()
        let right = "http://ada:love%2Dlace@127.0.0.1:\(proxy.port)"
        try await withTransport(configuration(right)) { transport async throws in
            #expect(try await transport.get(origin.url()).status == 200)
            #expect(try await transport.get(secure.url()).status == 200)
            #expect(origin.requests.allSatisfy { $0.headers["Proxy-Authorization"] == nil })
        }
        // tinyproxy answers a wrong password with 401, which over plain HTTP could also be the server's response.
        for (proxyURL, urls, hint) in [
            ("http://127.0.0.1:\(proxy.port)", [origin.url(), secure.url()], "user and password"),
            ("http://ada:wrong@127.0.0.1:\(proxy.port)", [secure.url()], "tunnel"),
        ] {
            try await withTransport(configuration(proxyURL)) { transport async throws in
                for url in urls {
                    for streams in [false, true] {
                        let request = HTTPRequest("GET", url).with { $0.streamsBody = streams }
                        let error = try await transport.failure(of: request)
                        #expect(error.kind == .proxy, "\(error)")
                        #expect(error.message.contains(hint), "\(error)")
                        #expect(!"\(error)".contains("wrong"))
                    }
                }
            }
        }
        #expect(origin.requestCount == 1)
    }

    @Test(.needs("tinyproxy"))
    func refusedTunnelIsAProxyError() async throws {
        let proxy = try await RealProxy.tinyproxy()
        let closed = try ClosedPort()
        try await withTransport(configuration("127.0.0.1:\(proxy.port)")) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "https://127.0.0.1:\(closed.port)/"))
            #expect(error.kind == .proxy)
            #expect(error.message.contains("tunnel"), "\(error)")
            // Over plain HTTP the proxy's response is an ordinary response.
            #expect(try await transport.get("http://127.0.0.1:\(closed.port)/").status >= 500)
        }
    }

    /// Opens tunnels, and sends this text before the bytes of the server.
    private func tunnel(_ answer: String, to port: Int) throws -> RawServer {
        try RawServer { client in
            var head = ""
            while !head.contains("\r\n\r\n") {
                let bytes = client.read()
                guard !bytes.isEmpty else { return }
                head += String(decoding: bytes, as: UTF8.self)
            }
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
            defer { close(descriptor) }
            var name = sockaddr_in()
            name.sin_family = sa_family_t(AF_INET)
            name.sin_port = in_port_t(port).bigEndian
            name.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
            let isConnected = withUnsafeBytes(of: &name) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) {
                    connect(descriptor, $0.baseAddress, socklen_t(bytes.count)) == 0
                }
            }
            // The client's error says it then.
            guard isConnected else { return client.write(Array("HTTP/1.1 502 errno \(errno)\r\n\r\n".utf8)) }
            let server = RawConnection(descriptor: descriptor)
            client.write(Array(answer.utf8))
            let isDone = DispatchSemaphore(value: 0)
            DispatchQueue(label: "tunnel").async {
                while case let bytes = server.read(), !bytes.isEmpty { client.write(bytes) }
                shutdown(client.descriptor, CInt(SHUT_RDWR))
                isDone.signal()
            }
            while case let bytes = client.read(), !bytes.isEmpty { server.write(bytes) }
            shutdown(descriptor, CInt(SHUT_RDWR))
            isDone.wait()
        }
    }

    @Test(
        .needsOpenSSL, .enabled(if: GlobalCurl.runtimeVersion < 0x08_00_00, "libcurl 8 fails such a tunnel"),
        arguments: [
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200\r\n\r\n", "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\n\n",
            "HTTP/1.1 100\r\n\r\nHTTP/1.1 102 Wait\r\nA: b\r\n\r\nHTTP/1.1 103 A\r\n\r\nHTTP/1.1 204 No\r\nX: y\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ])
    func tunnelOpensAfterInterimResponses(answer: String) async throws {
        let secure = try await TLSServer()
        let proxy = try tunnel(answer, to: secure.port)
        try await withTransport(configuration(proxy.url())) { transport async throws in
            for _ in 0..<2 { #expect(try await transport.get(secure.url()).status == 200) }
        }
    }

    @Test(
        .needsOpenSSL, .enabled(if: GlobalCurl.runtimeVersion < 0x08_00_00, "libcurl 8 fails such a tunnel"),
        arguments: ["HTTP/1.1 103 A\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 100 A\r\n\r\n"])
    func refusalAfterInterimResponseIsAProxyError(answer: String) async throws {
        let proxy = try RawServer { client in
            _ = client.read()
            client.write(Array(answer.utf8))
        }
        try await withTransport(configuration(proxy.url())) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "https://localhost:1/"))
            #expect(error.kind == .proxy, "\(error)")
            #expect(error.message.contains(answer.contains("403") ? "403" : "interim"), "\(error)")
        }
    }

    @Test(
        .needs("squid"),
        arguments: [EngineConfiguration.ProxyAuthentication.digest, .any, .basic])
    func squidReceivesCredentials(_ scheme: EngineConfiguration.ProxyAuthentication) async throws {
        let proxy = try await RealProxy.squid(scheme)
        let origin = try origin()
        let secure = try await TLSServer()
        var right = configuration("http://ada:love%2Dlace@127.0.0.1:\(proxy.port)")
        right.proxyAuthentication = scheme
        try await withTransport(right) { transport async throws in
            for _ in 0..<2 {
                #expect(try await transport.get(origin.url()).status == 200)
                #expect(try await transport.get(secure.url()).status == 200)
                let post = HTTPRequest("POST", origin.url(), body: .text("hello"))
                #expect(try await transport.answer(to: post).status == 200)
            }
            #expect(origin.requests.last?.text == "hello")
            #expect(origin.requests.allSatisfy { $0.headers["Proxy-Authorization"] == nil })
        }
        var wrong = configuration("http://ada:wrong@127.0.0.1:\(proxy.port)")
        wrong.proxyAuthentication = scheme
        try await withTransport(wrong) { transport async throws in
            for url in [origin.url(), secure.url()] {
                #expect(try await transport.failure(of: HTTPRequest("GET", url)).kind == .proxy)
            }
        }
    }

    @Test(.needs("squid"))
    func proxyOverTLSIsVerified() async throws {
        let certificates = try #require(TestCertificates.shared)
        let tls = try ReservedPort()
        let tlsPort = tls.port
        let proxy = try await RealProxy.squid { directory in
            let path = try directory.write(
                try Data(contentsOf: URL(filePath: certificates.server)), to: "server.pem")
            chmod(path, 0o644)
            return "https_port 127.0.0.1:\(tlsPort) tls-cert=\(path)\nacl local src 127.0.0.1\nhttp_access allow local"
        }
        try await proxy.awaitListener(on: tlsPort)
        let origin = try origin()
        let secure = try await TLSServer()
        try await withTransport(configuration("https://localhost:\(tlsPort)")) { transport async throws in
            #expect(try await transport.get(origin.url()).status == 200)
            #expect(try await transport.get(secure.url()).status == 200)
        }
        var untrusting = configuration("https://localhost:\(tlsPort)")
        untrusting.tls.caFile = certificates.path("other.pem")
        try await withTransport(untrusting) { transport async throws in
            for url in [origin.url(), secure.url()] {
                let error = try await transport.failure(of: HTTPRequest("GET", url))
                #expect(error.kind == .proxy)
                #expect(error.message.contains("TLS with the proxy"), "\(error)")
            }
        }
    }

    // MARK: SOCKS

    @Test(.needs("microsocks"))
    func socksErrorsAreDistinguished() async throws {
        let proxy = try await RealProxy.microsocks(["-u", "ada", "-P", "love-lace"])
        let origin = try origin()
        let closed = try ClosedPort()
        try await withTransport(configuration("socks5h://ada:love-lace@127.0.0.1:\(proxy.port)")) {
            transport async throws in
            let request = HTTPRequest(
                "GET", "http://localhost:\(origin.port)/", headers: ["Proxy-Authorization": "Basic c2VjcmV0"])
            #expect(try await transport.answer(to: request).status == 200)
            #expect(origin.requests.last?.headers["Proxy-Authorization"] == nil)
            let error = try await transport.failure(of: HTTPRequest("GET", "http://127.0.0.1:\(closed.port)/"))
            #expect(error.kind == .proxy)
            #expect(error.message.contains("refused the connection"), "\(error)")
        }
        for wrong in ["ada:wrong@", ""] {
            try await withTransport(configuration("socks5h://\(wrong)127.0.0.1:\(proxy.port)")) {
                transport async throws in
                let error = try await transport.failure(of: HTTPRequest("GET", origin.url()))
                #expect(error.kind == .proxy, "\(error)")
                #expect(!"\(error)".contains("wrong"))
            }
        }
    }

    // MARK: Any

    @Test(arguments: ["http", "socks4", "socks4a", "socks5", "socks5h"])
    func unreachableProxyIsAProxyError(scheme: String) async throws {
        let closed = try ClosedPort()
        let origin = try origin()
        try await withTransport(configuration("\(scheme)://user:secret@127.0.0.1:\(closed.port)")) {
            transport async throws in
            for url in [origin.url(), "https://localhost:\(closed.port)/"] {
                let error = try await transport.failure(of: HTTPRequest("GET", url))
                #expect(error.kind == .proxy)
                #expect(error.message.contains("the proxy \(scheme)://"), "\(error)")
                #expect(error.message.contains("127.0.0.1:\(closed.port) cannot be reached"), "\(error)")
                #expect(!"\(error)".contains("secret"))
            }
            #expect(origin.acceptedConnections == 0)
        }
    }

    @Test func proxyAuthorizationReachesProxiesOnly() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Proxy-Authorization"] ?? "none") }
        let request = HTTPRequest(
            "GET", "http://example.org/", headers: ["proxy-authorization": "Basic c2VjcmV0"])
        try await withTransport(configuration(server.baseURL)) { transport async throws in
            #expect(try await transport.answer(to: request).text == "Basic c2VjcmV0")
        }
        let direct = testConfiguration { $0.connectTo = ["example.org:80:127.0.0.1:\(server.port)"] }
        try await withTransport(direct) { transport async throws in
            #expect(try await transport.answer(to: request).text == "none")
        }
    }

    /// libcurl ignores a proxy there.
    @Test(arguments: [false, true]) func unixSocketHasNoProxy(isOfManager: Bool) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "s")
        let server = try MockServer(unixSocketPath: path)
        server.fallback { .text($0.headers["Proxy-Authorization"] ?? "none", status: 407) }
        let configuration = configuration("http://ada:secret@127.0.0.1:9").with {
            if isOfManager { $0.unixSocketPath = path }
        }
        let request = HTTPRequest("GET", "http://daemon/", headers: ["Proxy-Authorization": "Basic c2VjcmV0"]).with {
            if !isOfManager { $0.unixSocketPath = path }
        }
        try await withTransport(configuration) { transport async throws in
            let response = try await transport.answer(to: request)
            #expect(response.status == 407 && response.text == "none")
        }
    }

    @Test func status407WithoutProxyIsAResponse() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("odd", status: 407) }
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url()).status == 407)
        }
    }

    // MARK: The environment

    private func proxy(_ environment: [String: String], _ url: String) throws -> String? {
        try ProxySettings(.environment, environment: environment).proxy(for: Target(url))?.url
    }

    @Test func environmentVariablesMatchCurl() throws {
        #expect(try proxy(["http_proxy": "http://p:1"], "http://a/") == "http://p:1")
        #expect(try proxy(["http_proxy": "http://p:1"], "https://a/") == nil)
        #expect(try proxy(["HTTP_PROXY": "http://p:1"], "http://a/") == nil, "a CGI request could set it")
        #expect(try proxy(["HTTPS_PROXY": "p:2"], "https://a/") == "p:2")
        #expect(try proxy(["https_proxy": "p:1", "HTTPS_PROXY": "p:2"], "https://a/") == "p:1")
        #expect(try proxy(["ALL_PROXY": "socks5://p:3"], "http://a/") == "socks5://p:3")
        #expect(try proxy(["ALL_PROXY": "socks5://p:3", "http_proxy": "p:1"], "http://a/") == "p:1")
        #expect(try proxy(["all_proxy": "socks://p:3"], "https://a/") == "socks5h://p:3")
        #expect(try proxy(["http_proxy": ""], "http://a/") == nil)
        #expect(try proxy(["http_proxy": "p:1", "no_proxy": "a"], "http://a/") == nil)
        #expect(try proxy(["http_proxy": "p:1", "NO_PROXY": "a"], "http://a/") == nil)
        let error = #expect(throws: NetworkError.self) { try proxy(["http_proxy": "gopher://p:1"], "http://a/") }
        #expect(error?.message.contains("http_proxy") == true)
    }

    @Test(arguments: [
        ("*", "anything.example", true), ("example.org", "example.org", true), ("example.org", "a.example.org", true),
        ("example.org", "notexample.org", false), (".example.org", "example.org", true),
        (".example.org", "a.example.org", true), ("example.org.", "example.org", true),
        ("example.org", "EXAMPLE.org.", true), ("a.example.org", "example.org", false),
        ("foo, bar,baz", "bar", true), ("foo bar", "bar", true), ("", "a", false), ("a*", "ab", false),
        ("10.0.0.0/8", "10.1.2.3", true), ("10.0.0.0/8", "11.1.2.3", false),
        ("192.168.1.0/24,10.0.0.0/8", "10.0.0.1", true),
        ("127.0.0.1", "127.0.0.1", true), ("127.0.0.1", "2130706433", true), ("127.0.0.1", "127.0.0.2", false),
        ("::1", "[::1]", true), ("[::1]", "[::1]", true), ("fd00::/8", "[fd12::1]", true),
        ("fd00::/8", "[fe80::1]", false),
        ("10.0.0.0/8", "10.example.org", false), ("0.0.1", "127.0.0.1", false),
    ])
    func exceptionsMatchCurl(_ list: String, _ host: String, _ isDirect: Bool) {
        #expect(ProxyExceptions(list).contains(host) == isDirect)
    }

    /// libcurl 7.88 connects to the server without the proxy when it cannot decode the proxy's credentials.
    @Test(
        arguments: ["%0A", "%09", "%00", "%0d", "%7f", "%1F"],
        ["http://a\u{1}:b@127.0.0.1:9", "socks5h://a:b\u{1}@127.0.0.1:9", "a\u{1}@127.0.0.1:9"])
    func controlCharactersInCredentialsAreRefused(code: String, pattern: String) async throws {
        let url = pattern.split(separator: "\u{1}", omittingEmptySubsequences: false).joined(separator: code)
        let inManager = #expect(throws: NetworkError.self) {
            _ = try CurlTransport(configuration: testConfiguration { $0.proxy = .url(url) })
        }
        #expect(inManager?.kind == .invalidRequest && inManager?.message.contains("control character") == true)
        for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            let error = #expect(throws: NetworkError.self) { _ = try proxy([name: url], "http://a/") }
            #expect(error?.kind == .invalidRequest && error?.message.contains(name) == true)
        }
        let server = try MockServer()
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()).with { $0.proxy = .url(url) })
            #expect(error.kind == .invalidRequest)
            #expect(server.requestCount == 0)
        }
    }

    @Test func percentEncodedCredentialsAreAccepted() throws {
        for url in [
            "http://a%20b:%25%40@p:1", "http://a:%C3%A9@p:1", "http://p:1/%0A@", "http://%zz@p:1", "http://p:1?%0A@",
        ] {
            #expect(try proxy(["http_proxy": url], "http://a/") != nil, "\(url)")
        }
    }

    @Test(arguments: ["http://", "http://a b:1", "http://h:99999", "http://\n", "://x", "ftp://p:1", "http://[::1"])
    func invalidProxyURLIsRefused(_ url: String) {
        let error = #expect(throws: NetworkError.self) {
            _ = try CurlTransport(configuration: testConfiguration { $0.proxy = .url(url) })
        }
        #expect(error?.kind == .invalidRequest)
    }
}
