import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing
@testable import LATTransfers

/// Bad input gets one sentence: what was found, what was expected, the next step.
@Suite struct BadInputTests {
    private typealias Configuration = CentralRequestManager.Configuration

    /// The settings of a manager.
    private static let configurations: [(found: String, change: @Sendable (inout Configuration) -> Void)] = [
        ("-1 retries", { $0.retries = -1 }), ("firstWait", { $0.retryPolicy.firstWait = .seconds(-1) }),
        ("longestWait", { $0.retryPolicy.longestWait = .seconds(-1) }),
        ("longestRetryAfter", { $0.retryPolicy.longestRetryAfter = .seconds(-1) }),
        ("share of -1", { $0.retryBudget = RetryPolicy.Budget(share: -1) }),
        ("0 failures", { $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 0) }),
        ("pause", { $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(pause: .seconds(-1)) }),
        ("0 requests", { $0.limits.maxConcurrentRequests = 0 }),
        ("0.0 per second", { $0.limits.rate = RequestLimits.RateLimit(perSecond: 0) }),
        ("-1 hops", { $0.redirects = .follow(limit: -1) }), ("maxReplays is -1", { $0.maxReplays = -1 }),
        ("deadline is 0", { $0.deadline = .zero }), ("mirrorMemory", { $0.mirrorMemory = .seconds(-1) }),
        ("cacheLookUpTimeout", { $0.cacheLookUpTimeout = .seconds(-1) }),
        ("reachability.ttl", { $0.reachability.ttl = .seconds(-1) }),
        ("\"api.example.org\"", { $0.credentialOrigins = ["api.example.org"] }),
        ("timeout is 0", { $0.timeout = .zero }), ("connectTimeout", { $0.connectTimeout = .seconds(-1) }),
        ("maxConnectionsPerHost is 0", { $0.maxConnectionsPerHost = 0 }),
        ("maxBodySize is -1", { $0.maxBodySize = -1 }),
        ("userAgent", { $0.userAgent = "a\nb" }), ("maxSendRate is 0", { $0.maxSendRate = 0 }),
        ("ftp", { $0.proxy = "ftp://proxy" }), ("the proxy", { $0.proxy = "http://" }),
        ("nowhere.pem\"", { $0.tls.caFile = "nowhere.pem" }),
        ("\"x\"", { $0.tls.pins = ["h": ["x"]] }), ("\"https://h\"", { $0.tls.pins = ["https://h": []] }),
        ("\"h\" has no key", { $0.tls.pins = ["h": []] }),
        ("\"none\"", { $0.tls.cipherList = "none" }), ("\"none\"", { $0.tls.cipherSuites = "none" }),
        ("TLS 1.2", { ($0.tls.minimumVersion, $0.tls.maximumVersion) = (.v1_3, .v1_2) }),
        ("\"no.p12\"", { $0.tls.clientCertificate = .pkcs12(path: "no.p12", password: "hunter2") }),
        ("\"/no/where/jar\"", { $0.cookies = .file("/no/where/jar") }),
        ("\"a:b\"", { $0.connectTo = ["a:b"] }), ("\"h\"", { $0.resolve = ["h": ""] }),
        ("0...70000", { $0.localPorts = 0...70_000 }), ("\"lo99\"", { $0.connectionSource = .interface("lo99") }),
        ("\"x\"", { $0.connectionSource = .address("x") }),
        ("192.0.2.1", { $0.connectionSource = .address("192.0.2.1") }),
        (
            "\"x y\"",
            {
                $0.allowedPrivateAddresses = ["x y"]; $0.blocksPrivateAddresses = true
            }
        ),
    ]

    private func expectSentence(
        _ error: NetworkError?, _ found: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        guard let text = error?.message else { return }
        #expect(error?.kind == .invalidRequest, "\(text)", sourceLocation: sourceLocation)
        #expect(text.contains(found), "does not say what was found: \(text)", sourceLocation: sourceLocation)
        #expect(!text.contains(". "), "is more than one sentence: \(text)", sourceLocation: sourceLocation)
        #expect(!text.hasSuffix("."), "\(text)", sourceLocation: sourceLocation)
        #expect(!text.contains("hunter2"), sourceLocation: sourceLocation)
        let steps = ["; ", "expected ", ", only "]
        #expect(steps.contains { text.contains($0) }, "names no next step: \(text)", sourceLocation: sourceLocation)
    }

    @Test func settingsOfAManagerAreChecked() async {
        for (found, change) in Self.configurations {
            let error = await failure { try CentralRequestManager.make { change(&$0) } }
            if error == nil { Issue.record("nothing was said of \(found)") }
            expectSentence(error, found)
        }
    }

    @Test func settingsOfACallAreChecked() async throws {
        let server = try MockServer()
        let url = server.url()
        func changed(_ change: (inout HTTPRequest) -> Void) -> HTTPRequest {
            var request = HTTPRequest("GET", url)
            change(&request)
            return request
        }
        var wrongDigest = DownloadOptions()
        wrongDigest.digest = .sha256("12")
        let cases: [(found: String, request: HTTPRequest)] = [
            ("the URL is empty", HTTPRequest("GET", "")), ("\"ftp\"", HTTPRequest("GET", "ftp://h/")),
            ("\"http://\"", HTTPRequest("GET", "http://")),
            ("\"http://h:99999/\"", HTTPRequest("GET", "http://h:99999/")),
            ("\"http://[::g]/\"", HTTPRequest("GET", "http://[::g]/")), ("\"h/x\"", HTTPRequest("GET", "h/x")),
            ("U+000A", HTTPRequest("GET", "http://h/\n")),
            ("the method is empty", HTTPRequest("", url)), ("\"G T\"", HTTPRequest("G T", url)),
            ("CONNECT", HTTPRequest("CONNECT", url)),
            ("\"X A\"", HTTPRequest("GET", url, headers: ["X A": "1"])),
            ("\"X-A\"", HTTPRequest("GET", url, headers: ["X-A": "a\r\nb"])),
            ("HEAD", HTTPRequest("HEAD", url, body: .text("a"))),
            ("timeout is", changed { $0.timeout = .zero }),
            ("maxBodySize is -1", changed { $0.maxBodySize = -1 }),
            ("maxReceiveRate is 0", changed { $0.maxReceiveRate = 0 }),
            ("maxConnectionsPerHost is 0", changed { $0.maxConnectionsPerHost = 0 }),
            ("gopher", changed { $0.proxy = "gopher://h" }),
            ("\"x\"", changed { $0.tls.pins = ["x"] }),
            ("\"nobody\"", changed { $0.authenticator = .named("nobody") }),
            ("\"nobody\"", changed { $0.sealing = .sealed(by: "nobody") }),
        ]
        let manager = try CentralRequestManager.make()
        for (found, request) in cases {
            expectSentence(await failure { try await manager.send(request) }, found)
        }
        let downloads: [(found: String, request: HTTPRequest, segments: Int, DownloadOptions)] = [
            ("not 0", HTTPRequest("GET", url), 0, DownloadOptions()),
            ("Range", HTTPRequest("GET", url, headers: ["Range": "bytes=0-1"]), 1, DownloadOptions()),
            ("HEAD", HTTPRequest("HEAD", url), 1, DownloadOptions()),
            ("\"12\"", HTTPRequest("GET", url), 1, wrongDigest),
        ]
        for (found, request, segments, options) in downloads {
            let download = manager.download(request, to: "/tmp/never", segments: segments, options: options)
            expectSentence(await failure { try await download.value }, found)
        }
        #expect(server.requestCount == 0)
    }

    @Test func keysOfSignersAndSealersAreChecked() async {
        let key = Data(repeating: 7, count: 32)
        expectSentence(await failure { try HMACSigner(keyID: "k", key: Data("short".utf8)) }, "5 bytes")
        expectSentence(await failure { try HMACSigner(keyID: "k k", key: key) }, "\"k k\"")
        expectSentence(await failure { try AESGCMSealer(keys: ["k": key], current: "j") }, "\"j\"")
        expectSentence(await failure { try AESGCMSealer(keys: ["k": Data("hunter2".utf8)], current: "k") }, "7 bytes")
        expectSentence(
            await failure { try AWSSigner(accessKeyID: "", secretAccessKey: "hunter2", region: "r", service: "s") },
            "accessKeyID")
    }

    @Test func rowsSetInCodeAreChecked() async throws {
        var table = try DomainTable.make("http://d.test", servers: #"s: { domain: "d", path: "x" }"#)
        func refused(_ found: String, _ change: (inout DomainTable.DomainRow) -> Void) async {
            var row = DomainTable.DomainRow(baseURL: "http://d.test")
            change(&row)
            expectSentence(await failure { try table.setDomain("d", row) }, found)
        }
        await refused("\"h\"") { $0.baseURL = "h" }
        await refused("\"ftp://h\"") { $0.mirrors = ["ftp://h"] }
        await refused("\"dev\"") { $0.environments = ["dev": []] }
        await refused("-1 retries") { $0.settings.retries = -1 }
        await refused("0 failures") {
            $0.settings.circuit = .breaker(RequestLimits.CircuitBreakerPolicy(failures: 0))
        }
        await refused("\"X A\"") { $0.settings.headers["X A"] = "1" }
        await refused("\"X-A\"") { $0.settings.headers["X-A"] = "a\nb" }
        await refused("\"x\"") { $0.pins = ["x"] }
        let row = DomainTable.ServerRow(domain: "d", path: "x", method: HTTPMethod("G T"))
        expectSentence(await failure { try table.setServer("s", row) }, "\"G T\"")
        let route = try table.resolve(server: "s")
        expectSentence(await failure { try route.url([:], base: 3) }, "index 3")
    }
}
