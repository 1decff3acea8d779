import FoundationEssentials
import HTTPCore

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
