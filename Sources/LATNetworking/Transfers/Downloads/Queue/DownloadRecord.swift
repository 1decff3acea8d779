import FoundationEssentials
import Glibc
public import HTTPCore
import Platform

/// A download in the hands of a ``DownloadManager``, as it is at one moment.
public struct DownloadItem: Sendable, Identifiable {
    /// Names the download in its manager, also after the process was started again.
    public struct ID: Hashable, Sendable, CustomStringConvertible {
        /// Counts up in the order of adding.
        let number: UInt64

        /// The number.
        public var description: String { "\(number)" }
    }

    /// What a download in a queue does.
    public enum State: Hashable, Sendable {
        /// It waits for its turn.
        case waiting
        /// It goes on.
        case running
        /// It stands still until ``DownloadManager/resume(_:)``.
        case paused
        /// It ended with an error, which this tells in a sentence. ``DownloadManager/resume(_:)`` tries again.
        case failed(String)
        /// The file is there. Finished downloads are not remembered over a restart of the process.
        case finished
    }

    /// Names it.
    public let id: ID
    /// The URL it was added with.
    public let url: String
    /// The file or folder it goes to.
    public let path: String
    /// Its connections.
    public let segments: Int
    /// Its place in the queue: higher ones start first, of equal ones those that were added first.
    public internal(set) var priority: RequestPriority
    /// What it does.
    public internal(set) var state: State
    /// How far it is.
    public internal(set) var progress: DownloadProgress
}

/// What happens in a ``DownloadManager``.
public enum DownloadEvent: Sendable {
    /// A download was added, or found again after a restart of the process.
    case added(DownloadItem)
    /// A download does something else than before. Its progress is told by ``DownloadManager/progress(of:)``.
    case changed(DownloadItem)
    /// A file is there.
    case finished(DownloadItem, DownloadedFile)
    /// A download ended with an error; its item stays, and can be resumed.
    case failed(DownloadItem, NetworkError)
    /// A download was taken out.
    case removed(DownloadItem)
    /// Something of the manager's own could not be written or read: its folder no longer tells what a restart needs to
    /// know. Downloads go on.
    case trouble(NetworkError)
}

/// What a manager keeps of a download in its folder, so that a later process can go on with it.
struct DownloadRecord: Hashable, Sendable {
    static let version = 1
    private static let title = "LATNetworking-download"

    var number: UInt64
    var url: String
    var path: String
    var segments: Int
    var priority: RequestPriority
    /// Whether it stands still until somebody resumes it.
    var isPaused: Bool
    var headers: [[String]]
    var existingFile: ExistingFilePolicy
    var digest: DownloadDigest?
    var identity: String?
    var reservesSpace: Bool

    /// The name of its file.
    var fileName: String { Self.fileName(number) }

    static func fileName(_ number: UInt64) -> String { "\(number).download" }

    func encoded() throws -> Data {
        var object: [String: JSONValue] = [
            "number": .int(Int64(clamping: number)), "url": .string(url), "path": .string(path),
            "segments": .int(Int64(segments)), "priority": .int(Int64(priority.rawValue)), "isPaused": .bool(isPaused),
            "headers": .array(headers.map { .array($0.map { .string($0) }) }),
            "existingFile": .string(existingFile.rawValue), "reservesSpace": .bool(reservesSpace),
        ]
        if let digest { object["digest"] = [.string(digest.algorithm.rawValue), .string(digest.hexadecimal)] }
        if let identity { object["identity"] = .string(identity) }
        return try SealedText.seal(.object(object), title: Self.title, version: Self.version)
    }

    /// `nil` for a file that is damaged or of another version.
    init?(decoding data: Data) {
        guard let document = try? SealedText.open(data, title: Self.title, version: Self.version),
            let number = document["number"]?.int64, number >= 0, let url = document["url"]?.string,
            let path = document["path"]?.string, let segments = document["segments"]?.int,
            let priority = (document["priority"]?.int).flatMap(RequestPriority.init(rawValue:)),
            let isPaused = document["isPaused"]?.bool, let headers = document["headers"]?.array,
            let existingFile = (document["existingFile"]?.string).flatMap(ExistingFilePolicy.init(rawValue:)),
            let reservesSpace = document["reservesSpace"]?.bool
        else { return nil }
        self.number = UInt64(number)
        self.url = url
        self.path = path
        self.segments = segments
        self.priority = priority
        self.isPaused = isPaused
        self.headers = headers.compactMap { line in line.array?.compactMap(\.string) }.filter { $0.count == 2 }
        self.existingFile = existingFile
        self.reservesSpace = reservesSpace
        identity = document["identity"]?.string
        if let name = document["digest"]?[0]?.string, let digits = document["digest"]?[1]?.string,
            let algorithm = DownloadDigest.Algorithm(rawValue: name)
        {
            digest = DownloadDigest(algorithm, digits)
        }
    }

    init(
        _ item: DownloadItem, headers: HTTPHeaders, options: DownloadOptions
    ) {
        number = item.id.number
        url = item.url
        path = item.path
        segments = item.segments
        priority = item.priority
        isPaused = item.state == .paused
        self.headers = headers.map { [$0.name, $0.value] }
        existingFile = options.existingFile
        digest = options.digest
        identity = options.identity
        reservesSpace = options.reservesSpace
    }

    /// The options it was added with; the hook for new links is the manager's.
    func options(_ refresh: LinkRefresh?) -> DownloadOptions {
        var options = DownloadOptions()
        options.existingFile = existingFile
        options.digest = digest
        options.identity = identity
        options.reservesSpace = reservesSpace
        options.refreshURL = refresh
        return options
    }

    /// The download that it tells of.
    var item: DownloadItem {
        DownloadItem(
            id: .init(number: number), url: url, path: path, segments: segments, priority: priority,
            state: isPaused ? .paused : .waiting, progress: DownloadProgress())
    }
}

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

    deinit { close(lock) }

    /// Lets another manager have it, now.
    func unlock() { flock(lock, LOCK_UN) }

    /// The records, oldest first, and the names of files that tell nothing.
    func load() -> (records: [DownloadRecord], unreadable: [String]) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        var records: [DownloadRecord] = []
        var unreadable: [String] = []
        for name in names where name.hasSuffix(".download") {
            if let data = DownloadFiles.read(path + "/" + name), let record = DownloadRecord(decoding: data),
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
            try DownloadFiles.write(try record.encoded(), to: path + "/" + record.fileName)
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(.storage, message: "a download cannot be put into words: \(error)", underlying: error)
        }
    }

    func remove(_ number: UInt64) { AtomicFile.remove(path + "/" + DownloadRecord.fileName(number)) }
}
