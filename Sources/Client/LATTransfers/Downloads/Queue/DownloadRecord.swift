import Dispatch
import FoundationEssentials
import Glibc
public import HTTPCore
import LATClient
import Platform
import Synchronization

extension DownloadManager {
    /// A download of a ``DownloadManager`` at one moment.
    public struct Item: Sendable, Identifiable {
        /// The identifier of a download in its manager, which stays the same when the process restarts.
        public struct ID: Hashable, Sendable, CustomStringConvertible {
            /// Later downloads have higher numbers.
            let number: UInt64

            /// The number.
            public var description: String { "\(number)" }
        }

        /// The state of a download in the queue.
        public enum State: Hashable, Sendable {
            /// It waits until the limit allows it to start.
            case waiting
            /// It is running.
            case running
            /// It is paused until ``DownloadManager/resume(_:)``.
            case paused
            /// It failed, with this message. ``DownloadManager/resume(_:)`` tries again.
            case failed(String)
            /// The file is complete. Finished downloads are forgotten when the process restarts, apart from those whose end it did
            /// not see.
            case finished
        }

        /// The identifier.
        public let id: ID
        /// The absolute URL.
        public let url: String
        /// The absolute path of the target: a file or a folder.
        public let path: String
        /// The number of connections.
        public let segments: Int
        /// The priority. Downloads of a higher one start first, and those of equal priority in the order of adding.
        public internal(set) var priority: RequestPriority
        /// The state.
        public internal(set) var state: State
        /// The progress.
        public internal(set) var progress: TransferProgress
    }

    /// An event of a ``DownloadManager``.
    public enum Event: Sendable {
        /// A download was added.
        case added(Item)
        /// The state or priority of a download has changed. ``DownloadManager/progress(of:)`` reports its progress.
        case changed(Item)
        /// The file of a download is complete.
        case finished(Item, DownloadedFile)
        /// A download failed. Its item stays and can be resumed.
        case failed(Item, NetworkError)
        /// A download was removed.
        case removed(Item)
        /// The manager could not write to its folder, so a restart finds a record missing or outdated. Downloads continue.
        case trouble(NetworkError)
    }
}

extension DownloadManager {
    /// What a manager knows of a download besides its item.
    struct Entry {
        var headers: HTTPHeaders
        var options: DownloadOptions
        /// The identity of the content in the last run of this process. The user may have changed since.
        var identity: String?
        /// The complete file, once it is about to get its name.
        var finished: FinishedFile?
        let progress = LatestValue(TransferProgress(direction: .download))
        let outcome = LatestValue<Result<DownloadedFile, NetworkError>?>(nil)

        func finish(_ file: DownloadedFile) {
            progress.finish(
                TransferProgress(direction: .download, completed: file.byteCount, total: file.byteCount))
            outcome.finish(.success(file))
        }
    }
}

/// The part of a download that the manager saves in its folder, so that a later process can continue it.
struct DownloadRecord: Hashable, Sendable {
    static let version = 1
    private static let title = "LATNetworking-download"

    var number: UInt64
    var url: String
    var path: String
    var segments: Int
    var priority: RequestPriority
    var isPaused: Bool
    /// The lines of the headers as name and value; a removal is a name alone.
    var headers: [[String]]
    var existingFile: ExistingFilePolicy
    /// Whether the caller has set ``existingFile``. Records of 1.0 do not say so.
    var choosesExistingFile: Bool
    var digest: DownloadDigest?
    var identity: String?
    var reservesSpace: Bool
    /// The complete file, once it is about to get its name.
    var finished: FinishedFile?

    var fileName: String { Self.fileName(number) }

    static func fileName(_ number: UInt64) -> String { "\(number)\(suffix)" }

    /// The number in the name of a record; `nil` for another name. JSON has no larger ones than that of the type.
    static func number(ofFile name: String) -> UInt64? {
        guard name.hasSuffix(suffix), let number = Int64(name.dropLast(suffix.count)), number >= 0, number < .max
        else { return nil }
        return UInt64(number)
    }

