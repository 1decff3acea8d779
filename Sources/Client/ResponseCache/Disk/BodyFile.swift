import FoundationEssentials
import Glibc
import Platform

/// A locked file for a body that is being stored. Releasing the object removes the file unless ``keep()`` was called.
///
/// `@unchecked Sendable`: it has one owner at a time, first the writer of the body, then the batch that stores it.
final class BodyFile: @unchecked Sendable {
    let layout: DiskLayout
    let name: String
    private let descriptor: Int32
    private var isPublished = false
    private var isKept = false

    private init(layout: DiskLayout, name: String, descriptor: Int32) {
        self.layout = layout
        self.name = name
        self.descriptor = descriptor
    }

    /// Creates the file with the suffix of a partial body and locks it.
    static func make(_ layout: DiskLayout, name: String) throws -> BodyFile {
        try layout.makeFolders()
        let path = layout.path(ofBody: name) + DiskLayout.partSuffix
        while true {
            let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else { throw SystemError("making \(path)") }
            var facts = stat()
            guard flock(descriptor, LOCK_EX) == 0, fstat(descriptor, &facts) == 0 else {
                let error = SystemError("locking \(path)")
                unlink(path)
                close(descriptor)
                throw error
            }
            if facts.st_nlink > 0 { return BodyFile(layout: layout, name: name, descriptor: descriptor) }
            // Before the lock was taken, another process has removed the file as an orphan.
            close(descriptor)
        }
    }

    deinit {
        if !isKept {
            unlink(layout.path(ofBody: name) + (isPublished ? "" : DiskLayout.partSuffix))
        }
        // Closing alone would not release it while a child process that has not yet started its program has a copy.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// Writes bytes and removes the written ones from `bytes`, even when it throws.
    func write(_ bytes: inout Data) throws {
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw SystemError("writing \(layout.path(ofBody: name))", code: count == 0 ? ENOSPC : errno)
            }
            bytes = count == bytes.count ? Data() : Data(bytes.dropFirst(count))
        }
    }

    /// Renames the file to its final name. It is not synced; after a loss of power the checksum detects missing bytes.
    func publish() throws {
        guard !isPublished else { return }
        let path = layout.path(ofBody: name)
        guard rename(path + DiskLayout.partSuffix, path) == 0 else { throw SystemError("renaming \(path).part") }
        isPublished = true
    }

    /// Keeps the file, because the index now has its row.
    func keep() { isKept = true }
}
