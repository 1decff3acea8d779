import InMemoryLogging
import InMemoryTracing
import LATLogging
import LATMetrics
import LATNetworking
import LATTesting
import LATTracing
import Logging
import MetricsTestKit
import Testing

/// A secret in each part of a call is in no output of the bridges.
@Suite(.timeLimit(.minutes(1))) struct CanaryTests {
    private static let secret = "c4n4ry"

    @Test func noOutputHasASecret() async throws {
        let secret = Self.secret
        let server = try MockServer()
        server.enqueue(.redirect(to: "/b?access_token=\(secret)"), .status(503).header("Set-Cookie", "a=\(secret)"))
        server.fallback { _ in MockReply.json("{\"password\":\"\(secret)\"}", status: 500) }
        var handler = InMemoryLogHandler()
        handler.logLevel = .trace
        let (tracer, kit) = (InMemoryTracer(), TestMetrics())
        let manager = try CentralRequestManager.make {
            $0.accessories = [
                CallLogger(Logger(label: "test") { [handler] _ in handler }), CallTracer(tracer), CallMetrics(kit),
            ]
        }
        let url = server.url("/a?token=\(secret)").replacing("http://", with: "http://user:\(secret)@")
        _ = try? await manager.startRequest(
            "PUT", url, body: .text("password=\(secret)"), headers: ["Authorization": "Bearer \(secret)"])
        #expect(server.requests.count > 2 && handler.entries.count > 3 && tracer.finishedSpans.count > 2)
        let outputs = [
            "\(handler.entries)",
            "\(tracer.finishedSpans.map { "\($0.operationName) \($0.attributes) \($0.status as Any)" })",
            "\((kit.timers.map(\.dimensions), kit.counters.map(\.dimensions), kit.recorders.map(\.dimensions)))",
        ]
        for output in outputs { #expect(output.contains("127.0.0.1") && !output.contains(secret), "\(output)") }
    }
}
