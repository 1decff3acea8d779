import Cryptography
import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import CurlTransport

extension Trait where Self == ConditionTrait {
    /// Skips a test without libzstd, which decodes `zstd` and `dcz`.
    static var needsZstd: Self { .enabled(if: LibcurlInfo.current.features.contains("zstd"), "needs libzstd") }
}

/// Stored responses as compression dictionaries (RFC 9842), with a server that does what no honest one does, too.
@Suite(.timeLimit(.minutes(2)), .needsZstd) struct DictionaryTests {
    private static let old = String(repeating: "The quick brown fox jumps over the lazy dog. ", count: 20)
    private static let new = String(repeating: "The quick brown fox jumps over the lazy cat. ", count: 20)
    /// The new text, referring to the old one; a frame of python-zstandard.
    private static let frame = Data(base64Encoded: "KLUv/WSEAn0AADBUY2F0LiACAFRBpWCp2KykmaY=") ?? Data()
    private static let magic = Data([0x5E, 0x2A, 0x4D, 0x18, 0x20, 0, 0, 0])
    private static let digest = (try? MessageDigest.of(Data(old.utf8), .sha256)).map { Data($0) } ?? Data()
    private static let offer = ":\(digest.base64EncodedString()):"
    private static let body = magic + digest + frame

    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.fallback { request in Self.reply(to: request) }
    }

    private static func first(_ control: String = "max-age=3600", match: String = "/app/*/main.js") -> MockReply {
        .text(old).header("Cache-Control", control).header("Use-As-Dictionary", "match=\"\(match)\", id=\"v1\"")
    }

    private static func coded(_ body: Data = body, _ coding: String = "dcz") -> MockReply {
        .data(body).header("Content-Encoding", coding).header("Cache-Control", "max-age=3600")
            .header("Vary", "accept-encoding, available-dictionary")
    }

    /// The old text at `/app/1/main.js`, and the new one elsewhere.
    private static func reply(to request: RecordedRequest) -> MockReply {
        if request.path == "/app/1/main.js" { return first() }
        guard request.headers["Available-Dictionary"] == offer else {
            return .text(new).header("Cache-Control", "max-age=3600").header(
                "Vary", "accept-encoding, available-dictionary")
        }
        return coded()
    }

    private static func manager(
        _ policy: CachePolicy = .http, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try CentralRequestManager.caching(policy) {
            $0.usesDictionaries = true
            $0.retries = 0
            change(&$0)
        }
    }

    private func get(
        _ manager: CentralRequestManager, _ path: String, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> HTTPResponse {
        var request = HTTPRequest("GET", server.url(path))
        change(&request)
        return try await manager.startRequest(request)
    }

    /// The dictionary that the last request has offered.
    private var offered: String? { server.requests.last?.headers["Available-Dictionary"] }

    // MARK: Offering

    /// More removed ones than are looked up for a request hide no other.
    @Test func removedDictionariesHideNoOther() async throws {
        let manager = try Self.manager()
        server.route("GET", "/app/old") { request in Self.first(match: "/app/2/main.*") }
        for number in 1...6 { _ = try await get(manager, "/app/old?\(number)") }
        try await manager.cache.removeAll()
        server.route("GET", "/app/general") { _ in Self.first(match: "/app/*") }
        _ = try await get(manager, "/app/general")
        try await eventually("the dictionary is offered") {
            _ = try await get(manager, "/app/2/main.\(server.requestCount)")
            return offered == Self.offer
        }
    }

    @Test(arguments: [false, true]) func storedResponseIsDictionaryOfTheNext(streams: Bool) async throws {
        let manager = try Self.manager()
        #expect(try await get(manager, "/app/1/main.js").text == Self.old)
        let first = try #require(server.requests.last?.headers)
        #expect(!first.contains("Available-Dictionary") && first["Accept-Encoding"]?.contains("dcz") == false)

        let response = try await get(manager, "/app/2/main.js") { $0.streamsBody = streams }
        #expect(try await response.body.collect(upTo: 1 << 20) == Data(Self.new.utf8))
        #expect(response.source == .network && response.headers["Content-Encoding"] == "dcz")
        let fields = try #require(server.requests.last?.headers)
        #expect(fields["Available-Dictionary"] == Self.offer && fields["Dictionary-ID"] == "\"v1\"")
        #expect(fields["Accept-Encoding"] == (first["Accept-Encoding"] ?? "") + ", dcz")
        let statistics = manager.cache.statistics
        #expect(statistics.dictionaryResponses == 1)
        #expect(statistics.dictionarySavedBytes == Int64(Self.new.utf8.count - Self.body.count))
        #expect(
            statistics.description.hasSuffix("1 with a dictionary (\(statistics.dictionarySavedBytes) bytes saved)"))

        // The decoded response is stored, and found whichever dictionary there is: `Vary` names what the caller did not choose.
        try await manager.cache.remove(.url(server.url("/app/1/main.js")))
        let count = server.requestCount
        for changes in [nil, false] {
            let again = try await get(manager, "/app/2/main.js") { $0.usesDictionaries = changes }
            #expect(again.text == Self.new && again.source == .memoryCache)
        }
        #expect(server.requestCount == count)
        // What was removed is not offered.
        _ = try await get(manager, "/app/3/main.js")
        #expect(offered == nil)
    }

    @Test func nothingIsOfferedUnlessAsked() async throws {
        let off = try CentralRequestManager.caching(.http)
        for number in 1...2 { _ = try await get(off, "/app/\(number)/main.js") }
        #expect(offered == nil)
        let manager = try Self.manager()
        _ = try await get(manager, "/app/1/main.js")
        _ = try await get(manager, "/app/2/main.js") { $0.usesDictionaries = false }
        #expect(offered == nil)
        // Under other policies the app says how long a response may be used.
        for policy in [CachePolicy.cacheElseNetwork(.forever), .networkOnly, .networkElseCache] {
            _ = try await get(manager, "/app/3/main.js") { $0.cachePolicy = policy }
            #expect(offered == nil)
        }
        // Another path, and another kind of request.
        _ = try await get(manager, "/other")
        #expect(offered == nil)
        for (name, value) in [("Range", "bytes=0-9"), ("Accept-Encoding", "gzip"), ("Cache-Control", "no-store")] {
            _ = try? await get(manager, "/app/4/main.js") { $0.headers[name] = value }
            #expect(offered == nil, "\(name)")
        }
        // Other servers may have the same URLs.
        _ = try await get(manager, "/app/host/main.js") { $0.headers["Host"] = "b.example" }
        #expect(offered == nil)
        _ = try await get(manager, "/app/5/main.js") { $0.method = .head }
        #expect(offered == nil)
        let directory = try TemporaryDirectory()
        _ = try await manager.download(server.url("/app/6/main.js"), to: directory.path + "/main.js").value
        #expect(offered == nil)
        #expect(manager.cache.statistics.dictionaryResponses == 0)
        // It was there all the time.
        _ = try await get(manager, "/app/7/main.js")
        #expect(offered == Self.offer)
    }

    @Test(arguments: [
        ("no-store", nil), ("no-cache, max-age=3600", nil), ("max-age=0", nil), ("max-age=3600", offer),
        ("max-age=0, stale-while-revalidate=60", offer), ("private, max-age=3600", offer),
    ]) func responseServesAsLongAsItMayBeUsed(control: String, expected: String?) async throws {
        let manager = try Self.manager()
        server.enqueue(Self.first(control))
        _ = try await get(manager, "/app/1/main.js")
        _ = try await get(manager, "/app/2/main.js")
        #expect(offered == expected)
    }

    @Test func confirmedResponseServesAgain() async throws {
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock) { $0.usesDictionaries = true }
        server.enqueue(Self.first().header("ETag", "\"1\""))
        _ = try await get(manager, "/app/1/main.js")
        clock.advance(by: 3_601)
        _ = try await get(manager, "/app/2/main.js")
        #expect(offered == nil)
        server.enqueue(MockReply.status(304).header("ETag", "\"1\"").header("Cache-Control", "max-age=3600"))
        #expect(try await get(manager, "/app/1/main.js").source == .revalidated)
        _ = try await get(manager, "/app/3/main.js")
        #expect(offered == Self.offer)
    }

    /// A resource is its own dictionary when it changes.
    @Test func reloadOffersTheStoredVersion() async throws {
        let manager = try Self.manager()
        server.enqueue(Self.first(match: "/*"), Self.coded())
        _ = try await get(manager, "/data")
        let changed = try await get(manager, "/data") { $0.headers["Cache-Control"] = "no-cache" }
        #expect(offered == Self.offer && changed.text == Self.new)
        #expect(try await get(manager, "/data").text == Self.new)
    }

    @Test func everyUserHasDictionariesOfItsOwn() async throws {
        let manager = try Self.manager()
        func get(_ path: String, _ user: String?, _ partition: String? = nil) async throws -> String? {
            _ = try await self.get(manager, path) {
                $0.headers["Authorization"] = user
                $0.cachePartition = partition
            }
            return offered
        }
        _ = try await get("/app/1/main.js", "alice")
        #expect(try await get("/app/2/main.js", "bob") == nil)
        #expect(try await get("/app/3/main.js", nil) == nil)
        #expect(try await get("/app/4/main.js", "alice") == Self.offer)
        #expect(try await get("/app/5/main.js", "alice", "work") == nil)
        _ = try await get("/app/1/main.js", "alice", "work")
        #expect(try await get("/app/6/main.js", "bob", "work") == Self.offer)
        #expect(try await get("/app/7/main.js", "bob", "home") == nil)
        // What is for everybody serves everybody.
        server.enqueue(Self.first("public, max-age=3600"))
        _ = try await get("/app/1/main.js", "carol")
        for user in ["dave", nil] { #expect(try await get("/app/8/main.js", user) == Self.offer) }
    }

    @Test func redirectToAnotherOriginOffersNothing() async throws {
        let other = try MockServer()
        other.fallback { _ in .text("elsewhere") }
        let manager = try Self.manager()
        _ = try await get(manager, "/app/1/main.js")
        server.enqueue(.redirect(to: other.url("/app/2/main.js")))
        #expect(try await get(manager, "/app/2/main.js").text == "elsewhere")
        #expect(offered == Self.offer)
        let fields = try #require(other.requests.last?.headers)
        #expect(!fields.contains("Available-Dictionary") && !fields.contains("Dictionary-ID"))
        #expect(fields["Accept-Encoding"]?.contains("dcz") == false)
    }

    /// An interceptor, or a hedged request, may choose another server for a request that the cache has seen.
    @Test func requestMovedToAnotherOriginOffersNothing() async throws {
        let other = try MockServer()
        other.fallback { _ in .text("elsewhere") }
        let manager = try Self.manager { $0.networkInterceptors = [Moving(url: other.url("/app/2/main.js"))] }
        for path in ["/app/1/main.js", "/app/2/main.js"] { _ = try await get(manager, path) }
        #expect(offered == Self.offer)
        #expect(try await get(manager, "/app/moved/main.js").text == "elsewhere")
        let fields = try #require(other.requests.last?.headers)
        #expect(!fields.contains("Available-Dictionary") && fields["Accept-Encoding"]?.contains("dcz") == false)
    }

    private struct Moving: Interceptor {
        let url: String

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            if request.url.contains("moved") { request.url = url }
            return try await next(request)
        }
    }

    @Test func dictionariesAreFoundAfterRestart() async throws {
        let directory = try TemporaryDirectory()
        func manager(version: Int = 1) throws -> CentralRequestManager {
            try Self.manager {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path
                $0.cacheVersion = version
            }
        }
        let first = try manager()
        _ = try await get(first, "/app/1/main.js") { $0.headers["Authorization"] = "alice" }
        await first.shutdown()
        let second = try manager()
        _ = try await get(second, "/app/2/main.js") { $0.headers["Authorization"] = "bob" }
        #expect(offered == nil)
        let response = try await get(second, "/app/3/main.js") { $0.headers["Authorization"] = "alice" }
        #expect(offered == Self.offer && response.text == Self.new)
        await second.shutdown()
        let third = try manager(version: 2)
        _ = try await get(third, "/app/4/main.js") { $0.headers["Authorization"] = "alice" }
        #expect(offered == nil)
        await third.shutdown()
    }

    @Test func explanationNamesTheDictionary() async throws {
        let manager = try Self.manager()
        #expect(try await manager.cache.explain(server.url("/app/2/main.js")).dictionary == nil)
        _ = try await get(manager, "/app/1/main.js")
        let explanation = try await manager.cache.explain(server.url("/app/2/main.js"))
        let line =
            "dictionary  \(server.url("/app/1/main.js")), \(Self.old.utf8.count) bytes, for match=\"/app/*/main.js\", "
        #expect(explanation.dictionary?.url == server.url("/app/1/main.js") && "\(explanation)".contains(line))
        // A response from the cache needs none.
        #expect(try await manager.cache.explain(server.url("/app/1/main.js")).dictionary == nil)
        #expect(server.requestCount == 1)
    }

    @Test(arguments: ["/(.*)", "https://other.example/*", "/a/**"])
    func patternThatIsNotUnderstoodIsCounted(match: String) async throws {
        let manager = try Self.manager()
        server.enqueue(Self.first(match: match))
        _ = try await get(manager, "/app/1/main.js")
        #expect(manager.cache.statistics.ignoredDictionaries == 1 && manager.cache.statistics.stored == 1)
        _ = try await get(manager, "/app/2/main.js")
        #expect(offered == nil)
    }

    // MARK: Responses

    /// A manager that has the dictionary.
    private func ready(
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) async throws -> CentralRequestManager {
        let manager = try Self.manager(.http, change)
        _ = try await get(manager, "/app/1/main.js")
        return manager
    }

    private static let faults: [(body: Data, kind: NetworkError.Kind, isForgotten: Bool)] = [
        (magic + Data(repeating: 7, count: 32) + frame, .integrity, true),
        (magic + digest + Data([1, 2, 3, 4, 5, 6, 7, 8]), .protocolViolation, true),
        (frame, .protocolViolation, true),
        // A window of 16 MiB.
        (magic + digest + Data([0x28, 0xB5, 0x2F, 0xFD, 0, 14 << 3, 25, 0, 0, 1, 2, 3]), .protocolViolation, true),
        // A frame with other bytes and the same checksum.
        (magic + digest + frame.dropLast(4) + Data([0, 0, 0, 0]), .protocolViolation, true),
        (body.dropLast(1), .connectionLost, false), (body.prefix(47), .connectionLost, false),
        (magic + digest, .connectionLost, false), (magic, .connectionLost, false),
    ]

    @Test(arguments: 0..<faults.count, [false, true])
    func faultyBodyIsAnErrorAndNotStored(number: Int, streams: Bool) async throws {
        let (body, kind, isForgotten) = Self.faults[number]
        let manager = try await ready()
        for size in isForgotten ? [7] : [7, 65_536] {
            server.enqueue(Self.coded(body).inChunks(of: size))
            let error = await failure {
                let response = try await get(manager, "/app/2/main.js") { $0.streamsBody = streams }
                return try await response.body.collect(upTo: 1 << 20)
            }
            #expect(error?.kind == kind, "\(String(describing: error))")
        }
        #expect(manager.cache.statistics.stored == 1 && manager.cache.statistics.dictionaryResponses == 0)
        // A dictionary that could not be used is not offered again, and the call succeeds.
        let again = try await get(manager, "/app/2/main.js")
        #expect(again.text == Self.new && again.source == .network && offered == (isForgotten ? nil : Self.offer))
    }

    @Test func codingThatWasNotAskedForIsRefused() async throws {
        server.enqueue(Self.coded())
        let error = await failure { try await get(Self.manager(), "/app/2/main.js") }
        #expect(
            error?.kind == .protocolViolation && error?.message.contains("\"dcz\", which was not asked for") == true)
    }

    @Test func severalCodingsAreDecoded() async throws {
        let manager = try await ready()
        server.enqueue(Self.coded(ZlibEncoder.gzip(Self.body), "dcz, gzip"))
        #expect(try await get(manager, "/app/2/main.js").text == Self.new)
    }

    @Test func digestsAreCheckedOnTheWireAndOfTheContent() async throws {
        let manager = try await ready()
        func field(_ data: Data) throws -> String {
            "sha-256=:\(Data(try MessageDigest.of(data, .sha256)).base64EncodedString()):"
        }
        let content = Data(Self.new.utf8)
        for (number, fields) in try [
            ["Content-Digest": field(Self.body)], ["Repr-Digest": field(content)], ["Repr-Digest": field(Self.body)],
            ["Content-Digest": field(content)],
        ].enumerated() {
            server.enqueue(fields.reduce(Self.coded()) { $0.header($1.key, $1.value) })
            #expect(try await get(manager, "/app/good-\(number)/main.js").text == Self.new)
        }
        for name in ["Content-Digest", "Repr-Digest"] {
            server.enqueue(Self.coded().header(name, try field(Data())))
            let error = await failure { try await get(manager, "/app/bad-\(name)/main.js") }
            #expect(error?.kind == .integrity)
        }
    }

    /// 64 MiB of one repeated byte, in the blocks of RFC 8878 §3.1.1.2.
    private static func bomb(_ blocks: Int = 512) -> Data {
        var frame = magic + digest + [0x28, 0xB5, 0x2F, 0xFD, 0, 0x58]
        for block in 0..<blocks {
            let header = UInt32(block == blocks - 1 ? 1 : 0) | 1 << 1 | UInt32(131_072) << 3
            frame += [UInt8(header & 0xFF), UInt8(header >> 8 & 0xFF), UInt8(header >> 16), 0]
        }
        return frame
    }

    @Test func limitsOfBodiesHold() async throws {
        let manager = try await ready()
        server.enqueue(Self.coded(Self.bomb()), Self.coded())
        let bomb = await failure { try await get(manager, "/app/2/main.js") }
        #expect(bomb?.kind == .bodyTooLarge && bomb?.message.contains("maxDecompressionRatio") == true)
        let large = await failure { try await get(manager, "/app/3/main.js") { $0.maxBodySize = 800 } }
        #expect(large?.kind == .bodyTooLarge && manager.cache.statistics.stored == 1)
    }

    @Test func sealedResponsesAreNoDictionaries() async throws {
        let manager = try await ready { $0.sealer = PassingSealer() }
        _ = try await get(manager, "/app/2/main.js")
        #expect(offered == nil)
        _ = try await get(manager, "/app/1/main.js") {
            $0.sealing = .unsealed
            $0.headers["Cache-Control"] = "no-cache"
        }
        _ = try await get(manager, "/app/3/main.js") { $0.sealing = .unsealed }
        #expect(offered == Self.offer)
    }
}
