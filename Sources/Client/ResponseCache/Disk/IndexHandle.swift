import FoundationEssentials
import Glibc
import Platform
import SQLite

/// Opens an index on demand, and again when its file was replaced. Used from one queue at a time, or under one lock.
final class IndexHandle {
    private let layout: DiskLayout
    private let sealer: EntrySealer
    /// Whether it creates the folder, the file and the tables when they are missing.
    private let creates: Bool
    private let busyTimeout: Duration
    private var open: (index: CacheIndex, file: FileIdentity)?

    init(_ layout: DiskLayout, _ sealer: EntrySealer, creates: Bool = false, busyTimeout: Duration) {
        self.layout = layout
        self.sealer = sealer
        self.creates = creates
        self.busyTimeout = busyTimeout
    }

    var file: FileIdentity? { open?.file }

    func close() { open = nil }

    /// The current index on disk; `nil` for reading when there is none.
    func index() throws -> CacheIndex? {
        var file = FileIdentity(layout.index)
        if let open {
            if open.file == file, file?.isEmpty == false { return open.index }
            close()
            if open.file == file {
                try layout.setAside(file)
                file = nil
            }
        }
        guard creates else {
            guard file != nil else { return nil }
            return try layout.locked(within: busyTimeout) { try openForReading() }
        }
        try layout.makeFolders()
        return try layout.locked(within: busyTimeout) {
            layout.makeIndexPrivate()
            guard let index = try openIndex(.creating) else {
                throw SystemError("opening \(layout.index)", code: ENOENT)
            }
            return index
        }
    }

    private func openForReading() throws -> CacheIndex? {
        var failure: (any Error)?
        // The last two modes are for read-only file systems.
        for mode in [SQLiteConnection.Mode.reading, .readOnly, .immutable] {
            do {
                return try openIndex(mode)
            } catch let error as SQLiteError where error.isInaccessible || error.isInputOutput {
                failure = failure ?? error
            }
        }
        throw failure ?? SystemError("opening \(layout.index)", code: EIO)
    }

    /// Opens the index; `nil` when the file was removed, or for reading when it has no tables yet.
    private func openIndex(_ mode: SQLiteConnection.Mode) throws -> CacheIndex? {
        let connection = try SQLiteConnection(path: layout.index, mode: mode, busyTimeout: busyTimeout)
        let index = CacheIndex(connection, sealer)
        // The file is recorded before the tables are read, so that it can be set aside if it is damaged.
        guard let file = FileIdentity(layout.index) else { return nil }
        damagedFile = file
        if mode == .creating {
            try index.prepareForWriting()
        } else if try !index.prepareForReading() {
            return nil
        }
        damagedFile = nil
        open = (index, file)
        return index
    }

    /// The file being opened. It stays set until a file is opened successfully.
    private var damagedFile: FileIdentity?

    /// Closes the index and returns its file, to be set aside.
    func takeFile() -> FileIdentity? {
        let file = open?.file ?? damagedFile
        close()
        damagedFile = nil
        return file
    }
}

extension DiskLayout {
    /// The path of a damaged index that was set aside. The last one is kept for diagnosis.
    package var damagedIndex: String { index + ".damaged" }

    /// Sets a damaged index aside, unless another process has done so.
    func setAside(_ file: FileIdentity?) throws {
        try locked(within: .seconds(1)) {
            guard let file, FileIdentity(index) == file else { return }
            // The log is removed first, since it must never be applied to another index.
            for suffix in ["-wal", "-shm"] where unlink(index + suffix) != 0 && errno != ENOENT {
                throw SystemError("removing \(index)\(suffix)")
            }
            guard rename(index, damagedIndex) == 0 || errno == ENOENT else { throw SystemError("renaming \(index)") }
        }
    }
}
