import Cryptography
import FoundationEssentials
import HTTPCore
import LATClient
import ResponseCache

/// The file beside a `.part` file with which a download can be resumed, even after a crash of the process.
///
/// It has a line with name, version and the SHA-256 of the rest, then a JSON document. Bytes are synchronised to the
/// disk before the journal lists them.
struct DownloadJournal: Hashable, Sendable {
    static let version = 1

    /// The identity of the content: its URL, or the name that the app gave it.
    var identity: String
    var validator: ContentValidator?
    /// The content coding of the bytes; `nil` for none.
    var coding: String?
    var total: Int64?
    /// The ranges that are in the `.part` file.
    var done = ByteRanges()
    /// The server's name for the file, if the target is a directory.
    var fileName: String?
    /// The digest of the whole content that its first response announced.
    var digest: DownloadOptions.Digest?

    private static let title = "LATNetworking-download-journal"

    func encoded() throws -> Data {
        var object: [String: JSONValue] = [
            "identity": .string(identity),
            "done": .array(done.ranges.map { [.int($0.lowerBound), .int($0.upperBound)] }),
        ]
        switch validator {
        case .entityTag(let tag, let date):
            object["entityTag"] = .string(tag)
            object["lastModified"] = date.map { .string($0) }
        case .modified(let date): object["lastModified"] = .string(date)
        case nil: break
        }
        if let coding { object["coding"] = .string(coding) }
        if let total { object["total"] = .int(total) }
        if let fileName { object["fileName"] = .string(fileName) }
        if let digest { object["digest"] = digest.json }
        return try ChecksummedText.encode(.object(object), title: Self.title, version: Self.version)
    }
}

extension DownloadJournal {
    /// `nil` if the file is damaged or has another format version.
    init?(decoding data: Data) {
        guard let document = ChecksummedText.decode(data, title: Self.title, version: Self.version),
            let identity = document["identity"]?.string, let done = document["done"]?.array
        else { return nil }
        self.init(identity: identity)
        total = document["total"]?.int64
        coding = document["coding"]?.string
        // The name is checked again, because the file may have been changed since it was written.
        fileName = document["fileName"]?.string.flatMap(FileName.sanitized)
        digest = DownloadOptions.Digest(document["digest"])
        if let tag = document["entityTag"]?.string {
            validator = .entityTag(tag, modified: document["lastModified"]?.string)
        } else {
            validator = document["lastModified"]?.string.map(ContentValidator.modified)
        }
        for range in done {
            guard let start = range[0]?.int64, let end = range[1]?.int64, 0 <= start, start < end,
                end <= total ?? .max
            else { return nil }
            self.done.insert(start..<end)
        }
    }
}

extension DownloadOptions.Digest {
    /// The function and the digits.
    var json: JSONValue { [.string(algorithm.rawValue), .string(hexadecimal)] }

    init?(_ json: JSONValue?) {
        guard let name = json?[0]?.string, let digits = json?[1]?.string, let algorithm = Algorithm(rawValue: name)
        else { return nil }
        self.init(algorithm, digits)
    }
}

/// A JSON document below a line with its title, its version and its SHA-256, so that a truncated document is detected.
enum ChecksummedText {
    static func encode(_ document: JSONValue, title: String, version: Int) throws -> Data {
        let content = try document.data()
        let digest = MessageDigest.hexadecimal(try MessageDigest.of(content, .sha256))
        return Data("\(title) \(version) sha256:\(digest)\n".utf8) + content
    }

    /// `nil` if the document was truncated or changed, or has another title or version.
    static func decode(_ data: Data, title: String, version: Int) -> JSONValue? {
        let line = String(decoding: data.prefix(256).prefix { $0 != 0x0A }, as: UTF8.self)
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        let content = data[(data.firstIndex(of: 0x0A).map { $0 + 1 } ?? data.endIndex)...]
        guard words.count == 3, words[0] == title, words[1] == "\(version)",
            let digest = try? MessageDigest.of(content, .sha256),
            words[2] == "sha256:" + MessageDigest.hexadecimal(digest)
        else { return nil }
        return try? JSONValue(parsing: Data(content))
    }
}
