import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATInspect

@Suite(.timeLimit(.minutes(2))) struct TraceTests {
    /// A collector that gives the answers of a test, and records its requests.
    private struct Scene {
        let collector: MockServer
        let server: MockServer
        let traces: TraceExporter
        let manager: CentralRequestManager

        init(
            ratio: Double = 1, limits: TraceExporter.Limits = TraceExporter.Limits(),
            _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
        ) throws {
            collector = try MockServer()
            collector.fallback { _ in .json("{}") }
            server = try MockServer()
            server.fallback { _ in .text("ok") }
            let traces = try TraceExporter(
                collector.baseURL, service: "test", headers: ["X-Key": "k"], ratio: ratio, limits: limits)
            self.traces = traces
            manager = try CentralRequestManager.make {
                $0.accessories = [traces]
                change(&$0)
            }
        }

        func spans() async throws -> [JSONValue] {
            await traces.flush()
            return try collector.requests.flatMap { request in
                let scope = try JSONValue(parsing: Data(request.text.utf8))["resourceSpans"].array?.first?["scopeSpans"]
                return scope?.array?.first?["spans"].array ?? []
            }
        }
    }

    private func value(_ span: JSONValue, _ key: String) -> JSONValue? {
        span["attributes"].array?.first { $0["key"].string == key }?["value"]
    }

    private func client(_ spans: [JSONValue]) -> [JSONValue] { spans.filter { $0["kind"].int == 3 } }

    @Test(arguments: [0, -1]) func limitsBelowOneAreRefused(_ number: Int) {
        for name in ["queue", "batch"] {
            var limits = TraceExporter.Limits()
            if name == "queue" { limits.queue = number } else { limits.batch = number }
            let error = #expect(throws: NetworkError.self) { try TraceExporter(service: "test", limits: limits) }
            #expect(error?.kind == .invalidRequest && error?.message.contains("limits.\(name)") == true)
        }
    }

    @Test(arguments: [3_600, Int64.max]) func flushReturnsWhileCallsGoOn(_ delay: Int64) async throws {
        var limits = TraceExporter.Limits()
        limits.delay = .seconds(delay)
        let scene = try Scene(limits: limits)
        _ = try await scene.manager.startRequest("GET", scene.server.url())
        let load = Task {
            while !Task.isCancelled { _ = try? await scene.manager.startRequest("GET", scene.server.url()) }
        }
        for _ in 0..<20 { await scene.traces.flush() }
        load.cancel()
        await load.value
        #expect(scene.collector.requestCount >= 1 && scene.traces.counts.sent > 0)
    }

    @Test func spansFollowTheConventions() async throws {
        let scene = try Scene {
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
            $0.retryPolicy.statuses = [503]
        }
        scene.server.enqueue(.status(503), .redirect(to: "/b"), .text("b"))
        let url = scene.server.url("/a?token=hidden").replacing("http://", with: "http://u:hidden@")
        _ = try await scene.manager.startRequest("GET", url)
        let spans = try await scene.spans()
        let call = try #require(spans.first { $0["name"].string?.hasPrefix("call") == true })
        #expect(call["parentSpanId"].string == nil)
        #expect(call["kind"].int == 1)
        let clients = client(spans)
        #expect(clients.count == 3)
        #expect(clients.map { $0["name"].string } == ["GET", "GET", "GET"])
        #expect(clients.allSatisfy { $0["parentSpanId"].string == call["spanId"].string })
        #expect(Set(spans.map { $0["traceId"].string }).count == 1)
        #expect(clients.map { value($0, "http.request.resend_count")?["intValue"].string } == [nil, "1", "2"])
        #expect(clients.map { value($0, "http.response.status_code")?["intValue"].string } == ["503", "302", "200"])
        #expect(value(clients[0], "error.type")?["stringValue"].string == "503")
        #expect(clients[0]["status"]["code"].int == 2)
        #expect(clients[1]["status"]["code"].int == nil)
        #expect(value(clients[0], "server.address")?["stringValue"].string == "127.0.0.1")
        #expect(value(clients[0], "server.port")?["intValue"].string == "\(scene.server.port)")
        #expect(value(clients[0], "network.protocol.version")?["stringValue"].string == "1.1")
        #expect(value(clients[0], "url.full")?["stringValue"].string?.contains("hidden") == false)
        #expect(spans.filter { $0["name"].string == "connect" }.count == 1)
        // The exported spans have the identifiers that were sent to the servers.
        let sent = scene.server.requests.map { $0.headers["traceparent"] ?? "" }
        #expect(sent == clients.map { "00-\($0["traceId"].string ?? "")-\($0["spanId"].string ?? "")-01" })
        #expect(scene.collector.requests[0].target == "/v1/traces")
        #expect(scene.collector.requests[0].headers["X-Key"] == "k")
        #expect(scene.collector.requests[0].headers["traceparent"] == nil)
    }

    @Test func callJoinsTheTraceOfItsTask() async throws {
        let scene = try Scene()
        var parent = TraceParent()
        parent.baggage = ["tenant": "a b", "not a token": "x"]
        try await TraceParent.$current.withValue(parent) {
            _ = try await scene.manager.startRequest("GET", scene.server.url())
        }
        let spans = try await scene.spans()
        #expect(spans.allSatisfy { $0["traceId"].string == parent.traceID })
        #expect(spans.first { $0["name"].string == "call GET" }?["parentSpanId"].string == parent.spanID)
        #expect(scene.server.requests[0].headers["baggage"] == "tenant=a%20b")
    }

    @Test func samplingIsObeyed() async throws {
        let none = try Scene(ratio: 0)
        _ = try await none.manager.startRequest("GET", none.server.url())
        #expect(try await none.spans().isEmpty)
        #expect(none.server.requests[0].headers["traceparent"]?.hasSuffix("-00") == true)
        try await TraceParent.$current.withValue(TraceParent(isSampled: true)) {
            _ = try await none.manager.startRequest("GET", none.server.url())
        }
        #expect(try await client(none.spans()).count == 1)
        let all = try Scene()
        try await TraceParent.$current.withValue(TraceParent(isSampled: false)) {
            _ = try await all.manager.startRequest("GET", all.server.url())
        }
        #expect(try await all.spans().isEmpty)
    }

    @Test func cancellationIsNotAnError() async throws {
        let scene = try Scene()
        scene.server.enqueue(MockReply.text("x").stalling(.beforeHead))
        let task = scene.manager.startRequest("GET", scene.server.url(), success: { _, _ in }, failure: { _, _ in })
        try await scene.server.waitForRequests(1)
        task.cancel()
        var found: [JSONValue] = []
        let end = ContinuousClock.now + .seconds(30)
        while found.isEmpty, ContinuousClock.now < end { found = try await scene.spans() }
        #expect(!found.isEmpty)
        for span in found { #expect(span["status"]["code"].int == nil) }
    }

    @Test func cacheDecisionIsASpan() async throws {
        let scene = try Scene { $0.cacheStorage = .memory }
        for _ in 0..<2 {
            _ = try await scene.manager.startRequest("GET", scene.server.url(), cache: .cacheElseNetwork(.forever))
        }
        let cache = try await scene.spans().filter { $0["name"].string == "cache" }
        #expect(cache.map { value($0, "lat.cache.decision")?["stringValue"].string } == ["miss", "hit"])
    }

    @Test(.needsPython)
    func protocolsOwnMessagesParseIt() async throws {
        let scene = try Scene { $0.cacheStorage = .memory }
        scene.server.enqueue(.redirect(to: "/b"), .status(500), .noReply)
        for path in ["/a", "/c", "/d", "/e"] {
            _ = try? await scene.manager.startRequest(
                "GET", scene.server.url(path), cache: .http, tag: "</script>\u{1F600}")
        }
        _ = try? await scene.manager.send(HTTPRequest("STRANGE", scene.server.url()))
        let count = try await scene.spans().count
        let directory = try TemporaryDirectory()
        let lines = scene.collector.requests.map(\.text).joined(separator: "\n")
        let path = directory.path(of: "export.jsonl")
        try Data(lines.utf8).write(to: URL(filePath: path))
        let output = try PythonScript.run("check_otlp.py", [path], in: directory.path)
        #expect(output.split(separator: "\n").last == "\(count)")
        #expect(count > 8)
    }

    // MARK: The collector

    @Test(arguments: [429, 502, 503, 504]) func refusalThatPassesIsSentAgain(_ status: Int) async throws {
        let scene = try Scene()
        var busy = MockReply.status(status)
        busy.headers["Retry-After"] = "0"
        scene.collector.enqueue(busy)
        _ = try await scene.manager.startRequest("GET", scene.server.url())
        await scene.traces.flush()
        #expect(scene.collector.requestCount == 2)
        #expect(scene.traces.counts.failed == 0)
        #expect(scene.traces.counts.sent > 0)
    }

    @Test func collectorIsLeftAloneForASecond() {
        let policy = SpanQueue.retryPolicy(TraceExporter.Limits())
        #expect(policy.firstWait == .seconds(1) && policy.statuses == [429, 502, 503, 504])
    }

    @Test(arguments: [400, 401, 404, 408, 413, 500]) func otherRefusalIsFinal(_ status: Int) async throws {
        let scene = try Scene()
        scene.collector.enqueue(.status(status))
        _ = try await scene.manager.startRequest("GET", scene.server.url())
        await scene.traces.flush()
        #expect(scene.collector.requestCount == 1)
        #expect(scene.traces.counts.failed > 0)
        // The exporter continues.
        _ = try await scene.manager.startRequest("GET", scene.server.url())
        await scene.traces.flush()
        #expect(scene.traces.counts.sent > 0)
    }

    @Test func partialSuccessIsNotSentAgain() async throws {
        let scene = try Scene()
        scene.collector.enqueue(.json(#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}"#))
        _ = try await scene.manager.startRequest("GET", scene.server.url())
        await scene.traces.flush()
        #expect(scene.collector.requestCount == 1)
        #expect(scene.traces.counts.failed == 2)
    }

    @Test func fullQueueDropsAndCounts() async throws {
        var limits = TraceExporter.Limits()
        limits.queue = 10
        limits.batch = 100
        limits.delay = .seconds(3_600)
        let scene = try Scene(limits: limits)
        for _ in 0..<20 { _ = try await scene.manager.startRequest("GET", scene.server.url()) }
        #expect(scene.traces.counts.queued == 10)
        #expect(scene.traces.counts.dropped > 20)
        #expect(try await scene.spans().count == 10)
    }

    @Test func batchesHaveTheirLimit() async throws {
        var limits = TraceExporter.Limits()
        limits.batch = 7
        let scene = try Scene(limits: limits)
        for _ in 0..<20 { _ = try await scene.manager.startRequest("GET", scene.server.url()) }
        let spans = try await scene.spans()
        #expect(spans.count == 41)
        #expect(scene.collector.requestCount >= 6)
        #expect(scene.traces.counts.sent == 41)
    }

    @Test func waitingSpansAreSentWithoutAFlush() async throws {
        var limits = TraceExporter.Limits()
        limits.delay = .milliseconds(1)
        let scene = try Scene(limits: limits)
        _ = try await scene.manager.startRequest("GET", scene.server.url())
        try await scene.collector.waitForRequests(1)
    }

    @Test func exporterDoesNotTraceItself() async throws {
        let scene = try Scene()
        for _ in 0..<3 {
            _ = try await scene.manager.startRequest("GET", scene.server.url())
            await scene.traces.flush()
        }
        let count = scene.collector.requestCount
        #expect(count == 3)
        // Nor does the app's own call of the collector become a span.
        _ = try await scene.manager.startRequest("POST", scene.collector.url("/v1/traces"), body: .text("{}"))
        await scene.traces.flush()
        #expect(scene.collector.requestCount == count + 1)
    }

    @Test(arguments: [
        ("", "/v1/traces"), ("/", "/v1/traces"), ("?a=1", "/v1/traces?a=1"), ("/own", "/own"),
        ("?a=b/c", "/v1/traces?a=b/c"), ("/?a=1", "/v1/traces?a=1"), ("/own?a=b/c", "/own?a=b/c"),
    ])
    func endpointKeepsUserAndQuery(_ rest: String, _ target: String) async throws {
        let collector = try MockServer()
        collector.fallback { _ in .json("{}") }
        let address = collector.baseURL.replacing("http://", with: "http://user:pw@")
        let traces = try TraceExporter(address + rest, service: "test")
        let manager = try CentralRequestManager.make { $0.accessories = [traces] }
        _ = try await manager.startRequest("GET", collector.url("/app"))
        await traces.flush()
        let sent = try #require(collector.requests.last)
        #expect(sent.target == target)
        #expect(sent.headers["Authorization"] == "Basic dXNlcjpwdw==")
        // The app's own call of the collector does not become a span.
        let count = traces.counts.sent
        _ = try await manager.startRequest("GET", collector.url(target))
        await traces.flush()
        #expect(traces.counts.sent == count)
    }

    @Test func invalidEndpointIsRefused() {
        #expect(throws: NetworkError.self) { try TraceExporter("collector", service: "x") }
        let error = #expect(throws: NetworkError.self) { try TraceExporter("ftp://user:hunter2@h", service: "x") }
        #expect(error?.message.contains("hunter2") == false)
    }
}
