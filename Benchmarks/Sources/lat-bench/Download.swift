import BenchmarkSupport
import LATNetworking

/// Mode `download`: a download over IN_FLIGHT connections.
func download(_ manager: CentralRequestManager, _ arguments: Arguments, to path: String) async throws {
    let measurement = Measurement("lat", arguments)
    _ = try await manager.download(arguments.url, to: path, segments: arguments.inFlight).value
    measurement.finish()
}

/// Mode `queue`: adds REQUESTS downloads to a `DownloadManager` whose folder is FILE. The server of the URL does not answer, so
/// the first ones run and the others wait.
func queueDownloads(_ manager: CentralRequestManager, _ arguments: Arguments, in folder: String) async throws {
    let downloads = try DownloadManager(manager, folder: folder + "/queue")
    let measurement = Measurement("lat", arguments)
    for number in 0..<arguments.requests { try downloads.add(arguments.url, to: "\(folder)/\(number)") }
    measurement.finish()
    guard downloads.items.count == arguments.requests else { throw Failure("not every download was added") }
    await downloads.close()
}
