import FoundationEssentials
import LATTesting
import TestSupport
import Testing

/// The options of `lat request` on connections, speed and the coding of bodies.
@Suite(.timeLimit(.minutes(1))) struct RequestConnectionTests {
    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.fallback { _ in .text("ok") }
    }

    private func request(_ method: String, _ options: String..., host: String = "127.0.0.1") async throws
        -> LatProcess.Result
    {
        try await LatProcess.run(["request", method, "http://\(host):\(server.port)/"] + options)
    }

    @Test func bodyIsCompressedWithTrailers() async throws {
        let text = String(repeating: "abc", count: 1000)
        let result = try await request("POST", "-d", text, "--gzip", "--trailer", "X-Sum: 7")
        #expect(result.exitCode == 0, "\(result.err)")
        let sent = try #require(server.requests.first)
        #expect(sent.headers["Content-Encoding"] == "gzip" && sent.body.count < 200)
        #expect(sent.trailers["X-Sum"] == "7")
    }

    @Test func credentialsAreReadFromANetrcFile() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine localhost login ada password pw\n".utf8), to: "netrc")
        let result = try await request("GET", "--netrc-file", file, host: "localhost")
        #expect(result.exitCode == 0, "\(result.err)")
        #expect(server.requests.first?.headers["Authorization"] == "Basic YWRhOnB3")
    }

    @Test func connectionOptionsAreAccepted() async throws {
        let result = try await request(
            "GET", "--interface", "lo", "--local-port", "21500-21900", "--happy-eyeballs", "50ms", "--prewarm", "7",
            "--limit-rate", "10M")
        #expect(result.exitCode == 0 && result.text == "ok", "\(result.err)")
        #expect(server.requests.filter { $0.method == "GET" }.count == 1)
    }

    @Test func hstsHostOfAFileIsRequestedOverTLS() async throws {
        let directory = try TemporaryDirectory()
        let hsts = try directory.write(Data("localhost \"unlimited\"\n".utf8), to: "hsts")
        let result = try await request(
            "GET", "--hsts", hsts, "--alt-svc", directory.path(of: "alt-svc"), host: "localhost")
        // Over TLS the call fails, because the server speaks plain HTTP only.
        #expect(result.exitCode == 3 && server.requests.isEmpty)
    }

    @Test(.needsNginx) func tlsKeysAreLogged() async throws {
        let url = try #require(Servers.nginxTLS)
        let authority = try #require(Servers.authority)
        let directory = try TemporaryDirectory()
        let keys = directory.path(of: "keys")
        let request = ["request", "GET", "\(url)/1k.bin", "--ca", authority]
        let logged = try await LatProcess.run(request + ["--key-log", keys])
        #expect(logged.exitCode == 0, "\(logged.err)")
        #expect(try String(contentsOfFile: keys, encoding: .utf8).contains("CLIENT_"))
        // This server does not staple OCSP responses.
        let unproven = try await LatProcess.run(request + ["--ocsp-stapling"])
        #expect(unproven.exitCode == 3 && unproven.err.contains("OCSP"), "\(unproven.err)")
    }

    @Test(arguments: [
        (["--doh", "http://a/"], 2, "lat: --doh: \""), (["--dns-servers", "dns.example"], 2, "lat: --dns-servers: \""),
        (["--interface", "eth99"], 2, "lat: --interface: "), (["--interface", "192.0.2.7"], 2, "lat: --interface: "),
        (["--netrc-file", "/no/such"], 2, "lat: --netrc-file: "), (["--hsts", "/no/such/file"], 2, "lat: --hsts: "),
        (["--local-port", "9-2"], 2, "--local-port"), (["--local-port", "x"], 2, "--local-port"),
        (["--limit-rate", "0"], 2, "--limit-rate"), (["--limit-rate", "fast"], 2, "--limit-rate"),
        (["--prewarm", "0"], 2, "--prewarm"), (["--ca", "/no/such/file"], 2, "lat: --ca \"/no/such/file\""),
        (["--key-log", "/no/such/keys"], 2, "lat: --key-log \"/no/such/keys\""),
        (["--doh", "https://a/", "--dns-servers", "1.1.1.1"], 2, "--dns-servers"),
        (["--happy-eyeballs", "soon"], 2, "--happy-eyeballs"), (["--trailer", "none"], 2, "--trailer"),
    ])
    func impossibleOptionsAreRefused(options: [String], code: Int32, name: String) async throws {
        let result = try await LatProcess.run(["request", "GET", server.url()] + options)
        #expect(result.exitCode == code, "\(result.err)")
        #expect(result.err.contains(name), "\(result.err)")
        #expect(server.requests.isEmpty)
    }
}
