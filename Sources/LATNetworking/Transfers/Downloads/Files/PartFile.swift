import Glibc
import HTTPCore

/// The file that a download writes into, held by a lock for as long as this value lives.
///
/// The lock (flock(2)) belongs to the open file, so it holds against other downloads of this process and of others, and
/// ends with the process however that ends.
final class PartFile: Sendable {
    let path: String
    private let descriptor: Int32
    /// Its size when it was opened.
    let size: Int64

    /// Opens the file, makes it when needed, and locks it.
    ///
    /// - Throws: ``NetworkError/Kind/storage``, also when somebody else has it.
    init(path: String, target: String) throws(NetworkError) {
        self.path = path
        while true {
            let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o666)
            guard descriptor >= 0 else { throw DownloadFiles.system("opened", path) }
            var status = stat()
            guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
                close(descriptor)
                throw DownloadFiles.notRegular(path)
            }
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                let code = errno
                close(descriptor)
                throw code == EWOULDBLOCK ? DownloadFiles.inUse(target) : DownloadFiles.system("locked", path, code)
            }
            // Between opening and locking, whoever had it may have given it its final name, or removed it.
            var named = stat()
            if lstat(path, &named) == 0, named.st_ino == status.st_ino, named.st_dev == status.st_dev {
                self.descriptor = descriptor
                size = Int64(status.st_size)
                return
            }
            close(descriptor)
        }
    }

    deinit { close(descriptor) }

    /// Lets others have it, now and not whenever the last reference goes. Nothing is written after it.
    func unlock() { flock(descriptor, LOCK_UN) }

    /// Writes all of the bytes at a place.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(NetworkError) {
        var written = 0
        while written < bytes.count, let base = bytes.baseAddress {
            let count = pwrite(descriptor, base + written, bytes.count - written, off_t(offset) + off_t(written))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw DownloadFiles.system("written", path, count == 0 ? EIO : errno) }
            written += count
        }
    }

    /// Reads bytes at a place, as many as the buffer holds or the file has.
    func read(_ buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(NetworkError) -> Int {
        while true {
            let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw DownloadFiles.system("read", path) }
            return count
        }
    }

    /// Returns when everything written so far would survive a power cut (fdatasync(2)).
    func synchronize() throws(NetworkError) {
        while fdatasync(descriptor) != 0 {
            if errno == EINTR { continue }
            // A file system that has nothing to synchronise says so.
            if errno == EINVAL || errno == ENOSYS { return }
            throw DownloadFiles.system("synchronised", path)
        }
    }

    /// Makes the file this long.
    func truncate(to size: Int64) throws(NetworkError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw DownloadFiles.system("cut", path) }
    }

    /// Takes the space for the whole file now (posix_fallocate(3)), so that it cannot run out later.
    func reserve(_ size: Int64) throws(NetworkError) {
        guard size > 0 else { return }
        let code = posix_fallocate(descriptor, 0, off_t(size))
        guard code == 0 || code == EOPNOTSUPP || code == EINVAL else {
            throw DownloadFiles.system("given its \(size) bytes", path, code)
        }
    }

    /// Gives it the permissions of another file.
    func takePermissions(_ mode: mode_t) { _ = fchmod(descriptor, mode & 0o7777) }

    /// The bytes that the file system has given it already.
    var allocatedSize: Int64 {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? Int64(status.st_blocks) * 512 : 0
    }
}
