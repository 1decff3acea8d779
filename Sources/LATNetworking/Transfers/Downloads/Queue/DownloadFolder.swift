import FoundationEssentials
import Glibc
import HTTPCore

/// The folder in which a manager keeps its records, one file for each download. One process at a time has it.
final class DownloadFolder: Sendable {
    private let path: String
    private let lock: Int32

    /// Makes the folder when needed and locks it.
    ///
    /// - Throws: ``NetworkError/Kind/storage``, also when another manager has it.
    init(_ path: String) throws(NetworkError) {
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw NetworkError(
                .storage, message: "the folder \(URLText.visible(path)) cannot be made: \(error)", underlying: error)
        }
        let name = path + "/.lock"
        let lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { throw StorageFailure.system("opened", name) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            close(lock)
            throw NetworkError(
                .storage,
                message: "another download manager uses \(URLText.visible(path)); give each a folder of its own")
        }
        self.path = path
        self.lock = lock
    }

    deinit { close(lock) }

    /// Lets another manager have it, now.
    func unlock() { flock(lock, LOCK_UN) }

    /// The records, oldest first, and the names of files that tell nothing.
    func load() -> (records: [DownloadRecord], unreadable: [String]) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        var records: [DownloadRecord] = []
        var unreadable: [String] = []
        for name in names where name.hasSuffix(".download") {
            if let data = AtomicFile.read(path + "/" + name), let record = DownloadRecord(decoding: data),
                record.fileName == name
            {
                records.append(record)
            } else {
                unreadable.append(name)
            }
        }
        return (records.sorted { $0.number < $1.number }, unreadable.sorted())
    }

    func save(_ record: DownloadRecord) throws(NetworkError) {
        do {
            try AtomicFile.write(try record.encoded(), to: path + "/" + record.fileName)
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(.storage, message: "a download cannot be put into words: \(error)", underlying: error)
        }
    }

    func remove(_ number: UInt64) { AtomicFile.remove(path + "/" + DownloadRecord.fileName(number)) }
}
