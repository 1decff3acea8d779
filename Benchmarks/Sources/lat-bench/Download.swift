import BenchmarkSupport
import LATNetworking

/// Mode `download`: a download over IN_FLIGHT connections.
func download(_ manager: CentralRequestManager, _ arguments: Arguments, to path: String) async throws {
    let measurement = Measurement("lat", arguments)
    _ = try await manager.download(arguments.url, to: path, segments: arguments.inFlight).value
    measurement.finish()
}
