import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(2))) struct MetricsTests {
    /// An entity of a row with a path parameter.
    private struct User: RequestEntity {
        typealias Model = JSONValue
        static let route = Route("GET", domain: "d", path: "/users/{id}")
        var parameters: Parameters?

        init(_ id: Int) { parameters = ["id": id] }
    }

    private func manager(_ server: MockServer, _ metrics: Metrics) throws -> CentralRequestManager {
        try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: #"{ domains: { d: { baseURL: "\#(server.baseURL)" } }, servers: {} }"#, environment: nil)
            $0.accessories = [metrics]
        }
    }

    private func lines(_ text: String, _ prefix: String) -> [Substring] {
        text.split(separator: "\n").filter { $0.hasPrefix(prefix) }
    }

    @Test func thousandPathsOfARowAreOneSeries() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let metrics = Metrics()
        let manager = try manager(server, metrics)
        for id in 0..<1_000 { _ = try await User(id).startRequest(on: manager) }
        let counts = lines(await metrics.text(), "http_client_request_duration_seconds_count")
        #expect(counts.count == 1)
        let line = try #require(counts.first)
        #expect(line.hasSuffix(" 1000"))
        #expect(line.contains(#"url_template="/users/{id}""#))
        #expect(line.contains(#"server_address="127.0.0.1",server_port="\#(server.port)""#))
        #expect(line.contains(#"http_request_method="GET",http_response_status_code="200""#))
        #expect(line.contains(#"network_protocol_version="1.1""#))
    }

    private struct Genre: KnownValues {
        var rawValue: String
        static let knownValues = [Self(rawValue: "novel")]
    }

    private struct FetchGenres: RequestEntity {
        typealias Model = [Genre]
        static let route = Route(server: "genres")
    }

    @Test func answersThatTheDocumentLacksAreCounted() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"["novel", "opera"]"#, status: 203) }
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { d: { baseURL: "\(server.baseURL)" } }, servers: {
                      genres: { domain: "d", path: "g", method: "GET", documented: { statuses: [200] } } } }
                    """, environment: nil)
            $0.accessories = [metrics]
        }
        _ = try await FetchGenres().startRequest(on: manager)
        let text = await metrics.text()
        #expect(text.contains("lat_client_undocumented_total{what=\"status\"} 1"))
        #expect(text.contains("lat_client_undocumented_total{what=\"value\"} 1"))
    }

    @Test func faultsOnPurposeAreCountedAndRecorded() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("0123456789") }
        let (metrics, records) = (Metrics(), Records())
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics, records.recorder()]
            $0.chaos = RequestOptions.Chaos(latency: .milliseconds(1) ... .milliseconds(1), cut: 1)
        }
        _ = try? await manager.startRequest("GET", server.url("/a"))
        let body = try await manager.stream("GET", server.url("/a")).body
        _ = try? await body.collect(upTo: 100)
        try await eventually("both calls are recorded") { records.all.count == 2 }
        let text = await metrics.text()
        #expect(text.contains("lat_client_chaos_faults_total{fault=\"cut\"} 2"))
        #expect(text.contains("lat_client_chaos_faults_total{fault=\"delay\"} 2"))
        #expect(text.contains("lat_client_chaos_faults_total{fault=\"loss\"} 0"))
        for record in records.all {
            #expect(record.faults?.map(\.kind) == ["delay", "cut"])
            #expect(record.faults?.first?.delay == .milliseconds(1))
            guard case .failure(let failure) = record.outcome else {
                Issue.record("\(record)")
                continue
            }
            #expect(failure.kind == "connectionLost" && failure.message.contains("on purpose"))
        }
    }

    @Test func plainURLsAreOneSeriesForEachServer() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(404) }
        let metrics = Metrics()
        let manager = try manager(server, metrics)
        for id in 0..<50 { _ = try? await manager.startRequest("GET", server.url("/\(id)?q=\(id)")) }
        let counts = lines(await metrics.text(), "http_client_request_duration_seconds_count")
        #expect(counts.count == 1)
        #expect(counts.first?.contains(#"error_type="404""#) == true)
        #expect(counts.first?.hasSuffix(" 50") == true)
    }

    @Test func originsWithEqualLabelsAreOneSeries() async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo()
        }
        for origin in ["http://HOST.test", "http://host.test", "http://host.test:80", "HTTP://host.test"] {
            _ = try await manager.startRequest("GET", origin + "/")
        }
        let text = await metrics.text()
        let counts = lines(text, "http_client_request_duration_seconds_count")
        #expect(counts.count == 1 && counts.first?.hasSuffix(" 4") == true, "\(counts)")
        #expect(lines(text, "http_client_active_requests{").count == 1)
        let last = lines(text, "http_client_request_duration_seconds_bucket").filter { $0.contains("+Inf") }
        #expect(last.count == 1 && last.first?.hasSuffix(" 4") == true, "\(last)")
    }

    @Test(arguments: [
        ("http://host.test?q=/a/b/c", "host.test", 80), ("https://host.test:8443?q=user@other", "host.test", 8443),
        ("http://user@host.test/path", "host.test", 80),
        ("http://\(String(repeating: "u", count: 600))@host.test/path", "host.test", 80), ("http://a", "a", 80),
        ("http://[::1]:8080/x", "[::1]", 8080),
        ("https://a-host-of-more-than-a-word.test/path", "a-host-of-more-than-a-word.test", 443),
    ])
    func serverIsThatOfTheURL(_ url: String, _ host: String, _ port: Int) async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo()
        }
        _ = try await manager.startRequest("GET", url)
        let counts = lines(await metrics.text(), "http_client_request_duration_seconds_count")
        let labels = #"server_address="\#(host)",server_port="\#(port)""#
        #expect(counts.count == 1 && counts.first?.contains(labels) == true, "\(counts)")
    }

    @Test func serverOfASocketIsItsPath() async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo()
        }
        for url in ["unix:///run/a.sock:/v1/x", "unix:///run/a.sock?q", "unix:///run/b.sock", "unix:///run/@c.sock:/x"]
        {
            _ = try await manager.startRequest("GET", url)
        }
        let counts = lines(await metrics.text(), "http_client_request_duration_seconds_count")
        for path in ["/run/a.sock", "/run/b.sock", "/run/@c.sock"] {
            let own = counts.filter { $0.contains(#"server_address="\#(path)""#) }
            #expect(own.count == 1 && own.first?.hasSuffix(path.contains("a.") ? " 2" : " 1") == true, "\(counts)")
        }
    }

    @Test(arguments: [HTTPResponse.Source.memoryCache, .diskCache, .remoteCache])
    func tiersOfTheCacheAreCountedApart(_ tier: HTTPResponse.Source) async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo(source: tier)
        }
        _ = try await manager.startRequest("GET", "http://host.test/")
        let counts = lines(await metrics.text(), "lat_client_calls_total{").filter { !$0.hasSuffix(" 0") }
        #expect(counts == [#"lat_client_calls_total{source="\#(tier.rawValue)"} 1"#])
    }

    @Test func unknownMethodsAreOneSeries() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let metrics = Metrics()
        let manager = try manager(server, metrics)
        for name in ["ALPHA", "BETA", "GAMMA"] { _ = try await manager.startRequest(name, server.url()) }
        let counts = lines(await metrics.text(), "http_client_request_duration_seconds_count")
        #expect(counts.count == 1)
        #expect(counts.first?.contains(#"http_request_method="_OTHER""#) == true)
    }

    @Test func moreThanTwoThousandSetsAreCountedAsOne() async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo()
        }
        for index in 0..<1_500 {
            _ = try await manager.startRequest("GET", "http://host\(index).test/")
        }
        let text = await metrics.text()
        // Each server has two sets of labels: one for its requests, and one for its running requests.
        let counts = lines(text, "http_client_request_duration_seconds_count")
        #expect(counts.count < 1_500)
        let overflow = try #require(counts.first { $0.contains(#"otel_metric_overflow="true""#) })
        let values = counts.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
        #expect(values.reduce(0, +) == 1_500)
        #expect(!overflow.hasSuffix(" 0"))
        #expect(text.utf8.count < 16 << 20)
    }

    @Test func parallelCallsAreAllCounted() async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo()
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    for index in 0..<200 {
                        _ = try await manager.startRequest("GET", "http://host\((task + index) % 7).test/")
                    }
                }
            }
            try await group.waitForAll()
        }
        let text = await metrics.text()
        let counts = lines(text, "http_client_request_duration_seconds_count")
        #expect(counts.count == 7)
        #expect(counts.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +) == 1_600)
        #expect(lines(text, "lat_client_calls_started_total") == ["lat_client_calls_started_total 1600"])
        let running = lines(text, "http_client_active_requests{")
        #expect(running.count == 7 && running.allSatisfy { $0.hasSuffix(" 0") }, "\(running)")
    }

    @Test func connectionsHaveTheirStateAndServer() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let stalled = MockReply.text("never").stalling(.start)
        server.route("GET", "/stalled") { _ in stalled }
        let metrics = Metrics()
        let manager = try manager(server, metrics)
        metrics.observe(manager)
        let labels = "server_address=\"127.0.0.1\",server_port=\"\(server.port)\",url_scheme=\"http\"}"
        func open(_ state: String) async -> String {
            let name = "http_client_open_connections{http_connection_state=\"\(state)\",\(labels) "
            return lines(await metrics.text(), name).map { String($0.dropFirst(name.count)) }.joined()
        }
        #expect(await metrics.text().contains("http_client_open_connections{") == false)
        _ = try await manager.startRequest("GET", server.url("/a"))
        #expect(await open("idle") == "1")
        #expect(await open("active") == "0")
        let call = Task { try await manager.startRequest("GET", server.url("/stalled")) }
        try await eventually { await open("active") == "1" }
        #expect(await open("idle") == "0")
        #expect(lines(await metrics.text(), "http_client_connection_duration_seconds_count").isEmpty)
        call.cancel()
        _ = await call.result
        await manager.shutdown()
        #expect(
            lines(await metrics.text(), "http_client_connection_duration_seconds_count")
                == ["http_client_connection_duration_seconds_count{\(labels) 1"])
        // The series of closed connections is none of requests.
        #expect(lines(await metrics.text(), "http_client_request_duration_seconds_count").count == 2)
    }

    @Test func errorsRetriesAndCacheAreCounted() async throws {
        let server = try MockServer()
        server.enqueue(.noReply, .noReply, .text("a"))
        server.fallback { _ in .text("a") }
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
            $0.cacheStorage = .memory
        }
        _ = try? await manager.startRequest("GET", server.url("/fails"))
        for _ in 0..<2 {
            _ = try await manager.startRequest("GET", server.url("/a"), cache: .cacheElseNetwork(.forever))
        }
        let text = await metrics.text()
        #expect(text.contains("\nlat_client_retries_total 1\n"))
        #expect(text.contains("\nlat_client_call_errors_total{error_type=\"connectionLost\"} 1\n"))
        #expect(text.contains("\nlat_client_calls_total{source=\"network\"} 1\n"))
        #expect(text.contains("\nlat_client_calls_total{source=\"memoryCache\"} 1\n"))
        #expect(text.contains("\nlat_client_cache_decisions_total{decision=\"hit\"} 1\n"))
        #expect(text.contains("\nlat_client_cache_decisions_total{decision=\"miss\"} 1\n"))
        #expect(text.contains(#"error_type="connectionLost""#))
    }

    @Test func outboxIsCounted() async throws {
        let directory = try TemporaryDirectory()
        let manager = try CentralRequestManager.make { $0.transport = Echo() }
        let outbox = try Outbox(folder: directory.path(of: "outbox"), manager: manager)
        let metrics = Metrics()
        metrics.observe(outbox)
        try await outbox.add(HTTPRequest("POST", "http://a.test/"))
        try await outbox.waitUntilSent()
        let id = try await outbox.add(HTTPRequest("POST", "http://a.test/"), handler: "none")
        try await eventually { try await outbox.entry(id)?.state == .answered }
        let text = await metrics.text()
        #expect(text.contains("lat_client_outbox_entries{state=\"waiting\"} 0\n"))
        #expect(text.contains("lat_client_outbox_entries{state=\"answered\"} 1\n"))
        #expect(
            text.contains("lat_client_outbox_sent_total 2\n") && text.contains("lat_client_outbox_failed_total 0\n"))
        #expect(text.contains("lat_client_outbox_oldest_seconds 0\n"))
        await outbox.close()
    }

    @Test func bytesSavedByDictionariesAreCounted() async throws {
        let server = try MockServer()
        server.fallback { MockReply.repeated(to: $0) }
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
            $0.cacheLookUpTimeout = .seconds(30)
            $0.usesDictionaries = true
        }
        metrics.observe(manager)
        let name = "lat_client_dictionary_saved_bytes_total"
        _ = try await manager.startRequest("GET", server.url("/1"))
        #expect(lines(await metrics.text(), name) == ["\(name) 0"])
        for count in 1...2 {
            #expect(try await manager.startRequest("GET", server.url("/a")).data.count == 131_072)
            #expect(lines(await metrics.text(), name) == ["\(name) \(count * 131_022)"])
        }
        #expect(await manager.load.dictionarySavedBytes == 262_044)
    }

    @Test func openMetricsHasItsOwnRules() async throws {
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.transport = Echo()
        }
        metrics.observe(manager)
        _ = try await manager.startRequest("GET", "http://a.test/")
        let text = await metrics.text(.openMetrics)
        #expect(text.hasSuffix("\n# EOF\n"))
        #expect(text.contains("# TYPE lat_client_retries counter\n"))
        #expect(text.contains("\nlat_client_retries_total 0.0\n"))
        #expect(text.contains("# UNIT http_client_request_duration_seconds seconds\n"))
        #expect(text.contains(#"le="1.0""#))
        #expect(!text.contains("\n\n"))
        #expect(!text.contains("\r"))
        let old = await metrics.text()
        #expect(old.contains("# TYPE lat_client_retries_total counter\n"))
        #expect(old.contains(#"le="1""#))
        #expect(!old.contains("# EOF"))
        #expect(old.hasSuffix("\n"))
        // A scrape resets nothing.
        #expect(await metrics.text() == old)
    }

    @Test(arguments: [
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", Metrics.Format.openMetrics),
        ("application/openmetrics-text; version=0.0.1", .prometheus), ("text/plain;version=0.0.4", .prometheus),
        ("*/*", .prometheus), ("", .prometheus), ("application/openmetrics-text;q=0", .prometheus),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.9", .prometheus),
        ("text/plain;q=0.5, application/openmetrics-text", .openMetrics),
        ("application/openmetrics-text;q=0.0, */*", .prometheus),
        ("application/openmetrics-text;q=0.000, text/plain;q=0", .prometheus),
        ("application/*, text/plain;q=0.9", .openMetrics), ("text/*;q=0.1, */*;q=0.9", .openMetrics),
        ("application/*;q=0.9, application/openmetrics-text;q=0.1, text/plain;q=0.5", .prometheus),
        (
            "application/openmetrics-text;version=1.0.0;q=0.3, application/openmetrics-text;q=0.9, text/*;q=0.5",
            .prometheus
        ),
        ("application/openmetrics-text, text/plain", .openMetrics),
        ("APPLICATION/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=0.7, text/plain ; q=0.6", .openMetrics),
        ("application/openmetrics-text;q=2, text/plain;q=0.1", .prometheus), ("image/png", .prometheus),
        ("text/plain;version=0.0.4;q=0.1, text/plain;version=1.0.0;q=0.9, */*;q=0.5", .openMetrics),
        // What Prometheus 3 sends.
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                + "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
                + "text/plain;version=0.0.4;q=0.3,*/*;q=0.2", .openMetrics
        ),
    ])
    func acceptFieldSelectsTheFormat(_ accept: String, _ format: Metrics.Format) {
        #expect(Metrics.Format(accept: accept) == format)
    }

    // MARK: The endpoint

    @Test func endpointServesOnlyThisMachine() async throws {
        let metrics = Metrics()
        let endpoint = try metrics.serve(port: 0)
        let manager = try CentralRequestManager.make { _ in }
        let good = try await manager.startRequest("GET", endpoint.url)
        #expect(good.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        #expect(good.text?.contains("lat_client_calls_started_total") == true)
        let named = try await manager.startRequest("GET", "http://localhost:\(endpoint.port)/metrics")
        #expect(named.status == 200)
        var foreign = HTTPRequest("GET", endpoint.url)
        foreign.headers["Host"] = "evil.test:\(endpoint.port)"
        #expect(try await manager.send(foreign).status == 403)
        foreign = HTTPRequest("GET", endpoint.url)
        foreign.headers["Origin"] = "http://evil.test"
        #expect(try await manager.send(foreign).status == 403)
        #expect(try await manager.send(HTTPRequest("GET", endpoint.url + "x")).status == 404)
        #expect(try await manager.send(HTTPRequest("POST", endpoint.url)).status == 405)
        var large = HTTPRequest("GET", endpoint.url)
        large.headers["X-Large"] = String(repeating: "a", count: 60_000)
        #expect((try? await manager.send(large).status) ?? 431 == 431)
    }

    @Test func portInUseErrorIsOneSentence() throws {
        let first = try Metrics().serve(port: 0)
        let error = #expect(throws: NetworkError.self) { try Metrics().serve(port: first.port) }
        #expect(error?.message.contains("port \(first.port) of 127.0.0.1 is in use") == true)
        #expect(throws: NetworkError.self) { try Metrics().serve(port: 70_000) }
    }

    @Test func releasedEndpointClosesItsPort() async throws {
        let metrics = Metrics()
        let reserved = try ReservedPort()
        var endpoint: Metrics.Endpoint? = try metrics.serve(port: reserved.port)
        let url = try #require(endpoint?.url)
        let manager = try CentralRequestManager.make { $0.connectTimeout = .seconds(5) }
        _ = try await manager.startRequest("GET", url)
        endpoint?.stop()
        endpoint = nil
        let end = ContinuousClock.now + .seconds(30)
        while (try? await manager.send(HTTPRequest("GET", url))) != nil, ContinuousClock.now < end {}
        await #expect(throws: NetworkError.self) { try await manager.send(HTTPRequest("GET", url)) }
    }
}

/// Answers every request without a network.
struct Echo: Transport {
    var source = HTTPResponse.Source.network

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        var response = HTTPResponse(status: 200, body: ResponseBody(Data("{}".utf8)), url: request.url)
        response.source = source
        return response
    }
}
