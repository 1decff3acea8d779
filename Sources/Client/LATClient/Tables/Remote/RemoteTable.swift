public import CurlTransport
import Cryptography
import DomainTables
import FoundationEssentials
public import HTTPCore
import Platform

extension DomainTable {
    /// A source of a table, other than a file, that is followed while the program runs.
    ///
    /// ```swift
    /// configuration.domains = try await DomainTable(from: .url("https://config.example.org/domains.json5"))
    /// ```
    ///
    /// `.redis(fleet, key:)` of the module `LATFleet` is another one. Each version is checked as a whole before it replaces the
    /// one in use; an invalid one is reported to `configuration.domainsObserver`, and the one in use stays. The last good
    /// version is kept in a file, for a start without the source. Without a public key, the file is used only if it belongs to
    /// this user or root and nobody else may write it.
    ///
    /// Whoever can change the table decides where requests go and what is sent there. Give a public key where others can
    /// write to the source. A table from a source may name no file (CA, client certificate, fixtures) unless `files` names the
    /// folder of these files; then it may name files below that folder, and no others.
    public struct Source: Sendable, CustomStringConvertible {
        package let feed: any TableFeed
        let copy: Copy

        package init(_ feed: any TableFeed, copy: Copy) {
            self.feed = feed
            self.copy = copy
        }

        /// The place, without secrets.
        public var description: String { feed.name }
    }
}

extension DomainTable.Source {
    /// Where the last good version is kept, in a file that only its owner reads.
    public enum Copy: Hashable, Sendable {
        /// In `$XDG_STATE_HOME/<program>/tables`, or `~/.local/state/<program>/tables`; for a URL also by the fields of the request,
        /// so that tenants share none.
        case standard
        /// In this file. Programs with the same source may share it.
        case file(String)
        /// Nowhere: a start needs the source.
        case none
    }

    /// Reads a table from a URL, and asks for changes with `If-None-Match` (RFC 9110 §13.1.2).
    ///
    /// Redirects are not followed. `http://` is refused except to this machine or with a public key. A signature is 64 bytes,
    /// raw or as base64, at the URL with `.sig` behind its path, as `openssl pkeyutl -sign -rawin` makes it; it covers the
    /// bytes of the table.
    ///
    /// - Parameters:
    ///   - url: the URL. Messages show neither its query nor user and password.
    ///   - every: the pause between two requests, with 20 % of jitter. After a failure it is shorter. Default 60 s.
    ///   - publicKey: an Ed25519 key (RFC 8032) in PEM or as base64 of its 32 bytes; then only a signed table is used. Default
    ///     `nil`.
    ///   - headers: fields of each request, such as `Authorization`. Default none.
    ///   - tls: the settings of TLS. Default `TLSConfiguration()`.
    ///   - copy: where the last good version is kept. Default ``Copy/standard``.
    ///   - files: the folder of the files that rows may name. Default `nil`: rows name none.
    public static func url(
        _ url: String, every: Duration = .seconds(60), publicKey: String? = nil, headers: HTTPHeaders = HTTPHeaders(),
        tls: TLSConfiguration = TLSConfiguration(), copy: Copy = .standard, files: String? = nil
    ) -> Self {
        let feed = URLFeed(
            url: url, interval: every, publicKey: publicKey, headers: headers, tls: tls, filesFolder: files)
        return Self(feed, copy: copy)
    }

    var kept: TableCopy? {
        switch copy {
        case .none: return nil
        case .file(let path): return TableCopy(path: path)
        case .standard:
            let process = ProcessInfo.processInfo
            let digest = (try? MessageDigest.of(Data(feed.identity.utf8), .sha256)) ?? []
            return UserFolder.state.path(environment: process.environment, program: process.processName).map {
                TableCopy(path: "\($0)/tables/\(MessageDigest.hexadecimal(digest.prefix(8))).json5")
            }
        }
    }
}

extension DomainTable {
    /// Reads a table from a source. A manager with this table follows the source.
    ///
    /// The source has 10 seconds to answer, or 2 if there is a copy from an earlier start. The copy is used when the source
    /// does not answer or has no valid table. The manager then continues to ask the source.
    ///
    /// - Parameters:
    ///   - source: where the table is.
    ///   - environment: as in ``init(contentsOf:environment:)``.
    /// - Throws: ``NetworkError`` if neither the source nor a copy has a valid table: of the kind
    ///   ``NetworkError/Kind/unknownName`` where the source has none, ``NetworkError/Kind/integrity`` for a wrong signature,
    ///   ``NetworkError/Kind/invalidRequest`` for an invalid table, else the kind of the failure to reach the source. Also
    ///   ``NetworkError/Kind/unknownName`` for an environment that no row has.
    public init(
        from source: Source, environment: String? = DomainTable.environmentOfProcess
    ) async throws(NetworkError) {
        let (feed, place) = (source.feed, source.kept)
        var copy: DomainTable?
        var refusal: OwnFile.Refusal?
        do throws(OwnFile.Refusal) {
            copy = try place?.read(feed).flatMap { version in
                // A copy that is no longer valid, such as after a change of the public key, is ignored.
                try? DomainTable(version, from: feed, copy: place, isCopy: true)
            }
        } catch {
            refusal = error
            place?.warn(error)
        }
        do throws(NetworkError) {
            // Asked with the revision of the copy, so that a restart does not go back to an older one.
            switch try await feed.read(after: copy?.revision, within: copy == nil ? .seconds(10) : .seconds(2)) {
            case .version(let version):
                self = try DomainTable(version, from: feed, copy: place, isCopy: false)
                do throws(SystemError) {
                    try await place?.write(version, from: feed)
                } catch {
                    place?.warn(error)
                    change { contents in
                        var origin = contents.origin as? TableOrigin
                        origin?.isKept = false
                        contents.origin = origin
                    }
                }
            case .refused(let error): throw error
            case .unchanged:
                guard var confirmed = copy else {
                    throw NetworkError(.protocolViolation, message: "\(feed.name) answered with no table")
                }
                confirmed.change { $0.origin?.isCopy = false }
                self = confirmed
            }
        } catch {
            guard let copy else {
                let advice =
                    place.map { place in
                        refusal.map { "the copy \(place.path) is not used, because it \($0.reason)" }
                            ?? "there is no copy of an earlier start in \(place.path)"
                    } ?? "no copy is kept on disk"
                throw NetworkError(
                    error.kind, message: "\(error.message); \(advice)", response: error.response,
                    underlying: error.underlying ?? error)
            }
            self = copy
        }
        try activate(environment)
    }
}

