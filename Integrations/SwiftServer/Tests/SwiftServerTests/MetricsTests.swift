import LATInspect
@testable import LATMetrics
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
        let families = text.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }.map {
            $0.split(separator: " ")[2]
        }
        let known = Set(
            kit.counters.map(\.label) + kit.timers.map(\.label) + kit.recorders.map(\.label) + kit.meters.map(\.label))
        // Also those that are 0. A label's values are only in the text before something was counted.
        let isPlain = { (family: Substring) in text.contains("\n\(family) ") }
        #expect(families.filter { isPlain($0) && !known.contains(String($0)) } == [])
    }

    @Test func outboxesHaveTheValuesOfPrometheus() async throws {
        let (server, failing, folder) = (try MockServer(), try MockServer(), try TemporaryDirectory())
        server.enqueue(.text("a"), .text("b"), .status(400))
        failing.fallback { _ in .status(503) }
        let (own, theirs) = (CallMetrics(kit), Metrics())
        let manager = try CentralRequestManager.make { _ in }
        var settings = Outbox.Configuration()
        (settings.firstWait, settings.longestWait) = (.seconds(3_600), .seconds(3_600))
        var outboxes = try ["a", "b"].map {
            try Outbox(folder: folder.path(of: $0), manager: manager, configuration: settings)
        }
        for outbox in outboxes {
            own.observe(outbox)
            theirs.observe(outbox)
        }
        for (outbox, handler) in [(outboxes[0], nil), (outboxes[1], "none"), (outboxes[1], nil)] {
            let count = server.requests.count
            try await outbox.add(HTTPRequest("POST", server.url(), body: .text("x")), handler: handler)
            try await server.waitForRequests(count + 1)
        }
        try await outboxes[0].add(HTTPRequest("POST", failing.url()))
        try await eventually {
            let load = try? await (outboxes[0].load, outboxes[1].load)
            guard let (one, other) = load, one.sent == 1, one.failed == 1, one.oldest ?? .zero > .zero else {
                return false
            }
            return other.dead == 1 && other.answered == 1
        }
        for _ in 0..<2 { await own.update(from: manager) }
        func known(_ label: String) -> Double? {
            let name = label.prefix { $0 != "{" }
            let state = label.split(separator: "\"").dropFirst().first.map(String.init)
            return kit.counters.first { $0.label == name }.map { Double($0.totalValue) }
                ?? kit.meters.first { $0.label == name && $0.dimensions.first?.1 == state }?.lastValue
        }
        let lines = await theirs.text().split(separator: "\n").filter { $0.hasPrefix("lat_client_outbox_") }
        #expect(lines.count == 8)
        for line in lines {
            let parts = line.split(separator: " ")
            let value = try #require(known(String(parts[0])), "\(line)")
            // Time goes on between the two.
            if line.contains("oldest") {
                #expect(value > 0 && Double(parts[1]) ?? 0 >= value)
            } else {
                #expect(value == Double(parts[1]), "\(line)")
            }
        }
        #expect(known("lat_client_outbox_sent_total") == 2 && known("lat_client_outbox_entries{state=\"dead\"}") == 1)
        for outbox in outboxes { await outbox.close() }
        outboxes = []
        try await eventually {
            await own.update(from: manager)
            return known("lat_client_outbox_entries{state=\"waiting\"}") == 0
        }
        #expect(known("lat_client_outbox_sent_total") == 2)
    }

    private func meter(_ label: String, _ dimension: String = "") -> Double? {
        kit.meters.first { $0.label == label && (dimension.isEmpty || $0.dimensions.first?.1 == dimension) }?.lastValue
    }

    @Test func closedCircuitIsZero() async throws {
        let server = try MockServer()
        server.enqueue(.noReply)
        server.fallback { _ in .text("a") }
        let metrics = CallMetrics(kit)
        let manager = try CentralRequestManager.make {
            $0.retries = 0
            $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 1, pause: .milliseconds(500))
        }
        _ = try? await manager.startRequest("GET", server.url())
        await metrics.update(from: manager)
        #expect(meter("lat_client_circuit_open") == 1)
        try await eventually { (try? await manager.startRequest("GET", server.url())) != nil }
        await metrics.update(from: manager)
        #expect(meter("lat_client_circuit_open") == 0)
    }

    @Test func managersAreAddedUp() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let metrics = CallMetrics(kit)
        let managers = try (0..<2).map { _ in try CentralRequestManager.make { $0.accessories = [metrics] } }
        for manager in managers { _ = try await manager.startRequest("GET", server.url()) }
        try await eventually {
            for manager in managers { await metrics.update(from: manager) }
            return meter("http_client_open_connections", "idle") == 2
        }
        await managers[0].shutdown()
        await metrics.update(from: managers[0])
        #expect(meter("http_client_open_connections", "idle") == 1)
    }

    @Test func totalsGrowByWhatIsNew() {
        let totals = KnownTotals()
        let (one, other) = (Gate(), Gate())
        #expect([3, 3, 5, 4].map { totals.growth(of: "a", to: $0, in: one) } == [3, 0, 2, 0])
        #expect(totals.growth(of: "a", to: 5, in: other) == 5 && totals.growth(of: "b", to: 1, in: one) == 1)
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
