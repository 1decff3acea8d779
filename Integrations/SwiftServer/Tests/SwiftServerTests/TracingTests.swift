import InMemoryTracing
import LATNetworking
import LATTesting
import LATTracing
import ServiceContextModule
import Testing
import Tracing

@Suite(.timeLimit(.minutes(1))) struct TracingTests {
    private let tracer = InMemoryTracer()
    private let server: MockServer

    init() throws { server = try MockServer() }

    private func manager(
        _ change: (inout CentralRequestManager.Configuration) throws -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try CentralRequestManager.make {
            $0.accessories = [CallTracer(tracer)]
            try change(&$0)
        }
    }

    @Test func spanIsUnderTheServiceSpanAndIsSent() async throws {
        server.fallback { _ in .text("a") }
        let manager = try manager()
        let parent = tracer.startSpan("handle", context: .topLevel, ofKind: .server)
        try await ServiceContext.withValue(parent.context) {
            _ = try await manager.startRequest("GET", server.url("/a?access_token=s3cret&b=1"))
        }
        parent.end()
        let span = try #require(tracer.finishedSpans.first)
        #expect(span.operationName == "GET" && span.kind == .client)
        #expect(span.traceID == parent.traceID && span.parentSpanID == parent.spanID)
        #expect(span.attributes.get("http.request.method") == "GET")
        #expect(span.attributes.get("server.address") == "127.0.0.1")
        #expect(span.attributes.get("server.port") == .int64(Int64(server.port)))
        #expect(span.attributes.get("http.response.status_code") == .int64(200))
        #expect(span.attributes.get("network.protocol.version") == "1.1")
        #expect(span.attributes.get("http.request.resend_count") == nil && span.status == nil)
        let url = "\(span.attributes.get("url.full").map { "\($0)" } ?? "")"
        #expect(url.contains("b=1") && !url.contains("s3cret"))
        let sent = try #require(server.requests.first)
        #expect(sent.headers[InMemoryTracer.spanIDKey] == span.spanID)
        #expect(sent.headers[InMemoryTracer.traceIDKey] == span.traceID)
    }

    @Test func retriesAndHopsAreSpansOfTheirOwn() async throws {
        server.enqueue(.status(503), .redirect(to: "/b"), .text("b"))
        let manager = try manager()
        let parent = tracer.startSpan("handle", context: .topLevel)
        try await ServiceContext.withValue(parent.context) {
            _ = try await manager.startRequest("GET", server.url("/a"))
        }
        let spans = tracer.finishedSpans
        #expect(spans.count == 3 && Set(spans.map(\.spanID)).count == 3)
        #expect(spans.allSatisfy { $0.parentSpanID == parent.spanID })
        #expect(
            spans.map { $0.attributes.get("http.response.status_code") } == [.int64(503), .int64(302), .int64(200)])
        #expect(spans.map { $0.attributes.get("http.request.resend_count") } == [nil, .int64(1), .int64(2)])
        #expect(spans.first?.attributes.get("error.type") == "503" && spans.first?.status?.code == .error)
        #expect(server.requests.map { $0.headers[InMemoryTracer.spanIDKey] } == spans.map(\.spanID))
        #expect(tracer.activeSpans.count == 1)
    }

    @Test func rowNamesTheSpan() async throws {
        server.fallback { _ in .json("{}") }
        let manager = try manager {
            $0.domains = try DomainTable(
                json5: #"{ domains: { d: { baseURL: "\#(server.baseURL)" } }, servers: {} }"#, environment: nil)
        }
        struct User: RequestEntity {
            typealias Model = JSONValue
            static let route = Route("GET", domain: "d", path: "/users/{id}")
            var parameters: Parameters? = ["id": 7]
        }
        _ = try await User().startRequest(on: manager)
        let span = try #require(tracer.finishedSpans.first)
        #expect(span.operationName == "GET /users/{id}" && span.attributes.get("url.template") == "/users/{id}")
        #expect(span.parentSpanID == nil)
    }

    @Test func failureAndCancellationEndTheirSpans() async throws {
        server.enqueue(.noReply)
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager { $0.retryPolicy.retries = 0 }
        _ = try? await manager.startRequest("POST", server.url("/a"))
        let call = Task { try await manager.startRequest("GET", server.url("/b")) }
        try await eventually { server.requests.count == 2 }
        call.cancel()
        _ = await call.result
        try await eventually { tracer.finishedSpans.count == 2 }
        #expect(tracer.finishedSpans.map { $0.attributes.get("error.type") } == ["connectionLost", nil])
        #expect(tracer.finishedSpans.map { $0.status?.code } == [.error, nil])
        #expect(tracer.activeSpans.isEmpty)
    }

    @Test func cachedResponseHasNoSpan() async throws {
        server.fallback { _ in .text("a").header("Cache-Control", "max-age=60") }
        let manager = try manager {
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
        }
        for _ in 0..<3 { _ = try await manager.startRequest("GET", server.url("/a")) }
        #expect(tracer.finishedSpans.count == 1 && server.requests.count == 1)
    }

    @Test func closureCallAdoptsTheContext() async throws {
        server.fallback { _ in .text("a") }
        let manager = try manager { $0.deadline = .seconds(30) }
        let parent = tracer.startSpan("handle", context: .topLevel)
        await withCheckedContinuation { continuation in
            ServiceContext.withValue(parent.context) {
                _ = manager.startRequest(
                    "GET", server.url("/a"), success: { _, _ in continuation.resume() },
                    failure: { _, _ in continuation.resume() })
            }
        }
        #expect(tracer.finishedSpans.map(\.parentSpanID) == [parent.spanID])
    }

    /// Its requests are sent by tasks that have no context.
    @Test func downloadIsUnderTheSpanThatStartsIt() async throws {
        server.fallback { _ in .text("a") }
        let (manager, folder) = (try manager(), try TemporaryDirectory())
        let parent = tracer.startSpan("handle", context: .topLevel)
        let download = ServiceContext.withValue(parent.context) {
            manager.download(server.url("/a"), to: folder.path(of: "a"))
        }
        _ = try await download.value
        #expect(tracer.finishedSpans.map(\.parentSpanID) == [parent.spanID])
        #expect(tracer.finishedSpans.map(\.traceID) == [parent.traceID])
    }

    @Test func hedgeIsUnderTheSpanOfItsCall() async throws {
        server.enqueue(.text("late").stalling(.start), .text("b"))
        let manager = try manager { $0.hedge = RequestOptions.Hedge(after: .time(.milliseconds(20)), share: 1) }
        let parent = tracer.startSpan("handle", context: .topLevel)
        let text = try await ServiceContext.withValue(parent.context) {
            try await manager.startRequest("GET", server.url("/a")).text
        }
        #expect(text == "b")
        try await eventually { tracer.finishedSpans.count == 2 }
        #expect(tracer.finishedSpans.allSatisfy { $0.parentSpanID == parent.spanID })
    }

    @Test func deadlineIsAnError() async throws {
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager { $0.deadline = .seconds(1) }
        _ = try? await manager.startRequest("GET", server.url("/a"))
        #expect(tracer.finishedSpans.map { $0.attributes.get("error.type") } == ["timeout"])
        #expect(tracer.finishedSpans.map { $0.status?.code } == [.error])
    }

    @Test func tracerTakesTheFieldOfTheTrace() async throws {
        server.fallback { _ in .text("a") }
        let manager = try CentralRequestManager.make { $0.accessories = [CallTracer(W3C())] }
        try await TraceParent.$current.withValue(TraceParent()) {
            _ = try await manager.startRequest("GET", server.url("/a"))
        }
        #expect(server.requests.first?.headers[values: "traceparent"] == [W3C.field])
    }
}

/// A tracer that injects one fixed field.
private struct W3C: Tracer {
    static let field = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    private let tracer = InMemoryTracer()

    func startSpan(
        _ name: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> some TracerInstant, function: String, file: String, line: UInt
    ) -> InMemorySpan {
        tracer.startSpan(
            name, context: context(), ofKind: kind, at: instant(), function: function, file: file, line: line)
    }

    func forceFlush() {}
    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {}
    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier { injector.inject(Self.field, forKey: "traceparent", into: &carrier) }
}
