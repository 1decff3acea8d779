import FoundationEssentials
import Glibc

/// Where the files of a cache lie, and what is done with them.
///
/// `index.sqlite` with its `-wal` and `-shm`, `lock`, and `bodies/`, in which a body that is being written is called
/// `….part`. Whoever writes a body holds a lock on its file until the index knows it, so that nobody clears it away.
struct DiskLayout: Sendable {
    let directory: String
    let index: String
    let bodies: String

    init(_ directory: String) {
        var directory = directory
        while directory.count > 1, directory.hasSuffix("/") { directory.removeLast() }
        self.directory = directory
        index = directory + "/index.sqlite"
        bodies = directory + "/bodies"
    }

    /// Makes the folders, for the owner only, if they are not there.
    func makeFolders() throws {
        guard access(bodies, F_OK) != 0 else { return }
        var made: [String] = []
        var path = bodies
        while path.count > 1, access(path, F_OK) != 0 {
            made.append(path)
            let slash = path.lastIndex(of: "/") ?? path.startIndex
            path = slash == path.startIndex ? (path.hasPrefix("/") ? "/" : ".") : String(path[..<slash])
            if path == "." { break }
        }
        for folder in made.reversed() where mkdir(folder, 0o700) != 0 && errno != EEXIST {
            throw SystemError("making the folder \(folder)")
        }
        for folder in Set(made.map { String($0[..<($0.lastIndex(of: "/") ?? $0.startIndex)]) }) where !folder.isEmpty {
            try synchronize(folder: folder)
        }
    }

    func synchronize(folder: String) throws {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemError("opening the folder \(folder)") }
        defer { close(descriptor) }
        // Some file systems know no fsync of folders, and need none.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemError("writing the folder \(folder)") }
    }

    func path(ofBody name: String) -> String { bodies + "/" + name }

    /// Bytes that are free for this user; `nil` when the system does not say.
    var freeBytes: Int64? { diskFacts.map { Self.product($0.f_bavail, $0.f_frsize) } }

    /// Bytes of the disk; `nil` when the system does not say.
    var diskBytes: Int64? { diskFacts.map { Self.product($0.f_blocks, $0.f_frsize) } }

    private var diskFacts: statvfs? {
        var facts = statvfs()
        var path = directory
        // The folder need not be there yet.
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

    /// Does something while no other process opens, makes or sets aside the index. Without a lock where none can be had.
    func locked<Result>(_ body: () throws -> Result) rethrows -> Result {
        let descriptor = open(directory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return try body() }
        defer { close(descriptor) }
        while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
        return try body()
    }

    // MARK: Bodies

    /// Removes bodies that no row of the index names and nobody is writing.
    ///
    /// - Parameter isKnown: asks the index, after the body is locked.
    /// - Returns: The bytes that went.
    func removeOrphans(_ isKnown: (_ name: String) throws -> Bool) throws -> Int64 {
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: bodies) else { return 0 }
        var byteCount: Int64 = 0
        for name in names {
            if try !name.hasSuffix(Self.partSuffix) && isKnown(name) { continue }
            let path = path(ofBody: name)
            let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            // Held: somebody writes it. Free: the writer is dead, or the row is there by now.
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { continue }
            if try !name.hasSuffix(Self.partSuffix) && isKnown(name) { continue }
            var facts = stat()
            if fstat(descriptor, &facts) == 0, unlink(path) == 0 { byteCount += Int64(facts.st_size) }
        }
        return byteCount
    }

    static let partSuffix = ".part"
}

/// Which file a name stands for.
struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64

    /// The file of a path; `nil` when there is none.
    ///
    /// By name only: to open and close an index beside SQLite would take SQLite's locks away.
    init?(_ path: String) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        device = UInt64(facts.st_dev)
        number = UInt64(facts.st_ino)
    }
}
