import BenchmarkSupport
import LATNetworking

/// Mode `download`: over IN_FLIGHT connections.
func download(_ manager: CentralRequestManager, _ arguments: Arguments, to path: String) async throws {
    let measurement = Measurement("lat", arguments)
    let file = try await manager.download(arguments.url, to: path, segments: arguments.inFlight).value
    measurement.finish()
    guard file.receivedByteCount == file.byteCount else {
        throw Failure("\(file.receivedByteCount) bytes came for a file of \(file.byteCount)")
    }
}
