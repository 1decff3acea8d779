import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// The file of preferences. A write replaces it as a whole, under a lock that all processes share.
///
/// The lock is on `<path>.lock`, which stays: a lock on the file itself would be lost at the next rename.
struct PreferenceFile: Sendable {
    /// Identifies a version of the file without reading it: every write makes a new inode.
    struct Stamp: Equatable, Sendable {
        let inode: UInt64
        let seconds: Int
        let nanoseconds: Int
        let size: Int64
        /// How old the file was when this was taken; below zero for a file of the future.
        let age: Duration

        /// The clock of files may stand still for some milliseconds, in which a file that is written again looks the same.
        var isCertain: Bool { age > .milliseconds(20) }

        static func == (left: Self, right: Self) -> Bool {
            (left.inode, left.seconds, left.nanoseconds, left.size)
                == (right.inode, right.seconds, right.nanoseconds, right.size)
        }

        init(_ status: stat) {
            inode = UInt64(status.st_ino)
            (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
            size = Int64(status.st_size)
            var now = timespec()
            clock_gettime(CLOCK_REALTIME, &now)
            age = .seconds(now.tv_sec &- seconds) + .nanoseconds(now.tv_nsec - nanoseconds)
        }
    }

    /// The result of a read.
    enum Content: Sendable {
        case missing
        case values([String: JSONValue])
        /// The file exists but holds no JSON object. The value says why.
        case damaged(String)
    }

    let path: String
    /// How long a file that is not whole stays unchanged before it counts as damaged.
    private let settling: Duration

    /// Resolves symbolic links in the path, so that a write replaces the file and not the link to it.
    init(path: String, settling: Duration = .milliseconds(200)) {
        self.path = PathParts.resolved(path) ?? PathParts.absolute(path)
        self.settling = settling
    }

    func failure(_ operation: String, _ code: Int32, _ advice: String) -> NetworkError {
        .storage(
            code == ENOSPC || code == EDQUOT ? .full : code == EROFS || code == EACCES ? .readOnly : .unreadable,
            "\(operation) \(path)", "\(SystemError(code: code).text); \(advice)")
    }

    var stamp: Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Stamp(status)
    }

    /// Reads the file. One that is not whole is read again for a while, since an editor may be writing it.
    ///
    /// - Throws: `NetworkError` when the file exists but cannot be read.
    func read() throws -> (Content, Stamp?) {
        let end = ContinuousClock.now + settling * 10
        while true {
            let (content, stamp) = try readOnce()
            guard case .damaged = content, let age = stamp?.age, age >= .zero, age < settling, ContinuousClock.now < end
            else {
                return (content, stamp)
            }
            usleep(5_000)
        }
    }

    private func readOnce() throws -> (Content, Stamp?) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return (.missing, nil) }
            throw failure("read", errno, "check the permissions of the file and its folders")
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure("read", errno, "try again") }
        let stamp = Stamp(status)
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("read", errno, "check the disk, and that the path is a file") }
            if count == 0 { break }
            data.append(contentsOf: buffer[..<count])
        }
        do {
            guard case .object(let values) = try JSONValue(parsing: data) else {
                return (.damaged("its JSON is not an object"), stamp)
            }
            return (.values(values), stamp)
        } catch {
            return (.damaged(data.isEmpty ? "it is empty" : "it is not JSON: \(error)"), stamp)
        }
    }

    /// Replaces the content, whole or not at all: temporary file, `fdatasync`, `rename`, `fsync` of the folder. Call it
    /// only inside ``locked(_:)``.
    func replace(by values: [String: JSONValue]) throws {
        let advice = "the file is unchanged; make room, or check the permissions of its folder"
        let data: Data
        do {
            data = try JSONValue.object(values).data(prettyPrinted: true) + Data("\n".utf8)
        } catch {
            throw NetworkError.storage(
                .value, "write \(path)", "a value cannot be encoded as JSON: \(error); the file is unchanged")
        }
        var status = stat()
        let mode = stat(path, &status) == 0 ? status.st_mode & 0o777 : 0o600
        do throws(SystemError) {
            try AtomicFile.write(data, to: path, mode: mode)
        } catch {
            throw failure("write", error.code, advice)
        }
    }

    /// Renames a damaged file, so that nothing overwrites it.
    func setAside() throws -> String {
        let base = "\(path).corrupt-\(Int64(Date().timeIntervalSince1970 * 1_000))"
        var aside = base
        var number = 1
        // Unlike `rename`, `link` fails when the target exists.
        while link(path, aside) != 0 {
            if errno == EEXIST {
                number += 1
                aside = "\(base)-\(number)"
                continue
            }
            guard access(aside, F_OK) != 0, rename(path, aside) == 0 else {
                throw failure("set aside", errno, "check the permissions of its folder")
            }
            return aside
        }
        _ = unlink(path)
        return aside
    }

    /// Runs a body under the lock, so that no other process or thread runs one at the same time.
    ///
    /// - Throws: `NetworkError` with the reason `busy` when others hold the lock for as long as `patience`.
    func locked<Result>(patience: Duration = .seconds(10), _ body: () throws -> Result) throws -> Result {
        let lock: FileLock
        do throws(SystemError) {
            lock = try FileLock(beside: path, patience: patience)
        } catch {
            throw FileLock.busy(error, "lock \(path)", path)
                ?? failure("lock", error.code, "check the permissions of its folder")
        }
        return try withExtendedLifetime(lock, body)
    }
}

/// A lock between processes and threads: `flock` on a file beside the one that it protects, until this object is
/// released. Several may hold a shared lock, but none while another holds one that is not shared.
final class FileLock {
    private let descriptor: Int32

    /// Waits for the lock, but not for ever: a process that was stopped must not hold up the others.
    ///
    /// - Throws: `SystemError`, with `EWOULDBLOCK` when others hold the lock for as long as `patience`.
    init(beside path: String, isShared: Bool = false, patience: Duration) throws(SystemError) {
        let folder = PathParts(path).folder
        if access(folder, F_OK) != 0 {
            try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
        // Each lock opens its own descriptor, so that threads exclude each other too.
        descriptor = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemError() }
        let end = ContinuousClock.now + patience
        while flock(descriptor, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 {
            let error = SystemError()
            guard error.code == EINTR || error.code == EWOULDBLOCK && ContinuousClock.now < end else { throw error }
            usleep(1_000)
        }
    }

    deinit { close(descriptor) }

    /// The error for a lock that others hold; `nil` for another failure.
    static func busy(_ error: SystemError, _ operation: String, _ path: String) -> NetworkError? {
        guard error.code == EWOULDBLOCK else { return nil }
        return .storage(
            .busy, operation,
            "others hold \(path).lock; try again, and continue or end a process that was stopped (lsof finds it)")
    }
}
