import BenchmarkSupport
import LATNetworking

/// Modes `central` and `latency`.
func request(_ manager: CentralRequestManager, _ arguments: Arguments) async throws {
    let get: @Sendable () async throws -> Void = {
        let response = try await manager.startRequest("GET", arguments.url)
        guard response.status == 200, !response.data.isEmpty else {
            throw Failure("\(arguments.url): no 200 with a body")
        }
    }
    if arguments.warmup > 0 { _ = try await repeating(arguments.warmup, tasks: arguments.inFlight, get) }
    let measurement = Measurement("lat", arguments)
    let latencies = try await repeating(arguments.requests, tasks: arguments.inFlight, get)
    measurement.finish(latencies: latencies)
}
