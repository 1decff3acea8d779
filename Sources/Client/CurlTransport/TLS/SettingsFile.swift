import FoundationEssentials
import Glibc
internal import HTTPCore
import Platform

/// The content of a file that a setting names.
struct SettingsFile {
    /// The absolute path.
    let path: String
    let data: Data
    let stamp: FileStamp

    /// The largest file accepted, in bytes. A bundle of all public authorities has some 230 KB.
    private static let sizeLimit = 16 << 20

    /// - Parameter setting: The name of the setting, for error messages.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` unless it is a regular file of at most 16 MiB that this user may
    ///   read. A FIFO or a device is refused without blocking.
    init(_ path: String, setting: String) throws(NetworkError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Self.unusable(path, setting, SystemError().text) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.unusable(path, setting, SystemError().text) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Self.unusable(
                path, setting, status.st_mode & S_IFMT == S_IFDIR ? "it is a folder" : "it is not a regular file")
        }
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.unusable(path, setting, SystemError().text) }
            if count == 0 { break }
            data.append(contentsOf: buffer[..<count])
            guard data.count <= Self.sizeLimit else {
                throw Self.unusable(path, setting, "it has more than \(Self.sizeLimit >> 20) MiB")
            }
        }
        self.path = PathParts.absolute(path)
        self.data = data
        stamp = FileStamp(status)
    }

    private static func unusable(_ path: String, _ setting: String, _ reason: String) -> NetworkError {
        .invalidRequest(
            "\(setting) \"\(path)\" cannot be read: \(reason); give the path of a file that this user may read")
    }
}

/// The attributes that show whether a file was written to or replaced.
struct FileStamp: Equatable {
    private let device: UInt64
    private let inode: UInt64
    let size: Int64
    /// Nanoseconds since 1970.
    private let modified: Int
    private let changed: Int

    init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        modified = status.st_mtim.tv_sec &* 1_000_000_000 &+ status.st_mtim.tv_nsec
        changed = status.st_ctim.tv_sec &* 1_000_000_000 &+ status.st_ctim.tv_nsec
    }

    /// Makes the stamp of the file at a path; `nil` when there is none.
    init?(path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
    }
}
