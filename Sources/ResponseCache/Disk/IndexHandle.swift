import FoundationEssentials
import Glibc
import Platform
import SQLite

/// Opens an index on demand, and again when its file was replaced.
///
/// Used from one queue at a time, or under one lock.
final class IndexHandle {
    enum Purpose: Sendable {
        /// Creates the folder, the file and the tables.
        case writing
        /// Creates nothing.
        case reading
    }

    private let layout: DiskLayout
    private let sealer: EntrySealer
    private let purpose: Purpose
    private let busyTimeout: Duration
    private var open: (index: CacheIndex, file: FileIdentity)?

    init(_ layout: DiskLayout, _ sealer: EntrySealer, _ purpose: Purpose, busyTimeout: Duration) {
        self.layout = layout
        self.sealer = sealer
        self.purpose = purpose
        self.busyTimeout = busyTimeout
    }

    /// The file of the open index.
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
        switch purpose {
        case .writing:
            try layout.makeFolders()
            return try layout.locked(within: busyTimeout) { try openForWriting() }
        case .reading:
            guard file != nil else { return nil }
            return try layout.locked(within: busyTimeout) { try openForReading() }
        }
    }

    private func openForWriting() throws -> CacheIndex {
        layout.makeIndexPrivate()
        let connection = try SQLiteConnection(path: layout.index, mode: .creating, busyTimeout: busyTimeout)
        let index = CacheIndex(connection, sealer)
        // The file is recorded before the tables are read, so that it can be set aside if it is damaged.
        guard let file = FileIdentity(layout.index) else { throw SystemError("opening \(layout.index)", code: ENOENT) }
        damagedFile = file
        try index.prepareForWriting()
        damagedFile = nil
        open = (index, file)
        return index
    }

    private func openForReading() throws -> CacheIndex? {
        var refusal: (any Error)?
        // The last two modes are for read-only file systems.
        for mode in [SQLiteConnection.Mode.reading, .readOnly, .immutable] {
            do {
                let connection = try SQLiteConnection(path: layout.index, mode: mode, busyTimeout: busyTimeout)
                let index = CacheIndex(connection, sealer)
                guard let file = FileIdentity(layout.index) else { return nil }
                damagedFile = file
                guard try index.prepareForReading() else { return nil }
                damagedFile = nil
                open = (index, file)
                return index
            } catch let error as SQLiteError where error.isRefusal || error.isInputOutput {
                refusal = refusal ?? error
            }
        }
        throw refusal ?? SystemError("opening \(layout.index)", code: EIO)
    }

    /// The file being opened. It stays set until a file is opened successfully.
    private(set) var damagedFile: FileIdentity?

    /// Closes the index and returns its file, to be set aside as damaged.
    func takeDamagedFile() -> FileIdentity? {
        let file = open?.file ?? damagedFile
        close()
        damagedFile = nil
        return file
    }
}

extension DiskLayout {
    /// The path of a damaged index that was set aside. The last one is kept for diagnosis.
    var damagedIndex: String { index + ".damaged" }

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
