import Glibc
import HTTPCore

/// The complete file of a download as it was before it got its name, so that a later process can see whether it has it.
struct FinishedFile: Hashable, Sendable {
    /// The path of the complete file.
    let path: String
    let size: Int64
    private let inode: UInt64
    private let seconds: Int64
    private let nanoseconds: Int64

    init(_ path: String, _ status: stat) {
        self.path = path
        size = Int64(status.st_size)
        inode = UInt64(status.st_ino)
        (seconds, nanoseconds) = (Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec))
    }

    init?(_ json: JSONValue?) {
        guard let path = json?[0]?.string, let size = json?[1]?.int64, let inode = json?[2]?.int64,
            let seconds = json?[3]?.int64, let nanoseconds = json?[4]?.int64
        else { return nil }
        (self.path, self.size, self.inode) = (path, size, UInt64(bitPattern: inode))
        (self.seconds, self.nanoseconds) = (seconds, nanoseconds)
    }

    var json: JSONValue {
        [.string(path), .int(size), .int(Int64(bitPattern: inode)), .int(seconds), .int(nanoseconds)]
    }

    /// Whether the file has its name, and nobody has written to it since.
    var isThere: Bool {
        var status = stat()
        return lstat(path, &status) == 0 && FinishedFile(path, status) == self
    }
}