final class URLFeed: TableFeed {
    let name: String
    let interval: Duration
    let publicKey: String?
    let filesFolder: String?
    private let url: String
    private let headers: HTTPHeaders
    private let engines: LazyEngine

    init(
        url: String, interval: Duration, publicKey: String?, headers: HTTPHeaders, tls: TLSConfiguration,
        filesFolder: String?
    ) {
        name = URLParts.redacted(url)
        self.url = url
        self.interval = max(interval, .milliseconds(100))
        self.publicKey = publicKey
        self.headers = headers
        engines = LazyEngine(nil) {
            var configuration = EngineConfiguration()
            configuration.tls = tls
            return try CurlTransport(configuration: configuration)
        }
        self.filesFolder = filesFolder
    }

    /// The fields choose the table too, as where one URL serves several tenants.
    var identity: String {
        let fields = headers.map { "\n\($0.name.lowercased()): \($0.value)" }.sorted()
        return url + fields.joined()
    }

    func tableName(at revision: String) -> String { name }

    func signedHead(of revision: String) -> [UInt8] { [] }

    func subscribe(_ onChange: @escaping @Sendable () -> Void) -> (any Sendable)? { nil }

    func read(after known: String?, within limit: Duration) async throws(NetworkError) -> TableReading {
        try check()
        let end = ContinuousClock.now + limit
        var headers = headers
        // A revision without quotes is not an `ETag`, but a digest that this type made.
        if let known, known.hasSuffix("\"") { headers["If-None-Match"] = known }
        let response = try await get(url, headers, within: limit)
        if response.status == 304 { return .unchanged }
        try Self.checkStatus(response, name)
        let bytes = Array(response.data)
        let revision = response.headers["ETag"] ?? Self.revision(of: bytes)
        if revision == known { return .unchanged }
        // The limit is for the table and its signature together. A timeout of zero would mean no timeout.
        let signature =
            publicKey == nil ? nil : try await signature(within: max(.milliseconds(1), end - ContinuousClock.now))
        return .version(
            TableVersion(
                bytes: bytes, revision: revision, signature: signature, note: response.headers["Last-Modified"]))
    }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a URL that is not safe to use.
    private func check() throws(NetworkError) {
        let address: HTTPAddress
        do throws(HTTPAddress.Problem) {
            address = try HTTPAddress(url)
        } catch {
            throw .invalidRequest("the URL of the table must be \(HTTPAddress.expectation); \(name) \(error.reason)")
        }
        guard address.scheme == "http", publicKey == nil else { return }
        guard HTTPAddress.isThisMachine(address.authority) else {
            throw .invalidRequest(
                "a table from \(name) could be changed in transit; write https://, or give a public key and sign the table"
            )
        }
    }

    private func get(
        _ url: String, _ headers: HTTPHeaders, within limit: Duration
    ) async throws(NetworkError) -> HTTPResponse {
        var request = HTTPRequest("GET", url, headers: headers)
        request.timeout = limit
        request.maxBodySize = Int64(SourceFile.limit)
        do {
            return try await engines.engine().send(request)
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(.cancelled, message: "the task was cancelled while it read \(name)")
        }
    }

    private func signature(within limit: Duration) async throws(NetworkError) -> [UInt8]? {
        let end = url.firstIndex(of: "?") ?? url.endIndex
        let response = try await get(url[..<end] + ".sig" + url[end...], headers, within: limit)
        if response.status == 404 { return nil }
        try Self.checkStatus(response, name + ".sig")
        let bytes = Array(response.data)
        guard bytes.count != Ed25519.signatureByteCount else { return bytes }
        let text = String(decoding: bytes.prefix(256), as: UTF8.self).filter { !$0.isWhitespace }
        // Bytes that are not a signature are reported where the signature is checked.
        return Data(base64Encoded: text).map { Array($0) } ?? bytes
    }

    private static func checkStatus(_ response: HTTPResponse, _ name: String) throws(NetworkError) {
        guard response.status != 200 else { return }
        guard let place = response.headers["Location"], (300..<400).contains(response.status) else {
            let kind = response.status == 404 ? NetworkError.Kind.unknownName : .httpStatus
            throw NetworkError(
                kind, message: "\(name) answered \(response.status); a table comes with 200", response: response)
        }
        throw NetworkError(
            .redirect,
            message:
                "\(name) answered \(response.status) and names \(URLParts.redacted(place)); redirects of a table are not "
                + "followed, so give its own URL", response: response)
    }

    private static func revision(of bytes: [UInt8]) -> String {
        let digest = (try? MessageDigest.of(Data(bytes), .sha256)) ?? []
        return MessageDigest.hexadecimal(digest.prefix(6))
    }
}