    static let suffix = ".download"

    func encoded() throws -> Data {
        var object: [String: JSONValue] = [
            "number": .int(Int64(clamping: number)), "url": .string(url), "path": .string(path),
            "segments": .int(Int64(segments)), "priority": .int(Int64(priority.rawValue)), "isPaused": .bool(isPaused),
            "headers": .array(headers.map { .array($0.map { .string($0) }) }),
            "existingFile": .string(existingFile.rawValue), "choosesExistingFile": .bool(choosesExistingFile),
            "reservesSpace": .bool(reservesSpace),
        ]
        if let digest { object["digest"] = digest.json }
        if let identity { object["identity"] = .string(identity) }
        if let finished { object["finished"] = finished.json }
        return try ChecksummedText.encode(.object(object), title: Self.title, version: Self.version)
    }
}

extension DownloadRecord {
    /// `nil` if the file is damaged or has another format version.
    init?(decoding data: Data) {
        guard let document = ChecksummedText.decode(data, title: Self.title, version: Self.version),
            let number = document["number"]?.int64, number >= 0, let url = document["url"]?.string,
            let path = document["path"]?.string, let segments = document["segments"]?.int,
            let priority = (document["priority"]?.int).flatMap(RequestPriority.init(rawValue:)),
            let isPaused = document["isPaused"]?.bool, let headers = document["headers"]?.array,
            let existingFile = (document["existingFile"]?.string).flatMap(ExistingFilePolicy.init(rawValue:)),
            let reservesSpace = document["reservesSpace"]?.bool
        else { return nil }
        let lines = headers.compactMap { line in line.array?.compactMap(\.string) }
        self.init(
            number: UInt64(number), url: url, path: path, segments: segments, priority: priority, isPaused: isPaused,
            headers: lines.filter { $0.count == 1 || $0.count == 2 }, existingFile: existingFile,
            choosesExistingFile: document["choosesExistingFile"]?.bool ?? true, identity: document["identity"]?.string,
            reservesSpace: reservesSpace)
        digest = DownloadOptions.Digest(document["digest"])
        finished = FinishedFile(document["finished"])
    }

    init(
        _ item: DownloadManager.Item, headers: HTTPHeaders, options: DownloadOptions, finished: FinishedFile? = nil
    ) {
        self.init(
            number: item.id.number, url: item.url, path: item.path, segments: item.segments, priority: item.priority,
            isPaused: item.state == .paused,
            headers: headers.fields.map { field in field.value.map { [field.name, $0] } ?? [field.name] },
            existingFile: options.existingFile, choosesExistingFile: options.chosenExistingFile != nil,
            digest: options.digest, identity: options.identity,
            reservesSpace: options.reservesSpace, finished: finished)
    }

    /// The file, if an earlier process has completed the download and died before it removed the record.
    var completedFile: DownloadedFile? {
        guard let finished, finished.isThere else { return nil }
        return DownloadedFile(
            path: finished.path, byteCount: finished.size, response: DownloadJob.noResponse(url), isSkipped: false,
            resumedByteCount: finished.size, receivedByteCount: 0, digest: digest?.hexadecimal.lowercased())
    }

    var requestHeaders: HTTPHeaders {
        var all = HTTPHeaders()
        for line in headers {
            if line.count == 2 { all.append(line[0], line[1]) } else { all[line[0]] = nil }
        }
        return all
    }

    /// The saved options, and the manager's hook for new links. A restart always continues from the bytes that are there.
    func options(_ refresh: LinkRefresh?) -> DownloadOptions {
        var options = DownloadOptions()
        options.chosenExistingFile = choosesExistingFile ? existingFile : nil
        options.digest = digest
        options.identity = identity
        options.reservesSpace = reservesSpace
        options.refreshURL = refresh
        return options
    }

