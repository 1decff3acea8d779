import Glibc
import HTTPCore
import LATClient

/// The file that a download writes to, locked for as long as this value lives.
///
/// The lock (flock(2)) belongs to the open file, so it excludes downloads of this process and of others. It ends with
/// the process, even after a crash.
final class PartFile: Sendable {
    let path: String
    private let descriptor: Int32

    /// Opens or creates the file and locks it.
    ///
    /// - Parameter inUse: Makes the error when another transfer has locked it.
    /// - Throws: ``NetworkError/Kind/storage``.
    init(
        path: String, target: String, inUse: (_ target: String) -> NetworkError = DownloadFiles.inUse
    ) throws(NetworkError) {
        self.path = path
        while true {
            let flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW
            var descriptor = open(path, flags | O_CREAT | O_EXCL, 0o666)
            let isNew = descriptor >= 0
            if !isNew, errno == EEXIST {
                descriptor = open(path, flags)
                if descriptor < 0, errno == ENOENT { continue }
            }
            guard descriptor >= 0 else { throw DownloadFiles.system("opened", path) }
            var isKept = false
            defer { if !isKept { close(descriptor) } }
            var status = stat()
            guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
                throw DownloadFiles.notRegular(path)
            }
            // Some file systems, such as those of a network, show another owner of what was made here, too.
            guard isNew || status.st_uid == geteuid() else { throw DownloadFiles.ofAnother(path) }
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                throw errno == EWOULDBLOCK ? inUse(target) : DownloadFiles.system("locked", path)
            }
            // Before this lock, another download may have renamed or removed the file.
            var named = stat()
            guard lstat(path, &named) == 0, named.st_ino == status.st_ino, named.st_dev == status.st_dev else {
                continue
            }
            guard named.st_nlink > 1 else {
                self.descriptor = descriptor
                isKept = true
                return
            }
            // Its other name is that of a finished download whose process died before it removed this one.
            guard unlink(path) == 0 else { throw DownloadFiles.system("removed", path) }
        }
    }

    deinit { close(descriptor) }

    /// Releases the lock now instead of with the last reference. Nothing may be written afterwards.
    func unlock() { flock(descriptor, LOCK_UN) }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(NetworkError) {
        var written = 0
        while written < bytes.count, let base = bytes.baseAddress {
            let count = pwrite(descriptor, base + written, bytes.count - written, off_t(offset) + off_t(written))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw DownloadFiles.system("written", path, count == 0 ? EIO : errno) }
            written += count
        }
    }

    /// Reads bytes at an offset, as many as the buffer holds or the file has.
    func read(_ buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(NetworkError) -> Int {
        while true {
            let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw DownloadFiles.system("read", path) }
            return count
        }
    }

    /// Returns when everything written so far would survive a power failure (fdatasync(2)).
    func synchronize() throws(NetworkError) {
        while fdatasync(descriptor) != 0 {
            if errno == EINTR { continue }
            // Some file systems do not support synchronisation.
            if errno == EINVAL || errno == ENOSYS { return }
            throw DownloadFiles.system("synchronised", path)
        }
    }

    func truncate(to size: Int64) throws(NetworkError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw DownloadFiles.system("truncated", path) }
    }

    /// Reserves the space for the whole file (posix_fallocate(3)), so that it cannot run out later.
    func reserve(_ size: Int64) throws(NetworkError) {
        guard size > 0 else { return }
        let code = posix_fallocate(descriptor, 0, off_t(size))
        guard code == 0 || code == EOPNOTSUPP || code == EINVAL else {
            throw DownloadFiles.system("extended to \(size) bytes", path, code)
        }
    }

    /// Gives this file the permissions of the one that it replaces, but none to run as its owner or group.
    func takePermissions(_ mode: mode_t) { _ = fchmod(descriptor, mode & 0o777) }

    var size: Int64 {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? Int64(status.st_size) : 0
    }

    /// What the complete file is, before it gets its name; `nil` if the system does not say it.
    func finished(as path: String) -> FinishedFile? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? FinishedFile(path, status) : nil
    }

    var allocatedSize: Int64 {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? Int64(status.st_blocks) * 512 : 0
    }
}
