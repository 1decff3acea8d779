import CLibcurl
import FoundationEssentials
import HTTPCore
import LATTesting
import Platform
import TestSupport
import Testing

@testable import CurlTransport

/// HTTP/3 against aioquic. Without HTTP/3 in libcurl the suite is skipped and ``HTTP3RefusalTests`` runs instead.
@Suite(.needsHTTP3) struct HTTP3Tests {
    private func trusting(
        _ version: HTTPVersionPolicy = .http3Only, _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) -> EngineConfiguration {
        testConfiguration {
            $0.tls.caFile = TestCertificates.shared?.authority
            $0.version = version
            $0.timeout = .seconds(60)
            change(&$0)
        }
    }

    // MARK: Streams and bodies

    @Test func responseNamesTheVersion() async throws {
        let server = try await HTTP3Server()
        try await withTransport(trusting()) { transport async throws in
            let first = try await transport.get(server.url())
            #expect(first.version == .http3)
            #expect(first.text?.hasPrefix("3 0 right") == true)
            #expect(first.timings.tls != nil && !first.timings.connectionReused)
            let second = try await transport.get(server.url())
            #expect(second.timings.connectionReused)
            #expect(server.connections.count == 1)
        }
    }

    @Test func requestSettingSelectsHTTP3() async throws {
        let server = try await HTTP3Server()
        try await withTransport(trusting(.automatic)) { transport async throws in
            for policy in [HTTPVersionPolicy.http3Only, .http3] {
                let request = HTTPRequest("GET", server.url()).with { $0.version = policy }
                #expect(try await transport.answer(to: request).version == .http3)
            }
            #expect(try await transport.get(server.url()).version == .http1_1)
            let only = HTTPRequest("GET", server.url()).with { $0.version = .http3Only }
            #expect(try await transport.answer(to: only).version == .http3)
            #expect(server.connections.count == 1)
        }
    }

    /// The server answers a request only when all have arrived.
    @Test func concurrentStreamsShareOneConnection() async throws {
        let server = try await HTTP3Server()
        try await withTransport(trusting { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            _ = try await transport.get(server.url())
            let url = server.url("/together/64")
            try await withThrowingTaskGroup(of: HTTPResponse.Version.self) { group in
                for _ in 0..<64 { group.addTask { try await transport.get(url).version } }
                for try await version in group { #expect(version == .http3) }
            }
            #expect(server.connections.count == 1)
        }
    }

    private static let largeSize = ProcessInfo.processInfo.environment["LAT_TEST_LARGE"] == nil ? 32 << 20 : 1 << 30

    @Test func largeBodyArrivesWhole() async throws {
        let server = try await HTTP3Server()
        try await withTransport(trusting { $0.timeout = nil }) { transport async throws in
            let request = HTTPRequest("GET", server.url("/bytes/\(Self.largeSize)")).with { $0.streamsBody = true }
            var offset = 0
            var wrong: Int?
            for try await part in try await transport.send(request).body {
                if wrong == nil, !HTTP3Body.isRight(part, at: offset) { wrong = offset }
                offset += part.count
            }
            #expect(wrong == nil)
            #expect(offset == Self.largeSize)
        }
    }

    @Test func largeBodyIsSentWhole() async throws {
        let server = try await HTTP3Server()
        let part = HTTP3Body.bytes(1 << 20)
        let body = HTTPBody.stream(length: Int64(Self.largeSize)) {
            AsyncStream { continuation in
                for _ in 0..<(Self.largeSize >> 20) { continuation.yield(part) }
                continuation.finish()
            }
        }
        try await withTransport(trusting { $0.timeout = nil }) { transport async throws in
            let response = try await transport.send(HTTPRequest("PUT", server.url(), body: body))
            #expect(response.text?.hasPrefix("3 \(Self.largeSize) right") == true)
        }
    }

    @Test func bodiesSurvivePacketLossAndReordering() async throws {
        let server = try await HTTP3Server()
        let relay = try await DatagramRelay(to: server, dropEvery: 23, reorderEvery: 7)
        let size = 2 << 20
        try await withTransport(trusting()) { transport async throws in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let data = try await transport.send(HTTPRequest("GET", relay.url("/bytes/\(size)"))).data
                        return data == HTTP3Body.bytes(size)
                    }
                }
                group.addTask {
                    let request = HTTPRequest("PUT", relay.url(), body: .data(HTTP3Body.bytes(size)))
                    return try await transport.send(request).text?.hasPrefix("3 \(size) right") == true
                }
                for try await isRight in group { #expect(isRight) }
            }
        }
        #expect(relay.counts.dropped > 100 && relay.counts.reordered > 100, "\(relay.counts)")
    }