    var item: DownloadManager.Item {
        DownloadManager.Item(
            id: .init(number: number), url: url, path: path, segments: segments, priority: priority,
            state: isPaused ? .paused : .waiting, progress: TransferProgress(direction: .download))
    }
}

/// The folder of a manager's records, with one file for each download. Only one manager at a time can use it.
final class DownloadFolder: Sendable {
    private let path: String
    private let lock: Int32
    /// Whether this process still has the lock of the folder. The mutex is locked while a record is written or removed.
    private let isLocked = Mutex(true)
    /// Whether records will be synchronized soon.
    private let isToSynchronize = Atomic<Bool>(false)

    private static let queue = DispatchQueue(label: "LATNetworking.downloads.records", qos: .utility)

    /// Creates the folder if needed, and locks it.
    ///
    /// - Throws: ``NetworkError/Kind/storage``, also when another manager has locked it.
    init(_ path: String) throws(NetworkError) {
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw NetworkError(
                .storage,
                message: "the folder \(URLText.visible(path)) cannot be created: \(NetworkError.reason(of: error))",
                underlying: error)
        }
        let name = path + "/.lock"
        let lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { throw DownloadFiles.system("opened", name) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            close(lock)
            throw NetworkError(
                .storage,
                message: "another download manager uses \(URLText.visible(path)); give each a folder of its own")
        }
        self.path = path
        self.lock = lock
    }

    deinit {
        unlock()
        close(lock)
    }

    /// Releases the lock now, so that another manager can use the folder. Closing the file would not release it while a child
    /// process that has not yet started its program has a copy.
    func unlock() {
        isLocked.withLock { isLocked in
            isLocked = false
            flock(lock, LOCK_UN)
        }
    }

    /// Reads all records, oldest first, and the names of unreadable files. The number of one of these is not free either.
    func load() -> (records: [DownloadRecord], unreadable: [String], lastNumber: UInt64) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        var records: [DownloadRecord] = []
        var unreadable: [String] = []
        for name in names where name.hasSuffix(DownloadRecord.suffix) {
            if let data = DownloadFiles.read(path + "/" + name), let record = DownloadRecord(decoding: data),
                record.fileName == name
            {
                records.append(record)
            } else {
                unreadable.append(name)
            }
        }
        return (
            records.sorted { $0.number < $1.number }, unreadable.sorted(),
            names.compactMap(DownloadRecord.number(ofFile:)).max() ?? 0
        )
    }

    /// - Parameters:
    ///   - isNew: Whether there must be no file of its name.
    ///   - synchronizes: Whether it is on the disk when this returns.
    /// - Throws: ``NetworkError/Kind/storage``; ``NetworkError/Kind/shutDown`` after ``unlock()``.
    func save(
        _ record: DownloadRecord, isNew: Bool = false, synchronizes: Bool = false
    ) throws(NetworkError) {
        do {
            let data = try record.encoded()
            try isLocked.withLock { isLocked in
                guard isLocked else { throw DownloadManager.closed }
                try DownloadFiles.write(
                    data, to: path + "/" + record.fileName, replaces: !isNew, synchronizes: synchronizes)
            }
            synchronizeSoon()
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(.storage, message: "a download's record cannot be encoded: \(error)", underlying: error)
        }
    }

    /// Synchronizes the records that are written until then together. Waiting for the disk with each of them would make
    /// adding thousands of downloads take minutes.
    private func synchronizeSoon() {
        guard !isToSynchronize.exchange(true, ordering: .acquiringAndReleasing) else { return }
        Self.queue.asyncAfter(deadline: .now() + .milliseconds(200)) { [weak self, path] in
            self?.isToSynchronize.store(false, ordering: .releasing)
            AtomicFile.synchronizeFileSystem(of: path)
        }
    }

    /// Removes a record; does nothing after ``unlock()``.
    func remove(_ number: UInt64) {
        isLocked.withLock { isLocked in
            if isLocked { AtomicFile.remove(path + "/" + DownloadRecord.fileName(number)) }
        }
        synchronizeSoon()
    }
}
