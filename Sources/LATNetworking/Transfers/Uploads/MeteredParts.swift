import FoundationEssentials
import Glibc
import HTTPCore

/// The files of an upload, each with a meter that reports to one monitor. Plain fields have none.
struct MeteredParts: Sendable {
    let files: [UploadFile]
    let monitor: UploadMonitor

    init(_ parts: [UploadFile]) {
        let indices = parts.indices.filter { parts[$0].fileName != nil }
        let monitor = UploadMonitor(indices.map { UploadItem(parts[$0]) })
        var files = parts
        for (number, index) in indices.enumerated() { files[index].meter = monitor.meter(number) }
        self.files = files
        self.monitor = monitor
    }
}

extension UploadItem {
    init(_ file: UploadFile) {
        let total: Int64? =
            switch file.source {
            case .data(let data): Int64(data.count)
            case .path(let path): Self.size(ofFileAt: path)
            case .stream(let stream): stream.length
            }
        self.init(name: file.name, fileName: file.fileName, total: total)
    }

    /// A body that is one file.
    init(_ body: HTTPBody) {
        self.init(name: "", fileName: nil, total: nil)
        switch body.content {
        case .data(let data): total = Int64(data.count)
        case .stream(let stream): total = stream.length
        case .file(let path):
            fileName = path.split(separator: "/").last.map(String.init)
            total = Self.size(ofFileAt: path)
        case .parameters, .encoded, .multipart: break
        }
    }

    /// `nil` for what is no file; sending it fails then, with the reason.
    private static func size(ofFileAt path: String) -> Int64? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int64(status.st_size)
    }
}