    @Test func cancelledStreamDoesNotAffectOthers() async throws {
        let server = try await HTTP3Server()
        try await withTransport(trusting { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            _ = try await transport.get(server.url())
            let url = server.url("/never")
            let stuck = (0..<8).map { _ in Task { try await transport.send(HTTPRequest("GET", url)) } }
            let large = server.url("/bytes/\(4 << 20)")
            let other = Task { try await transport.get(large).data.count }
            for task in stuck { task.cancel() }
            for task in stuck { await #expect(throws: CancellationError.self) { try await task.value } }
            #expect(try await other.value == 4 << 20)
            // A stream that is cancelled before it began may close its connection.
            #expect(server.connections.count <= 2)
        }
    }

    // MARK: Closed connections

    @Test(arguments: ["GET", "POST"]) func idleConnectionIsReplaced(method: String) async throws {
        let server = try await HTTP3Server(idle: 1)
        try await withTransport(trusting()) { transport async throws in
            for round in 1...2 {
                let request = HTTPRequest(method, server.url("/\(round)"), body: method == "POST" ? .text("pay") : nil)
                #expect(try await transport.answer(to: request).version == .http3)
                // The client counts from its own last packet, which may be later than the server's. A POST that is sent in
                // between is lost, and is not repeated. So more than the idle time passes here.
                try await Task.sleep(for: .milliseconds(1500))
                try await server.waitForClosedConnections(round)
            }
            #expect(server.requests == ["\(method) /1 3", "\(method) /2 3"])
            #expect(server.connections.count == 2)
        }
    }

    @Test(arguments: ["GET", "POST"]) func restartedServerIsReconnected(method: String) async throws {
        let first = try await HTTP3Server()
        let url = first.url()
        try await withTransport(trusting()) { transport async throws in
            #expect(try await transport.get(url).version == .http3)
            try await first.stop()
            let second = try await HTTP3Server(port: first.port)
            let request = HTTPRequest(method, url, body: method == "POST" ? .text("pay") : nil)
            #expect(try await transport.answer(to: request).version == .http3)
            #expect(second.connections.count == 1)
        }
    }

    @Test func crashedServerIsReconnected() async throws {
        var server: HTTP3Server? = try await HTTP3Server()
        let port = try #require(server?.port)
        let url = try #require(server?.url())
        let transport = try CurlTransport(configuration: trusting())
        #expect(try await transport.get(url).version == .http3)
        server = nil
        let error = try await transport.failure(of: HTTPRequest("GET", url))
        #expect([.connect, .connectionLost].contains(error.kind), "\(error)")
        server = try await HTTP3Server(port: port)
        #expect(try await transport.get(url).version == .http3)
        #expect(server?.connections.count == 1)
        await transport.shutdown()
    }

    /// The server ends without closing its connections. At most one call fails, and later ones use TCP.
    @Test func deadConnectionFailsAtMostOneCall() async throws {
        var server: HTTP3Server? = try await HTTP3Server()
        let port = try #require(server?.port)
        let url = try #require(server?.url())
        let transport = try CurlTransport(configuration: trusting(.http3) { $0.happyEyeballsDelay = .seconds(2) })
        #expect(try await transport.get(url).version == .http3)
        server = nil
        server = try await HTTP3Server(port: port)
        let request = HTTPRequest("GET", url).with { $0.timeout = .seconds(6) }
        do {
            #expect(try await transport.send(request).version == .http1_1)
        } catch let error as NetworkError {
            #expect(error.kind == .timeout(.total))
        }
        #expect(try await transport.answer(to: request).version == .http1_1)
        await transport.shutdown()
        withExtendedLifetime(server) {}
    }

    /// RFC 7838: the next request goes to the announced alternative, over HTTP/3.
    @Test func altSvcSwitchesToHTTP3() async throws {
        let other = try await HTTP3Server()
        let origin = try await HTTP3Server(isSilent: true, alternative: "h3=\":\(other.port)\"")
        try await withTransport(trusting(.automatic) { $0.altSvc = .memory }) { transport async throws in
            #expect(try await transport.get(origin.url("/1")).version == .http1_1)
            let second = try await transport.get(origin.url("/2"))
            #expect(second.version == .http3 && second.url == origin.url("/2"))
            #expect(other.requests == ["GET /2 3"])
        }
    }

    /// Nothing listens at the alternative: this request and later ones go to the origin.
    @Test func unreachableAlternativeFailsNoCall() async throws {
        let closed = try ClosedPort()
        let origin = try await HTTP3Server(isSilent: true, alternative: "h3=\":\(closed.port)\"")
        let configuration = trusting(.automatic) {
            $0.altSvc = .memory
            $0.connectTimeout = .seconds(2)
        }
        try await withTransport(configuration) { transport async throws in
            for path in ["/1", "/2", "/3"] { #expect(try await transport.get(origin.url(path)).version == .http1_1) }
            #expect(origin.requests.count == 3)
        }
    }

    @Test func unreachableServerErrorNamesHTTP3() async throws {
        let closed = try ClosedPort()
        try await withTransport(trusting()) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "https://127.0.0.1:\(closed.port)/"))
            #expect(error.kind == .connect)
            #expect(error.message.contains("HTTP/3") && error.message.contains("UDP"), "\(error)")
        }
    }

