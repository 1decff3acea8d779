import BenchmarkSupport
import FoundationEssentials
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

/// Modes `put`, `tus`, `standard` and `s3`: the file as the whole body, in one request and in parts. Checksums are left out,
/// because a plain PUT has none.
func put(_ manager: CentralRequestManager, _ arguments: Arguments, _ path: String) async throws {
    let measurement = Measurement("lat", arguments)
    let styles: [String: ResumableUpload] = ["tus": .tus, "standard": .standard, "s3": .s3]
    let upload: UploadTask<HTTPResponse>
    if var resumable = styles[arguments.mode] {
        resumable.sendsChecksums = false
        upload = manager.upload(arguments.url, body: .file(path), resumable: resumable)
    } else {
        upload = manager.upload(arguments.url, body: .file(path))
    }
    for await _ in upload.progress {}
    let response = try await upload.value
    let size = upload.currentProgress.total ?? -1
    let received = response.headers["Upload-Offset"] ?? response.text
    guard received == "\(size)" else { throw Failure("\(arguments.url): not all of \(path) arrived") }
    measurement.finish()
}
