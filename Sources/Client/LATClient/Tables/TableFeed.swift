import Cryptography
import DomainTables
import FoundationEssentials
package import HTTPCore
import Platform

/// The place from which a source reads its table: a key of a Redis, or a URL.
package protocol TableFeed: Sendable {
    /// The place as messages show it, without secrets.
    var name: String { get }
    /// What distinguishes the copy of this feed from those of others; may hold secrets.
    var identity: String { get }
    /// The name of the table in positions such as `NAME:12`.
    func tableName(at revision: String) -> String
    /// The key that a signature is checked with, as PEM or base64; `nil` for none.
    var publicKey: String? { get }
    /// The folder of the files that rows may name; `nil` when they may name none.
    var filesFolder: String? { get }
    /// The pause between two reads, without jitter.
    var interval: Duration { get }
    /// What a signature covers besides the bytes.
    func signedHead(of revision: String) -> [UInt8]
    /// Reads the current version, unless it still has the known revision, within a time limit.
    func read(after known: String?, within limit: Duration) async throws(NetworkError) -> TableReading
    /// Calls back when there may be a new version, until the returned value is released; `nil` for a feed that reports no
    /// changes.
    func subscribe(_ onChange: @escaping @Sendable () -> Void) -> (any Sendable)?
    /// Publishes which revision a manager uses. Called after each successful read, and when a wrong signature is reported.
    func report(_ use: TableUse) async
}

extension TableFeed {
    package var identity: String { name }
    package func report(_ use: TableUse) async {}
}

package struct TableUse: Sendable {
    /// A number that distinguishes the managers of a process.
    package var follower: Int
    package var revision: String
    /// Why the newest version is not used; `nil` when it is.
    package var refusal: NetworkError?
    package var isFirst: Bool
}

package enum TableReading: Sendable {
    case unchanged
    case version(TableVersion)
    /// The feed has no newer version that can be used, as the error explains.
    case refused(NetworkError)
}

/// A version of a table as its feed has it, not yet checked.
package struct TableVersion: Sendable {
    package var bytes: [UInt8]
    package var revision: String
    package var signature: [UInt8]?
    /// Who made it, and when; `nil` where that is not known.
    package var note: String?

    package init(bytes: [UInt8], revision: String, signature: [UInt8]? = nil, note: String? = nil) {
        self.bytes = bytes
        self.revision = revision
        self.signature = signature
        self.note = note
    }
}

struct TableOrigin: TableOriginFacts {
    let feed: any TableFeed
    let copy: TableCopy?
    var version: TableVersion
    var isCopy: Bool
    /// Whether the copy on disk has this version.
    var isKept = true

    var name: String { feed.name }

    var revision: String { version.revision }

    var description: String {
        var parts = [feed.name, "revision \(version.revision)"]
        if let note = version.note { parts.append(note) }
        if isCopy { parts.append("the copy on disk") }
        return parts.joined(separator: ", ")
    }
}

extension DomainTable {
    /// Checks a version of a table from a source: its signature, then the whole of its text.
    ///
    /// - Throws: ``NetworkError/Kind/integrity`` for the signature, ``NetworkError/Kind/invalidRequest`` for the text.
    package init(_ version: TableVersion, from feed: any TableFeed) throws(NetworkError) {
        try self.init(version, from: feed, copy: nil, isCopy: false)
    }

    init(
        _ version: TableVersion, from feed: any TableFeed, copy: TableCopy?, isCopy: Bool
    ) throws(NetworkError) {
        guard version.bytes.count <= SourceFile.limit else {
            throw .invalidRequest(
                "the table \(feed.name), revision \(version.revision), is larger than \(SourceFile.limit >> 20) MiB")
        }
        try Self.checkSignature(of: version, from: feed)
        let name = feed.tableName(at: version.revision)
        var contents = try TableContents(
            version.bytes, name: name, folder: feed.filesFolder, files: feed.filesFolder == nil ? .none : .below)
        contents.origin = TableOrigin(feed: feed, copy: copy, version: version, isCopy: isCopy)
        self.init(contents)
    }

