import BenchmarkSupport
import Foundation
import LATNetworking

/// Mode `upload`: the file as a part of a multipart body, read from its path while it is sent, with progress reports.
func upload(_ manager: CentralRequestManager, _ arguments: Arguments, _ path: String) async throws {
    let measurement = Measurement("lat", arguments)
    let upload = manager.upload(arguments.url, files: [UploadFile(name: "file", path: path)])
    var last: TransferProgress?
    for await progress in upload.progress { last = progress }
    let response = try await upload.value
    guard let last, upload.state == .finished, let received = response.text.flatMap({ Int64($0) }),
        received > last.completed
    else { throw Failure("\(arguments.url): not all of \(path) arrived") }
    measurement.finish()
}
