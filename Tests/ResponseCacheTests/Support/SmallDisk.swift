import Foundation
import Glibc
import LATTesting
import Testing

/// A tmpfs of a given size, where mounting one is permitted.
///
/// It is mounted on a temporary folder of its own and unmounted when this object is released.
final class SmallDisk: Sendable {
    let path: String
    private let directory: TemporaryDirectory

    /// Whether a tmpfs can be mounted here, and mounted again read-only.
    static let isPermitted = (try? SmallDisk(byteCount: 1 << 20)?.readOnlyView()) != nil
    static let reason: Comment = "mounting a tmpfs, and mounting it again read-only, is not permitted here"

    init?(byteCount: Int) throws {
        directory = try TemporaryDirectory()
        path = directory.path
        guard mount("tmpfs", path, "tmpfs", UInt(MS_NOSUID | MS_NODEV), "size=\(byteCount)") == 0 else {
            return nil
        }
    }

    deinit { umount2(path, Int32(MNT_DETACH)) }

    /// The same files mounted read-only, even for root; `nil` where that is not permitted.
    func readOnlyView() throws -> ReadOnlyView? { try ReadOnlyView(of: self) }

    final class ReadOnlyView: Sendable {
        let path: String
        private let directory: TemporaryDirectory

        fileprivate init?(of disk: SmallDisk) throws {
            directory = try TemporaryDirectory()
            path = directory.path
            let flags = UInt(MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
            guard mount(disk.path, path, nil, UInt(MS_BIND), nil) == 0, mount(nil, path, nil, flags, nil) == 0 else {
                return nil
            }
        }

        deinit { umount2(path, Int32(MNT_DETACH)) }
    }

    /// Fills all free space.
    func fill() {
        let file = open(path + "/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        lseek(file, 0, SEEK_END)
        for count in [1 << 16, 4_096, 1] {
            let block = [UInt8](repeating: 1, count: count)
            while write(file, block, count) > 0 {}
        }
    }

    func removeFiller() { unlink(path + "/filler") }
}
