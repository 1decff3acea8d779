import FoundationEssentials
import Glibc
import Platform
import SQLite

/// An index that is opened when it is needed, and again when another file stands in its place.
///
/// Used from one queue at a time, or behind one lock.
final class IndexHandle {
    enum Purpose: Sendable {
        /// Makes what is missing.
        case writing
        /// Makes nothing.
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

    /// The file that the index was last read from.
    var file: FileIdentity? { open?.file }

    func close() { open = nil }

    /// The index as it is on disk now; for reading `nil` when there is none.
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
        // Known before the tables are looked at: should they be damaged, it is this file.
        guard let file = FileIdentity(layout.index) else { throw SystemError("opening \(layout.index)", code: ENOENT) }
        damagedFile = file
        try index.prepareForWriting()
        damagedFile = nil
        open = (index, file)
        return index
    }

    private func openForReading() throws -> CacheIndex? {
        var refusal: (any Error)?
        // On a file system that takes no writes SQLite needs to be told; there the last two help.
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

    /// The file that was found damaged while it was opened.
    private(set) var damagedFile: FileIdentity?

    /// The file to be set aside after a fault that shows damage.
    func takeDamagedFile() -> FileIdentity? {
        let file = open?.file ?? damagedFile
        close()
        damagedFile = nil
        return file
    }
}

extension DiskLayout {
    /// What a damaged index is called afterwards. One is kept, for those who look for the reason.
    var damagedIndex: String { index + ".damaged" }

    /// Puts a damaged index out of the way, unless somebody else has done so.
    func setAside(_ file: FileIdentity?) throws {
        try locked(within: .seconds(1)) {
            guard let file, FileIdentity(index) == file else { return }
            // Its log first: it must never meet another index.
            for suffix in ["-wal", "-shm"] where unlink(index + suffix) != 0 && errno != ENOENT {
                throw SystemError("removing \(index)\(suffix)")
            }
            guard rename(index, damagedIndex) == 0 || errno == ENOENT else { throw SystemError("renaming \(index)") }
        }
    }
}