    // MARK: The race

    @Test func http3WinsTheRace() async throws {
        let server = try await HTTP3Server()
        // Long enough that HTTP/3 wins on a slow machine too.
        let configuration = trusting(.http3) { $0.happyEyeballsDelay = .seconds(20) }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<3 { #expect(try await transport.get(server.url(host: "127.0.0.1")).version == .http3) }
            #expect(server.connections.count == 1)
        }
    }

    @Test func lostRaceIsNotRepeated() async throws {
        let server = try await HTTP3Server(isSilent: true)
        try await withTransport(trusting(.http3)) { transport async throws in
            #expect(try await transport.get(server.url()).version == .http1_1)
            let datagrams = server.datagrams
            #expect(datagrams > 0)
            // The pin forces a new connection, which must not race again.
            let pin = try #require(TestCertificates.shared).pin
            let request = HTTPRequest("GET", server.url()).with { $0.tls.pins = [pin] }
            let response = try await transport.answer(to: request)
            #expect(response.version == .http1_1 && !response.timings.connectionReused)
            #expect(server.datagrams == datagrams)
        }
    }

    @Test func requestWithTrailersIsNotRaced() async throws {
        let server = try await HTTP3Server(isSilent: true)
        try await withTransport(trusting(.http3)) { transport async throws in
            let request = HTTPRequest("POST", server.url(), body: .text("x")).with {
                $0.trailers = HTTPRequest.Trailers(["X-A"]) { ["X-A": "1"] }
            }
            #expect(try await transport.answer(to: request).version == .http1_1)
            #expect(server.datagrams == 0)
            // That request lost no race, so the next one is raced.
            #expect(try await transport.get(server.url()).version == .http1_1)
            #expect(server.datagrams > 0)
        }
    }

