import LATInspect
import LATMetrics
import LATNetworking
import LATTesting
import MetricsTestKit
import Testing

@Suite(.timeLimit(.minutes(1))) struct MetricsTests {
    private let kit = TestMetrics()

    /// Name and labels of the samples of a text of Prometheus, without those that are 0.
    private func series(of text: String) -> Set<String> {
        var all: Set<String> = []
        for line in text.split(separator: "\n") where !line.hasPrefix("#") && !line.hasSuffix(" 0") {
            var name = String(line[..<(line.lastIndex(of: " ") ?? line.endIndex)])
            guard !name.contains("_bucket{"), !name.contains("_sum") else { continue }
            name = name.replacing("_count", with: "")
            all.insert(name)
        }
        return all
    }

    private var series: Set<String> {
        func name(_ label: String, _ dimensions: [(String, String)]) -> String {
            guard !dimensions.isEmpty else { return label }
            return "\(label){\(dimensions.map { "\($0.0)=\"\($0.1)\"" }.joined(separator: ","))}"
        }
        return Set(
            kit.counters.filter { $0.totalValue > 0 }.map { name($0.label, $0.dimensions) }
                + kit.timers.filter { !$0.values.isEmpty }.map { name($0.label, $0.dimensions) }
                + kit.recorders.filter { !$0.values.isEmpty }.map { name($0.label, $0.dimensions) }
                + kit.meters.filter { $0.lastValue != 0 }.map { name($0.label, $0.dimensions) })
    }

    @Test func namesAndLabelsAreThoseOfPrometheus() async throws {
        let server = try MockServer()
        server.enqueue(.text("a").header("Cache-Control", "max-age=60"), .status(503), .redirect(to: "/c"))
        server.fallback { _ in .text("b") }
        let (own, theirs) = (CallMetrics(kit), Metrics())
        let manager = try CentralRequestManager.make {
            $0.accessories = [own, theirs]
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
            $0.domains = try DomainTable(
                json5: #"{ domains: { d: { baseURL: "\#(server.baseURL)", limits: "adaptive" } }, servers: {} }"#,
                environment: nil)
        }
        theirs.observe(manager)
        for path in ["/a", "/a", "/b"] { _ = try await manager.startRequest("GET", server.url(path)) }
        _ = try? await manager.startRequest("PUT", server.url("/d"), body: .text("x"))
        _ = try? await manager.startRequest("BREW", server.url("/e"))
        server.enqueue(.noReply)
        _ = try? await manager.startRequest("POST", server.url("/e"))
        var broken = HTTPRequest("GET", server.url("/f"))
        broken.chaos = RequestOptions.Chaos(failures: 1, latency: .zero ... .milliseconds(1))
        broken.cachePolicy = .networkOnly
        _ = try? await manager.send(broken)
        server.enqueue(.text("late").stalling(.start), .text("b"))
        var slow = HTTPRequest("GET", server.url("/g"))
        slow.hedge = RequestOptions.Hedge(after: .time(.milliseconds(20)), share: 1)
        slow.cachePolicy = .networkOnly
        _ = try await manager.send(slow)
        // The end of the request that lost may be reported after that of the call.
        try await eventually { series.contains("lat_client_attempts_abandoned_total") }
        struct User: RequestEntity {
            typealias Model = JSONValue
            static let route = Route("GET", domain: "d", path: "/users/{id}")
            var parameters: Parameters? = ["id": 7]
        }
        _ = try? await User().startRequest(on: manager)
        await own.update(from: manager)
        let text = await theirs.text()
        #expect(series.count > 20)
        #expect(series == series(of: text), "\(series.symmetricDifference(series(of: text)).sorted())")
    }

    @Test func socketIsTheServerOfItsRequests() async throws {
        let path = "/tmp/lat-\(UInt64.random(in: 0 ... .max)).sock"
        let server = try MockServer(unixSocketPath: path)
        server.fallback { _ in .text("a") }
        let theirs = Metrics()
        let manager = try CentralRequestManager.make { $0.accessories = [CallMetrics(kit), theirs] }
        for target in ["/a", "/b?c"] { _ = try await manager.startRequest("GET", "unix://\(path):\(target)") }
        let timer = try #require(kit.timers.first { $0.label == "http_client_request_duration_seconds" })
        #expect(timer.values.count == 2 && timer.dimensions.contains { $0 == ("server_address", path) })
        let text = await theirs.text()
        #expect(series == series(of: text), "\(series.symmetricDifference(series(of: text)).sorted())")
    }

    @Test func valuesAreThoseOfTheRequests() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("12345") }
        let manager = try CentralRequestManager.make { $0.accessories = [CallMetrics(kit)] }
        for _ in 0..<3 { _ = try await manager.startRequest("PUT", server.url("/a"), body: .text("123")) }
        let sizes = kit.recorders.filter { $0.label == "http_client_request_body_size_bytes" }
        #expect(sizes.map(\.values) == [[3, 3, 3]])
        let received = kit.recorders.filter { $0.label == "http_client_response_body_size_bytes" }
        #expect(received.map(\.values) == [[5, 5, 5]])
        let durations = try #require(kit.timers.first { $0.label == "http_client_request_duration_seconds" })
        #expect(durations.values.count == 3 && durations.values.allSatisfy { $0 > 0 })
        #expect(kit.meters.first { $0.label == "http_client_active_requests" }?.lastValue == 0)
        let states = kit.counters.filter { $0.label == "lat_client_connections_total" }
        #expect(
            Dictionary(uniqueKeysWithValues: states.map { ($0.dimensions[0].1, $0.totalValue) }) == [
                "opened": 1, "reused": 2,
            ])
    }

    @Test func connectionIsIdleThenClosed() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let metrics = CallMetrics(kit)
        let manager = try CentralRequestManager.make { $0.accessories = [metrics] }
        _ = try await manager.startRequest("GET", server.url("/a"))
        let running = Task { await metrics.run(observing: manager, every: .milliseconds(5)) }
        let labels = [("server_address", "127.0.0.1"), ("server_port", "\(server.port)"), ("url_scheme", "http")]
        try await eventually {
            (try? kit.expectMeter("http_client_open_connections", [("http_connection_state", "idle")] + labels))?
                .lastValue == 1
        }
        await manager.shutdown()
        try await eventually {
            (try? kit.expectMeter("http_client_open_connections", [("http_connection_state", "idle")] + labels))?
                .lastValue == 0
        }
        running.cancel()
        await running.value
        #expect(try kit.expectTimer("http_client_connection_duration_seconds", labels).values.count == 1)
    }
}
