import CLinux
import FoundationEssentials
import Glibc
import Platform
import SQLite
import Synchronization

/// The files of a cache's folder, and the operations on them.
///
/// The folder holds `index-4.sqlite` with its `-wal` and `-shm`, `lock`, `leases-4`, `identity.key` (``IdentityKey``), and
/// `bodies-4/`, where the name of a body being written ends in `.part`. The writer of a body locks its file until the index
/// has its row, so that it is not removed as an orphan. The number 4 is the format version, so that two releases of a
/// program can share a folder during a deployment. Only the owner has access, whatever the umask.
package struct DiskLayout: Sendable {
    let directory: String
    package let index: String
    let bodies: String
    let leases: String

    package init(_ directory: String) {
        var directory = directory
        while directory.count > 1, directory.hasSuffix("/") { directory.removeLast() }
        self.directory = directory
        index = directory + "/index-\(CacheIndex.schemaVersion).sqlite"
        bodies = directory + "/bodies-\(CacheIndex.schemaVersion)"
        leases = directory + "/leases-\(CacheIndex.schemaVersion)"
    }

    /// Whether the folder has an index, so that it may have entries.
    package var mayHoldEntries: Bool { access(index, F_OK) == 0 }

    /// Creates missing folders, for the owner only.
    func makeFolders() throws { try Self.makeFolder(bodies) }

    private static func makeFolder(_ path: String) throws {
        guard path != "/", path != ".", access(path, F_OK) != 0 else { return }
        try makeFolder(PathParts(path).folder)
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw SystemError("making the folder \(path)") }
    }

    /// Removes the permissions of others from the existing files of the index.
    func makeIndexPrivate() {
        for path in [index, index + "-wal", index + "-shm"] {
            var facts = stat()
            if lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, facts.st_mode & 0o077 != 0 {
                chmod(path, 0o600)
            }
        }
    }

    /// Removes the files of other format versions that were not used for a week, but no files of other programs.
    func removeOldVersions(now: time_t = time(nil)) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names where name.hasPrefix("index") && name.hasSuffix(".sqlite") && directory + "/" + name != index
        {
            let number = name.dropFirst("index".count).dropLast(".sqlite".count)
            guard number.isEmpty || number.first == "-" && Int(number.dropFirst()) != nil else { continue }
            let files = ["", "-wal", "-shm"].map { "\(directory)/\(name)\($0)" }
            let lastUse = files.compactMap { path -> time_t? in
                var facts = stat()
                return lstat(path, &facts) == 0 ? facts.st_mtim.tv_sec : nil
            }.max()
            guard let lastUse, now - lastUse > 7 * 86_400, Self.isIndex(files[0]) else { continue }
            for file in files { unlink(file) }
            unlink("\(directory)/\(name).damaged")
            unlink("\(directory)/leases\(number)")
            try? FileManager.default.removeItem(atPath: "\(directory)/bodies\(number)")
        }
    }

    /// Whether a file is an index of any version: an SQLite database with our application ID. SQLite reads it, because the
    /// ID may still be in the log, and because closing a descriptor here would release the locks of the app's own database.
    private static func isIndex(_ path: String) -> Bool {
        guard let connection = try? SQLiteConnection(path: path, mode: .readOnly, busyTimeout: .zero) else {
            return false
        }
        connection.keepLogOnClose()
        return (try? connection.number("PRAGMA application_id")) == CacheIndex.applicationID
    }

    func path(ofBody name: String) -> String { bodies + "/" + name }

    /// The free bytes for this user; `nil` when the system does not say.
    var freeBytes: Int64? { diskFacts.map { Self.product($0.f_bavail, $0.f_frsize) } }

    /// The size of the disk in bytes; `nil` when the system does not say.
    var diskBytes: Int64? { diskFacts.map { Self.product($0.f_blocks, $0.f_frsize) } }

    private var diskFacts: statvfs? {
        var facts = statvfs()
        var path = directory
        // The folder may not exist yet.
        while statvfs(path, &facts) != 0 {
            guard path.count > 1, let slash = path.lastIndex(of: "/") else { return nil }
            path = slash == path.startIndex ? "/" : String(path[..<slash])
        }
        return facts
    }

    private static func product(_ blocks: UInt, _ size: UInt) -> Int64 {
        let (product, isHuge) = blocks.multipliedReportingOverflow(by: size)
        return isHuge ? .max : Int64(clamping: product)
    }

    // MARK: The lock of the folder

    /// Runs work while no other process opens, creates or sets aside the index. If the lock file cannot be opened or locked,
    /// the work runs without the lock. Throws `EBUSY` when another process holds the lock for longer than the limit.
    package func locked<Result>(within limit: Duration, _ body: () throws -> Result) throws -> Result {
        let descriptor = open(directory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return try body() }
        defer { close(descriptor) }
        let end = ContinuousClock.now + limit
        var backoff = Backoff(first: .microseconds(500), longest: .milliseconds(20))
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            // Any other error means that the file system has no such locks.
            guard errno == EWOULDBLOCK || errno == EINTR else { break }
            guard ContinuousClock.now < end else {
                throw SystemError("waiting for another process that opens the cache in \(directory)", code: EBUSY)
            }
            usleep(useconds_t(backoff.next() / .microseconds(1)))
        }
        return try body()
    }

    // MARK: Bodies

    /// Removes bodies that are not being written and have no row in the index, and returns the number of removed bytes.
    /// `isKnown`, whether there is a row, is called again once the body is locked.
    func removeOrphans(_ isKnown: (_ name: String) throws -> Bool) throws -> Int64 {
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: bodies) else { return 0 }
        var byteCount: Int64 = 0
        for name in names {
            if try !name.hasSuffix(Self.partSuffix) && isKnown(name) { continue }
            let path = path(ofBody: name)
            let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            // A locked body is being written. Otherwise its writer has died, or its row exists by now.
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { continue }
            if try !name.hasSuffix(Self.partSuffix) && isKnown(name) { continue }
            var facts = stat()
            if fstat(descriptor, &facts) == 0, unlink(path) == 0 { byteCount += Int64(facts.st_size) }
        }
        return byteCount
    }

    static let partSuffix = ".part"
}

