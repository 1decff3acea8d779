import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import ResponseCache
import SQLite

/// The point at which a writing process stops, with the locks that it holds.
enum Phase: String {
    /// With SQLite's write lock.
    case writeLock
    /// With the write lock and an uncommitted transaction.
    case transaction
    /// With the lock of the folder, which is held while the index is opened or set aside.
    case folderLock
    /// In a checkpoint that waits for readers before it truncates the log.
    case checkpoint
    /// In the recovery of the log's index, during which nobody can read or write.
    case recovery
    /// With a partly written body file.
    case body
    /// With the lease of "k".
    case lease
    /// With its own unsaved identity key, which it then saves and prints.
    case identityKey
}

/// Stops this process in a phase. When it is continued, it finishes and ends.
func stop(in phase: Phase, _ directory: String) async throws {
    let layout = DiskLayout(directory)
    switch phase {
    case .writeLock, .transaction:
        let connection = try SQLiteConnection(path: layout.index, mode: .creating, busyTimeout: .seconds(5))
        try connection.execute("BEGIN IMMEDIATE")
        if phase == .transaction { try connection.execute("UPDATE state SET clock = clock + 1") }
        raise(SIGSTOP)
        try connection.execute("COMMIT")
    case .folderLock:
        try layout.locked(within: .seconds(5)) { _ = raise(SIGSTOP) }
    case .checkpoint:
        // The locks that a checkpoint holds: the write lock, the checkpoint lock and the readers' locks
        // (https://www.sqlite.org/walformat.html#wal_locks).
        try holding([120, 121, 124, 125, 126, 127], of: layout.index + "-shm")
    case .recovery:
        try holding([120, 121, 122, 123], of: layout.index + "-shm", invalidatesHeader: true)
    case .lease:
        let lease = try await DiskStore(directory: directory).lease("k", for: .seconds(60))
        guard let lease else { throw SystemError("taking the lease", code: EAGAIN) }
        raise(SIGSTOP)
        lease.end()
    case .body:
        let store = try DiskStore(directory: directory)
        let entry = CacheEntry(
            key: CacheKey(primary: "half"), method: "GET", url: "http://h/half", status: 200, headers: [:],
            requestTime: Date(), responseTime: Date())
        let writer = try await store.writer(for: entry)
        try await writer.append(Data(repeating: 1, count: 1 << 20))
        raise(SIGSTOP)
        try await writer.commit()
    case .identityKey:
        let key = IdentityKey(directory: directory)
        _ = key.bytes
        raise(SIGSTOP)
        key.save()
        acknowledge(key.bytes.base64EncodedString())
    }
}

/// Stops this process while it holds locks on bytes of a file.
private func holding(_ bytes: [Int], of path: String, invalidatesHeader: Bool = false) throws {
    let descriptor = open(path, O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("opening \(path)") }
    defer { close(descriptor) }
    for byte in bytes {
        var lock = Glibc.flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(byte)
        lock.l_len = 1
        guard fcntl(descriptor, F_SETLK, &lock) == 0 else { throw SystemError("locking byte \(byte) of \(path)") }
    }
    // Both copies of the header.
    if invalidatesHeader { pwrite(descriptor, [UInt8](repeating: 0, count: 96), 96, 0) }
    raise(SIGSTOP)
}
