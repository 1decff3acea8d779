import Dispatch
import InMemoryTracing
import LATInspect
import LATLogging
import LATNetworking
import LATTracing
import Logging

// Sends requests one after the other, for scripts/bench, which counts the instructions: `BridgeBench MODE URL COUNT`.

let arguments = CommandLine.arguments
guard arguments.count >= 4, let count = Int(arguments[3]) else {
    fatalError("usage: BridgeBench plain|logger|exporter|tracer URL COUNT")
}
LoggingSystem.bootstrap { _ in
    var handler = StreamLogHandler.standardError(label: "bench")
    handler.logLevel = .warning
    return handler
}
// The main thread only waits, because valgrind 3.19 does not survive how an `await` ends it; see lat-bench.
let over = DispatchSemaphore(value: 0)
Task.detached {
    do {
        try await send(count, to: arguments[2], mode: arguments[1])
    } catch {
        fatalError("BridgeBench: \(error)")
    }
    over.signal()
}
over.wait()

func send(_ count: Int, to url: String, mode: String) async throws {
    var configuration = CentralRequestManager.Configuration()
    let tracer = InMemoryTracer(recordInjections: false, recordExtractions: false)
    switch mode {
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
    for _ in 0..<count { _ = try await manager.send(HTTPRequest("GET", url)) }
    await manager.shutdown()
}