/// The identity of the file that a path refers to.
struct FileIdentity: Equatable, Sendable {
    private let device: UInt64
    private let number: UInt64
    /// Whether the file is empty, as after a truncation while it is open.
    let isEmpty: Bool

    /// The file at a path; `nil` when there is none. It is not opened, since closing any descriptor of the index would
    /// release SQLite's locks on it.
    init?(_ path: String) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        self.init(facts)
    }

    /// The file of a descriptor.
    init?(of descriptor: Int32) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { return nil }
        self.init(facts)
    }

    private init(_ facts: stat) {
        device = UInt64(facts.st_dev)
        number = UInt64(facts.st_ino)
        isEmpty = facts.st_size == 0
    }

    static func == (a: FileIdentity, b: FileIdentity) -> Bool { a.device == b.device && a.number == b.number }
}

/// Leases between processes: locks on single bytes of an empty file, which the kernel releases when a process ends.
///
/// Two names may share a byte. A caller then waits for an unrelated lease, but no longer than it would for its own.
final class LeaseFile: Sendable {
    private struct State {
        /// -1 until the folder exists.
        var descriptor: Int32 = -1
        /// The file of the descriptor.
        var file: FileIdentity?
        var held: Set<Int64> = []
    }

    private let path: String
    private let state = Mutex(State())

    init(_ path: String) { self.path = path }

    deinit { _ = state.withLock { close($0.descriptor) } }

    /// Opens the file, and again when another one has taken its place: other processes lock that one.
    private func openFile(_ state: inout State) {
        guard state.descriptor < 0 || FileIdentity(path) != state.file else { return }
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return }
        for byte in state.held { _ = lat_lock_byte(descriptor, byte, 1) }
        if state.descriptor >= 0 { close(state.descriptor) }
        (state.descriptor, state.file) = (descriptor, FileIdentity(of: descriptor))
    }

    /// The lease of a name; `nil` while another holder has it. If the file cannot be locked, every process gets it.
    func lease(_ name: String) -> CacheLease? {
        let byte = CacheIndex.slot(Array(name.utf8)) & (.max >> 1)
        return state.withLock { state in
            openFile(&state)
            guard state.descriptor >= 0 else { return CacheLease(number: 0) {} }
            guard state.held.insert(byte).inserted else { return nil }
            if lat_lock_byte(state.descriptor, byte, 1) != 0, errno == EAGAIN || errno == EACCES {
                state.held.remove(byte)
                return nil
            }
            // All processes of the machine share this clock.
            return CacheLease(number: UInt64(MonotonicTime.now.nanoseconds)) {
                self.state.withLock { state in
                    state.held.remove(byte)
                    _ = lat_lock_byte(state.descriptor, byte, 0)
                }
            }
        }
    }
}
