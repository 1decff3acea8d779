import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

/// The real Prometheus reads what ``Metrics`` writes.
@Suite(.timeLimit(.minutes(3))) struct PrometheusTests {
    private func scene() async throws -> (Metrics, CentralRequestManager, MockServer) {
        let server = try MockServer()
        server.enqueue(.text("a"), .status(503), .noReply, .redirect(to: "/b"))
        server.fallback { _ in .text("b") }
        let metrics = Metrics()
        let manager = try CentralRequestManager.make {
            $0.accessories = [metrics]
            $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy()
        }
        metrics.observe(manager)
        for path in ["/a", "/b", "/c", "/d"] { _ = try? await manager.startRequest("GET", server.url(path)) }
        return (metrics, manager, server)
    }

    @Test(.needs("promtool")) func promtoolFindsNoMistake() async throws {
        let (metrics, _, _) = try await scene()
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "metrics.txt")
        try Data(await metrics.text().utf8).write(to: URL(filePath: path))
        try ChildProcess.run("sh", ["-c", "promtool check metrics < metrics.txt"], in: directory.path)
    }

    @Test(.needs("prometheus")) func prometheusScrapesAndAnswersAQuery() async throws {
        let (metrics, _, _) = try await scene()
        // A manager whose calls are not counted.
        let asking = try CentralRequestManager.make { _ in }
        let endpoint = try metrics.serve(port: 0)
        let directory = try TemporaryDirectory()
        let configuration = """
            global: { scrape_interval: 100ms, scrape_timeout: 100ms }
            scrape_configs:
              - job_name: lat
                static_configs: [{ targets: ["127.0.0.1:\(endpoint.port)"] }]
            """
        try Data(configuration.utf8).write(to: URL(filePath: directory.path(of: "prometheus.yml")))
        let reserved = try ReservedPort()
        let port = reserved.port
        let prometheus = try ChildProcess(
            "prometheus",
            [
                "--config.file=\(directory.path(of: "prometheus.yml"))",
                "--storage.tsdb.path=\(directory.path(of: "data"))", "--web.listen-address=127.0.0.1:\(port)",
            ])
        try await prometheus.awaitListener(on: port)
        let query = "sum by (http_response_status_code) (http_client_request_duration_seconds_count)"
        let end = ContinuousClock.now + .seconds(60)
        var found: [String: String] = [:]
        while found["200"] == nil, ContinuousClock.now < end {
            let answer = try? await asking.startRequest(
                "GET", "http://127.0.0.1:\(port)/api/v1/query", parameters: ["query": query])
            for result in (try? answer?.json()["data"]["result"].array) ?? [] {
                found[result["metric"]["http_response_status_code"].string ?? ""] = result["value"].array?.last?.string
            }
        }
        #expect(found["503"] == "1")
        #expect(found["302"] == "1")
        #expect(found["200"] != nil)
    }
}