    @Test func proxiesAndClearTextAreNotRaced() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let configuration = trusting(.http3)
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get(server.url()).version == .http1_1)
        }
        try await withTransport(configuration.with { $0.proxy = .url(server.baseURL) }) { transport async throws in
            #expect(try await transport.get("http://example.org/").text == "x")
        }
    }

    @Test func http3OnlyRefusesConflictingSettings() async throws {
        try await withTransport(trusting()) { transport async throws in
            let clear = HTTPRequest("GET", "http://127.0.0.1:1/")
            #expect(try await transport.failure(of: clear).message.contains("https"))
            let proxied = HTTPRequest("GET", "https://127.0.0.1:1/").with { $0.proxy = .url("http://127.0.0.1:2") }
            let error = try await transport.failure(of: proxied)
            #expect(error.kind == .invalidRequest && error.message.contains("proxy"))
            let socket = HTTPRequest("GET", "https://127.0.0.1:1/").with { $0.unixSocketPath = "/nowhere" }
            #expect(try await transport.failure(of: socket).message.contains("unixSocketPath"))
            let trailers = HTTPRequest("POST", "https://127.0.0.1:1/", body: .text("x")).with {
                $0.trailers = HTTPRequest.Trailers(["X-A"]) { ["X-A": "1"] }
            }
            #expect(try await transport.failure(of: trailers).message.contains("trailers"))
        }
        for change in [
            { @Sendable in $0.unixSocketPath = "/nowhere" }, { @Sendable in $0.tls.maximumVersion = .v1_2 },
        ] as [@Sendable (inout EngineConfiguration) -> Void] {
            let error = #expect(throws: NetworkError.self) {
                try CurlTransport(configuration: trusting(.http3Only, change))
            }
            #expect(error?.kind == .invalidRequest)
        }
    }

    // MARK: Safety

    /// Even a second connection, which a libcurl may begin with the server's ticket, sends no request before its handshake is
    /// complete.
    @Test(arguments: ["GET", "POST"]) func requestIsNeverSentAsEarlyData(method: String) async throws {
        let server = try await HTTP3Server()
        let relay = try await DatagramRelay(to: server)
        let pin = try #require(TestCertificates.shared).pin
        try await withTransport(trusting()) { transport async throws in
            let request = HTTPRequest(method, relay.url(), body: method == "POST" ? .text("pay") : nil)
            #expect(try await transport.answer(to: request).version == .http3)
            // The pin forces a new connection.
            let second = request.with { $0.tls.pins = [pin] }
            #expect(try await transport.answer(to: second).version == .http3)
        }
        #expect(server.connections.count == 2)
        #expect(relay.counts.early == 0)
    }

    @Test(arguments: [HTTPVersionPolicy.http3, .http3Only])
    func privateAddressesAreBlockedOverQUIC(version: HTTPVersionPolicy) async throws {
        let server = try await HTTP3Server(isSilent: true)
        let guarded = trusting(version) { $0.blocksPrivateAddresses = true }
        try await withTransport(guarded) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url(host: "127.0.0.1")))
            #expect(error.kind == .addressBlocked(.loopback), "\(error)")
            #expect(server.datagrams == 0 && server.requests.isEmpty)
        }
        let open = try await HTTP3Server()
        let allowed = guarded.with { $0.allowedPrivateAddresses = ["127.0.0.1"] }
        try await withTransport(allowed) { transport async throws in
            #expect(try await transport.get(open.url(host: "127.0.0.1")).version == .http3)
        }
    }

    @Test func pinsAreCheckedOverQUIC() async throws {
        let server = try await HTTP3Server()
        let pin = try #require(TestCertificates.shared).pin
        let other = "sha256//" + Data(repeating: 7, count: 32).base64EncodedString()
        try await withTransport(trusting()) { transport async throws in
            let wrong = HTTPRequest("GET", server.url()).with { $0.tls.pins = [other] }
            #expect(try await transport.failure(of: wrong).kind == .tls(.pinMismatch))
            #expect(server.requests.isEmpty)
            let right = HTTPRequest("GET", server.url()).with { $0.tls.pins = [other, pin] }
            #expect(try await transport.answer(to: right).version == .http3)
        }
    }

    @Test(arguments: [
        ("stranger", NetworkError.TLSFailure.untrusted), ("expired", .expired), ("elsewhere", .wrongHost),
        ("alone", .selfSigned),
    ])
    func certificateIsCheckedOverQUIC(name: String, reason: NetworkError.TLSFailure) async throws {
        let server = try await HTTP3Server(name)
        try await withTransport(trusting()) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .tls(reason), "\(error)")
            #expect(server.requests.isEmpty)
        }
    }
}

/// A libcurl without HTTP/3 refuses the setting.
@Suite(.enabled(if: !GlobalCurl.has(CURL_VERSION_HTTP3), "this libcurl has HTTP/3")) struct HTTP3RefusalTests {
    @Test(arguments: [HTTPVersionPolicy.http3, .http3Only])
    func http3SettingIsRefused(version: HTTPVersionPolicy) async throws {
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.version = version })
        }
        #expect(error?.kind == .unsupported)
        #expect(error?.message.contains("version = .\(version)") == true)
        let server = try MockServer()
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.version = version }
            #expect(try await transport.failure(of: request).kind == .unsupported)
            #expect(server.acceptedConnections == 0)
        }
    }
}

@Suite struct LibcurlVersionTests {
    @Test(.enabled(if: ProcessInfo.processInfo.environment["LAT_TEST_LIBCURL"] != nil, "for scripts/test --libcurl 8"))
    func requestedLibcurlIsLoaded() {
        #expect(ProcessInfo.processInfo.environment["LAT_TEST_LIBCURL"] == "\(GlobalCurl.runtimeVersion >> 16)")
    }

    @Test func failedOriginsExpireAndAreBounded() {
        var failedOrigins = FailedHTTP3Origins()
        let start = MonotonicTime(nanoseconds: 0)
        failedOrigins.insert("https://a:443", start)
        #expect(failedOrigins.contains("https://a:443", start + (FailedHTTP3Origins.pause - 1)))
        #expect(!failedOrigins.contains("https://a:443", start + FailedHTTP3Origins.pause))
        #expect(!failedOrigins.contains("https://b:443", start))
        failedOrigins.remove("https://a:443")
        #expect(!failedOrigins.contains("https://a:443", start))
        for index in 0...FailedHTTP3Origins.limit { failedOrigins.insert("\(index)", start) }
        #expect(failedOrigins.contains("\(FailedHTTP3Origins.limit)", start) && !failedOrigins.contains("0", start))
    }
}
