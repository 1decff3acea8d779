import InMemoryTracing
import LATInspect
import LATLogging
import LATNetworking
import LATTracing
import Logging

/// Sends requests one after the other, for scripts/bench, which counts the instructions: `BridgeBench MODE URL COUNT`.
@main enum BridgeBench {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4, let count = Int(arguments[3]) else {
            print("usage: BridgeBench plain|logger|exporter|tracer URL COUNT")
            return
        }
        LoggingSystem.bootstrap { _ in
            var handler = StreamLogHandler.standardError(label: "bench")
            handler.logLevel = .warning
            return handler
        }
        var configuration = CentralRequestManager.Configuration()
        let tracer = InMemoryTracer(recordInjections: false, recordExtractions: false)
        switch arguments[1] {
        case "logger": configuration.accessories = [CallLogger()]
        case "tracer": configuration.accessories = [CallTracer(tracer)]
        case "exporter":
            // Port 9 has no collector. The first batch is sent after an hour.
            var limits = TraceExporter.Limits()
            (limits.queue, limits.batch, limits.delay) = (1 << 20, 1 << 20, .seconds(3_600))
            configuration.accessories = [try TraceExporter("http://127.0.0.1:9", service: "bench", limits: limits)]
        default: break
        }
        let manager = try CentralRequestManager(configuration: configuration)
        for _ in 0..<count { _ = try await manager.send(HTTPRequest("GET", arguments[2])) }
        await manager.shutdown()
    }
}
