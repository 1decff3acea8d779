import Cryptography
import Foundation
import Glibc
import LATNetworking
import LATTesting
import Synchronization
import Testing

/// Tables from a URL: the first load, changes, and faults of the server.
@Suite("DomainTable.Source.url", .timeLimit(.minutes(2)))
struct URLTableTests {
    private let directory: TemporaryDirectory
    private let server: MockServer
    /// The content of the server: the table's revision, text and signature.
    private let site = Site()

    private final class Site: Sendable {
        struct Content {
            var text = ""
            var tag: String?
            var signature: Data?
            /// Sent instead of the table.
            var reply: MockReply?
            /// The wait before each reply.
            var delay = Duration.zero
        }

        private let content = Mutex(Content())

        func change(_ change: (inout Content) -> Void) { content.withLock { change(&$0) } }

        func reply(to request: RecordedRequest) -> MockReply {
            honestReply(to: request).delayed(by: content.withLock(\.delay))
        }

        private func honestReply(to request: RecordedRequest) -> MockReply {
            content.withLock { content in
                if request.path.hasSuffix(".sig") {
                    return content.signature.map { .data($0) } ?? .status(404)
                }
                if let reply = content.reply { return reply }
                guard let tag = content.tag else { return .text(content.text) }
                if request.headers["If-None-Match"] == tag { return .status(304).header("ETag", tag) }
                return .text(content.text).header("ETag", tag)
            }
        }
    }

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer()
        server.fallback { [site] in site.reply(to: $0) }
        publish(1)
    }

    private func text(_ port: Int) -> String { "{ domains: { a: { baseURL: \"http://127.0.0.1:\(port)\" } } }\n" }

    private func publish(_ port: Int, signedBy key: Ed25519.PrivateKey? = nil) {
        let signature = try? key?.signature(of: Data(text(port).utf8))
        site.change { $0 = .init(text: text(port), tag: "\"\(port)\"", signature: signature.map { Data($0) }) }
    }

    private var copy: DomainTable.Source.Copy { .file(directory.path(of: "tables/copy.json5")) }

    private func source(publicKey: String? = nil, every: Duration = .milliseconds(100)) -> DomainTable.Source {
        .url(server.url("/domains.json5?token=hidden"), every: every, publicKey: publicKey, copy: copy)
    }

    private func port(_ table: DomainTable) throws -> Int {
        let url = try table.resolve(domain: "a", path: "").baseURLs[0]
        return try #require(url.split(separator: ":").last.flatMap { Int($0) })
    }

    /// A manager that follows the table, and the events of its observer.
    private func follow(_ table: DomainTable) throws -> (CentralRequestManager, AsyncStream<DomainTable.FileEvent>) {
        let (events, continuation) = AsyncStream.makeStream(of: DomainTable.FileEvent.self)
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = table
        configuration.domainsObserver = { continuation.yield($0) }
        return (try CentralRequestManager(configuration: configuration), events)
    }

    private func rejection(_ events: inout AsyncStream<DomainTable.FileEvent>.Iterator) async throws -> NetworkError {
        while let event = await events.next() {
            if case .rejected(let error) = event { return error }
        }
        throw CancellationError()
    }

    /// Waits until the table with this port is loaded, and ignores rejections before it.
    private func expect(
        _ wanted: Int, _ events: inout AsyncStream<DomainTable.FileEvent>.Iterator
    ) async throws {
        while let event = await events.next() {
            if case .reloaded(let table) = event, try port(table) == wanted { return }
        }
        Issue.record("the events have ended")
    }

    private func error(_ source: DomainTable.Source) async -> NetworkError? {
        do throws(NetworkError) {
            _ = try await DomainTable(from: source, environment: nil)
            return nil
        } catch {
            return error
        }
    }

    // MARK: The copy on disk

    private var copyPath: String { directory.path(of: "tables/copy.json5") }

    private func mode(_ path: String) -> mode_t {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
    }

    @Test func looseCopyIsNotUsed() async throws {
        _ = try await DomainTable(from: source(), environment: nil)
        #expect(mode(copyPath) == 0o600)
        chmod(copyPath, 0o666)
        site.change { $0.reply = .status(500) }
        let message = try #require(await error(source())).message
        #expect(
            message.hasSuffix(
                "the copy \(copyPath) is not used, because it may be written by others (mode 666); remove it, or use "
                    + "chmod go-w if it is right"), "\(message)")
        // The next version replaces the file.
        publish(2)
        _ = try await DomainTable(from: source(), environment: nil)
        #expect(mode(copyPath) == 0o600)
        site.change { $0.reply = .status(500) }
        #expect(try await port(DomainTable(from: source(), environment: nil)) == 2)
    }

    @Test(.enabled(if: geteuid() == 0, "only root may give files away")) func copyOfAnotherUserIsNotUsed() async throws
    {
        _ = try await DomainTable(from: source(), environment: nil)
        #expect(chown(copyPath, 12_345, 12_345) == 0)
        site.change { $0.reply = .status(500) }
        let message = try #require(await error(source())).message
        #expect(message.contains("is not used, because it belongs to another user (uid 12345)"), "\(message)")
    }

    @Test func copyIsNotWrittenThroughALink() async throws {
        let victim = try directory.write(Data("kept".utf8), to: "victim")
        try directory.write(Data(), to: "tables/x")
        #expect(symlink(victim, copyPath) == 0)
        _ = try await DomainTable(from: source(), environment: nil)
        #expect(directory.read("victim") == Data("kept".utf8))
        var status = stat()
        #expect(lstat(copyPath, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && mode(copyPath) == 0o600)
    }

    /// The signature shows who wrote it.
    @Test func signedLooseCopyIsUsed() async throws {
        let key = try Ed25519.PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        publish(1, signedBy: key)
        let source = source(publicKey: try key.publicKey().text)
        _ = try await DomainTable(from: source, environment: nil)
        chmod(copyPath, 0o666)
        site.change { $0.reply = .status(500) }
        #expect(try await DomainTable(from: source, environment: nil).isCopy)
    }

    // MARK: First load

    @Test func tableNamesItsSourceAndRevision() async throws {
        let table = try await DomainTable(from: source(), environment: nil)
        #expect(try port(table) == 1)
        #expect(table.source == server.url("/domains.json5") + "?…" && table.revision == "\"1\"")
        #expect(!table.isCopy && table.path == nil)
        let explained = table.explain("a")
        #expect(explained.contains("table    \(server.url("/domains.json5"))?…, revision \"1\""))
        #expect(!explained.contains("hidden"))
    }

    @Test func firstLoadWithoutAnythingSaysWhatToDo() async throws {
        site.change { $0.reply = .status(404) }
        let error = try #require(await error(source()))
        #expect(error.kind == .unknownName && error.response?.status == 404)
        #expect(
            error.message.contains("answered 404") && error.message.contains("there is no copy of an earlier start in ")
        )
    }

    @Test func copyIsUsedWithoutTheServer() async throws {
        _ = try await DomainTable(from: source(), environment: nil)
        var status = stat()
        #expect(stat(directory.path(of: "tables/copy.json5"), &status) == 0 && status.st_mode & 0o777 == 0o600)
        site.change { $0.reply = MockReply.text("").droppingConnection() }
        let table = try await DomainTable(from: source(), environment: nil)
        #expect(try port(table) == 1)
        #expect(table.isCopy && table.revision == "\"1\"" && table.explain("a").contains("the copy on disk"))
        // The server responds again, with another version.
        let (manager, events) = try follow(table)
        publish(2)
        var iterator = events.makeAsyncIterator()
        try await expect(2, &iterator)
        #expect(manager.domains?.isCopy == false)
        #expect(try port(try DomainTable(contentsOf: directory.path(of: "tables/copy.json5"), environment: nil)) == 2)
    }

    @Test func confirmedCopyIsTheTable() async throws {
        _ = try await DomainTable(from: source(), environment: nil)
        site.change { $0.reply = .status(500) }
        let table = try await DomainTable(from: source(), environment: nil)
        #expect(table.isCopy)
        let (manager, _) = try follow(table)
        site.change { $0.reply = nil }
        while manager.domains?.isCopy != false { try await Task.sleep(for: .milliseconds(10)) }
        #expect(manager.domains?.revision == "\"1\"")
    }

    @Test(arguments: ["cut", "changed", "of another source"]) func damagedCopyIsNotUsed(_ how: String) async throws {
        _ = try await DomainTable(from: source(), environment: nil)
        var bytes = try #require(directory.read("tables/copy.json5"))
        switch how {
        case "cut": bytes.removeLast(3)
        case "changed": bytes[bytes.count - 10] ^= 1
        default:
            let text = String(decoding: bytes, as: UTF8.self).replacing("// source: http", with: "// source: https")
            bytes = Data(text.utf8)
        }
        _ = try directory.write(bytes, to: "tables/copy.json5")
        site.change { $0.reply = .status(500) }
        #expect(await error(source())?.kind == .httpStatus)
    }

    @Test func copyIsUsedWhenTheServerIsSilent() async throws {
        _ = try await DomainTable(from: source(), environment: nil)
        site.change { $0.reply = MockReply.text("").stalling(.start) }
        #expect(try await DomainTable(from: source(), environment: nil).isCopy)
    }

    @Test func followingEndsWithTheManager() async throws {
        do {
            let (manager, events) = try follow(try await DomainTable(from: source(), environment: nil))
            var iterator = events.makeAsyncIterator()
            publish(2)
            try await expect(2, &iterator)
            _ = manager
        }
        // The engine of the source ends with its last follower.
        try await server.waitUntilDisconnected()
        let count = server.requestCount
        // During several periods of the source nothing may happen, so there is no event to wait for.
        try await Task.sleep(for: .milliseconds(500))
        #expect(server.openConnections == 0 && server.requestCount == count)
    }

    @Test func invalidTableAtTheStartIsThrownWithItsLine() async throws {
        site.change { $0.text = "{ domains: { a: { basURL: 1 } } }" }
        let error = try #require(await error(source()))
        #expect(error.kind == .invalidRequest && error.message.contains("domains.json5?…:1:"))
        #expect(error.message.contains("did you mean \"baseURL\"?"))
    }

    @Test func tableFromElsewhereNamesNoFiles() async throws {
        let text = "{ domains: { a: { baseURL: \"https://h\", tls: { caFile: \"ca.pem\" } } } }"
        site.change { $0.text = text }
        #expect(await error(source())?.message.contains("names the file \"ca.pem\"") == true)
        let allowed = DomainTable.Source.url(server.url("/t"), copy: .none, files: directory.path)
        let table = try await DomainTable(from: allowed, environment: nil)
        #expect(table.explain("a").contains("\(directory.path)/ca.pem"))
    }

    @Test(
        arguments: [
            "http://config.example.org/t", "ftp://h/t", "config", "http://127.evil.example/t",
            "http://127.0.0.1.evil.example/t", "http://localhost.evil.example:80/t", "http://10.0.0.1/t",
            "http://[64:ff9b::127.0.0.1]/t",
        ])
    func unsafeURLIsRefused(_ url: String) async throws {
        let error = try #require(await error(.url(url, copy: .none)))
        #expect(error.kind == .invalidRequest)
        #expect(url.hasPrefix("http:") == error.message.contains("write https://"))
    }

    @Test(arguments: ["127.0.0.2", "localhost", "[::1]"]) func ownMachineNeedsNoTLS(_ host: String) async throws {
        let closed = try ClosedPort()
        let error = try #require(await error(.url("http://\(host):\(closed.port)/t", copy: .none)))
        #expect(error.kind != .invalidRequest, "\(error)")
    }

    @Test func redirectsAndHugeTablesAreRefused() async throws {
        let other = try MockServer()
        other.fallback { _ in .text("{ domains: { a: { baseURL: \"http://evil\" } } }") }
        site.change { [other] in $0.reply = .redirect(to: other.url("/t?secret=1")) }
        let error = try #require(await error(source()))
        #expect(
            error.kind == .redirect && error.message.contains("are not followed") && !error.message.contains("secret"))
        #expect(other.requestCount == 0)
        site.change { $0.reply = .pattern(byteCount: 9 << 20) }
        #expect(await self.error(source())?.kind == .bodyTooLarge)
        site.change { [text = text(2)] in $0.reply = MockReply.text(text).closing(afterBytes: 20) }
        #expect(await self.error(source())?.kind == .connectionLost)
    }

    // MARK: Changes

    @Test func changesArriveAndUnchangedCostsOneStatus() async throws {
        let (manager, events) = try follow(try await DomainTable(from: source(), environment: nil))
        var iterator = events.makeAsyncIterator()
        publish(2)
        try await expect(2, &iterator)
        #expect(manager.domains?.revision == "\"2\"")
        let asked = server.requests.last?.headers["If-None-Match"]
        #expect(asked == "\"1\"" || asked == "\"2\"")
        // Without an entity tag, a digest shows whether the table has changed.
        site.change { $0.tag = nil }
        try await expect(2, &iterator)
        site.change { $0.text = text(3) }
        try await expect(3, &iterator)
        #expect(manager.domains?.revision?.contains("\"") == false)
    }

    private static let nginx = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_HTTP"]
    /// Where nginx logs the path and the status of each request below `/transfers/`.
    private static let log = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_TRANSFERS"]

    @Test(.enabled(if: nginx != nil && log != nil, "needs the nginx of scripts/test"))
    func fileOfNginxIsFollowed() async throws {
        let (nginx, log) = (try #require(Self.nginx), try #require(Self.log))
        let name = "table-\(UInt64.random(in: 0 ... .max)).json5"
        let publisher = try CentralRequestManager()
        func put(_ port: Int) async throws {
            _ = try await publisher.startRequest("PUT", "\(nginx)/dav/\(name)", body: .text(text(port)))
        }
        try await put(1)
        let source = DomainTable.Source.url("\(nginx)/transfers/\(name)", every: .milliseconds(100), copy: copy)
        let (manager, events) = try follow(try await DomainTable(from: source, environment: nil))
        let first = try #require(manager.domains)
        #expect(try port(first) == 1 && first.revision?.hasPrefix("\"") == true)
        // A check transfers no more than a 304.
        while try !String(contentsOfFile: log, encoding: .utf8).contains("/transfers/\(name) 304 0 ") {
            try await Task.sleep(for: .milliseconds(10))
        }
        // nginx makes the entity tag from the modification time in seconds and the size, so the new size differs.
        try await put(20)
        var iterator = events.makeAsyncIterator()
        try await expect(20, &iterator)
        #expect(manager.domains?.revision != first.revision)
        _ = try await publisher.startRequest("DELETE", "\(nginx)/dav/\(name)")
    }

    @Test func invalidChangeIsRejectedAndTheOldStays() async throws {
        let (manager, events) = try follow(try await DomainTable(from: source(), environment: nil))
        var iterator = events.makeAsyncIterator()
        try manager.updateDomains { try $0.setBaseURL("http://127.0.0.1:99", forDomain: "a") }
        site.change { $0 = .init(text: "{ domains: 5 }", tag: "\"bad\"") }
        let error = try await rejection(&iterator)
        #expect(error.kind == .invalidRequest && error.message.contains("domains.json5?…:1:12"))
        #expect(manager.domains?.revision == "\"1\"")
        publish(3)
        try await expect(99, &iterator)
        try manager.updateDomains { $0.discardChanges() }
        #expect(try port(try #require(manager.domains)) == 3)
    }

    @Test func failingServerIsReportedOnce() async throws {
        let (manager, events) = try follow(try await DomainTable(from: source(), environment: nil))
        var iterator = events.makeAsyncIterator()
        site.change { $0.reply = .status(503) }
        let error = try await rejection(&iterator)
        #expect(error.kind == .httpStatus && error.message.contains("answered 503"))
        #expect(try port(try #require(manager.domains)) == 1)
        publish(2)
        // No further rejection comes before the next table.
        guard case .reloaded(let table)? = await iterator.next() else { return #expect(Bool(false), "reported twice") }
        #expect(try port(table) == 2)
    }

    // MARK: Signatures

    @Test func onlyASignedTableIsUsed() async throws {
        let key = try Ed25519.PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        let stranger = try Ed25519.PrivateKey(seed: [UInt8](repeating: 8, count: 32))
        let source = source(publicKey: try key.publicKey().text)
        #expect(await error(source)?.message.contains("is not signed") == true)
        publish(1, signedBy: stranger)
        #expect(await error(source)?.kind == .integrity)
        publish(1, signedBy: key)
        let (manager, events) = try follow(try await DomainTable(from: source, environment: nil))
        var iterator = events.makeAsyncIterator()
        // The new table has a wrong signature at first. It is rejected, and used once the right signature is there.
        publish(2, signedBy: stranger)
        #expect(try await rejection(&iterator).kind == .integrity)
        #expect(try port(try #require(manager.domains)) == 1)
        let good = try key.signature(of: Data(text(2).utf8))
        site.change { $0.signature = Data(Data(good).base64EncodedString().utf8) }
        try await expect(2, &iterator)
        // The copy is signed too, and is not used with another key.
        site.change { $0.reply = .status(500) }
        #expect(try await DomainTable(from: source, environment: nil).isCopy)
        let other = self.source(publicKey: try stranger.publicKey().text)
        #expect(await error(other)?.kind == .httpStatus)
    }

    /// Each reply alone would arrive within the limit.
    @Test func tableAndSignatureShareTheLimit() async throws {
        let key = try Ed25519.PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        publish(1, signedBy: key)
        site.change { $0.delay = .milliseconds(400) }
        let feed = source(publicKey: try key.publicKey().text).feed
        let error = await #expect(throws: NetworkError.self) {
            try await feed.read(after: nil, within: .milliseconds(600))
        }
        #expect(error?.kind == .timeout(.total))
    }

    @Test func unusablePublicKeyIsReported() async throws {
        let error = try #require(await error(source(publicKey: "AAAA")))
        #expect(error.message.contains("has 3 bytes; an Ed25519 key has 32"))
    }
}