    /// - Throws: ``NetworkError/Kind/integrity`` for a missing or wrong signature of a feed that has a public key.
    package static func checkSignature(of version: TableVersion, from feed: any TableFeed) throws(NetworkError) {
        guard let publicKey = feed.publicKey else { return }
        let what = "the table \(feed.name), revision \(version.revision),"
        let key: Ed25519.PublicKey
        do throws(Ed25519.Problem) {
            key = try Ed25519.PublicKey(text: publicKey)
        } catch {
            throw .invalidRequest("the public key of \(feed.name) \(error.reason)")
        }
        guard let signature = version.signature else {
            throw NetworkError(
                .integrity,
                message:
                    "\(what) is not signed, but a public key is given; sign it with the private key that belongs to it")
        }
        guard key.verifies(signature, of: Data(feed.signedHead(of: version.revision) + version.bytes)) else {
            throw NetworkError(
                .integrity,
                message:
                    "\(what) has a signature that does not fit the public key; it was changed in transit, or signed with "
                    + "another key")
        }
    }
}

/// The copy on disk of the last valid version of a table from a source: some lines of comment, then the table as it was.
struct TableCopy: Hashable, Sendable {
    let path: String

    private static let title = "// The last valid copy of a table from a source. Each change replaces it."
    private static let end = "// ----"
    /// The largest table with the lines before it.
    private static let limit = SourceFile.limit + 64 << 10

    /// Returns the version in the file; `nil` when there is none of this feed, or it is not whole.
    ///
    /// - Throws: the reason why the file is not used: without a public key, everybody who may write it could send the requests
    ///   of the program elsewhere.
    func read(_ feed: any TableFeed) throws(OwnFile.Refusal) -> TableVersion? {
        let isVerified = feed.publicKey != nil
        guard
            let bytes = isVerified
                ? try? SourceFile.bytes(of: path, limit: Self.limit) : try OwnFile.bytes(of: path, limit: Self.limit)
        else { return nil }
        var fields: [String: String] = [:]
        var rest = bytes[...]
        while let newline = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: rest[..<newline], as: UTF8.self)
            rest = rest[rest.index(after: newline)...]
            if line == Self.end { break }
            guard line.hasPrefix("// "), fields.count < 16 else { return nil }
            guard let colon = line.firstRange(of: ": ") else { continue }
            fields[String(line[..<colon.lowerBound].dropFirst(3))] = String(line[colon.upperBound...])
        }
        guard fields["source"] == feed.name, let revision = fields["revision"],
            let digest = try? MessageDigest.of(Data(rest), .sha256),
            fields["sha256"] == MessageDigest.hexadecimal(digest)
        else { return nil }
        return TableVersion(
            bytes: Array(rest), revision: revision,
            signature: fields["signature"].flatMap { Data(base64Encoded: $0) }.map { Array($0) }, note: fields["note"])
    }

    func write(_ version: TableVersion, from feed: any TableFeed) async throws(SystemError) {
        let bytes = Array((head(of: version, from: feed) + "\n").utf8) + version.bytes
        let result = await withCheckedContinuation { continuation in
            let write = { @Sendable () in
                continuation.resume(
                    returning: Result<Void, SystemError> { () throws(SystemError) in
                        // If this fails, so does the writing, which says why.
                        try? FileManager.default.createDirectory(
                            atPath: PathParts(path).folder, withIntermediateDirectories: true,
                            attributes: [.posixPermissions: 0o700])
                        try AtomicFile.write(bytes, to: path, isShared: true, followsLinks: false)
                    })
            }
            if !BackgroundThread.start("lat-table", write) { write() }
        }
        try result.get()
    }

    private func head(of version: TableVersion, from feed: any TableFeed) -> String {
        let digest = (try? MessageDigest.of(Data(version.bytes), .sha256)).map { MessageDigest.hexadecimal($0) } ?? ""
        var lines = [
            Self.title, "// source: \(feed.name)", "// revision: \(version.revision)", "// sha256: \(digest)",
        ]
        if let signature = version.signature {
            lines.append("// signature: \(Data(signature).base64EncodedString())")
        }
        if let note = version.note { lines.append("// note: \(note)") }
        return (lines.map(URLText.visible) + [Self.end]).joined(separator: "\n")
    }
}
