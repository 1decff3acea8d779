import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

/// Partial responses over real sockets: stored, joined, served and completed, collected and as streams.
@Suite(.timeLimit(.minutes(3))) struct PartialContentTests {
    /// A resource with a strong entity tag that serves ranges and changes on demand.
    private final class Resource: Sendable {
        let byteCount: Int64
        private let version = Mutex(1)

        init(_ byteCount: Int64) { self.byteCount = byteCount }

        func change() { version.withLock { $0 += 1 } }

        static func bytes(_ range: Range<Int64>, _ version: Int) -> Data {
            Data(range.map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8 &+ Int64(version) &* 31) })
        }

        func reply(_ request: RecordedRequest) -> MockReply {
            let version = version.withLock { $0 }
            let tag = "\"\(version)\""
            var reply = MockReply(status: 200, headers: ["ETag": tag, "Cache-Control": "max-age=60"])
            var asked = HTTPRequest("GET", "http://a/")
            asked.headers["Range"] = request.headers["Range"] ?? ""
            let isPart = request.headers["Range"] != nil && (request.headers["If-Range"] ?? tag) == tag
            guard isPart else {
                reply.body = .bytes(Self.bytes(0..<byteCount, version))
                return reply
            }
            guard let part = RangeRule.part(asked, of: byteCount) else { return .status(416) }
            reply.status = 206
            reply.body = .bytes(Self.bytes(part, version))
            return reply.header("Content-Range", "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(byteCount)")
        }
    }

    private static func bench(_ kind: StoreKind, _ resource: Resource) throws -> CacheBench {
        let bench = try CacheBench(kind)
        bench.server.fallback { resource.reply($0) }
        return bench
    }

    private static func request(_ bench: CacheBench, _ range: String?, streams: Bool = false) -> HTTPRequest {
        var request = HTTPRequest("GET", bench.server.url("/file"))
        if let range { request.headers["Range"] = "bytes=\(range)" }
        request.streamsBody = streams
        return request
    }

    /// Sends a request and compares every byte with the version that the response's entity tag names.
    @discardableResult
    private static func ask(
        _ bench: CacheBench, _ resource: Resource, _ range: String?, streams: Bool = false
    ) async throws -> HTTPResponse {
        let request = request(bench, range, streams: streams)
        let response = try await bench.send(request)
        let data = try await response.body.collect(upTo: .max)
        guard response.status != 416 else { return response }
        let version = try #require(response.headers["ETag"].flatMap { Int($0.dropFirst().dropLast()) })
        let part = response.status == 206 ? RangeRule.part(request, of: resource.byteCount) : 0..<resource.byteCount
        let wanted = try #require(part)
        #expect(data == Resource.bytes(wanted, version), "\(range ?? "all") from \(response.source)")
        #expect(response.headers["Content-Length"] == "\(wanted.count)")
        let place = "bytes \(wanted.lowerBound)-\(wanted.upperBound - 1)/\(resource.byteCount)"
        #expect(response.headers["Content-Range"] == (response.status == 206 ? place : nil))
        return response
    }

    /// A server may answer a range with 200, `Content-Range` and the part. The store never has it as the whole, neither when the app
    /// has asked for the range nor when the cache has, and with no policy.
    @Test(arguments: StoreKind.allCases, [CachePolicy.http, .cacheElseNetwork(.forever)])
    func partIsNeverStoredAsTheWhole(kind: StoreKind, policy: CachePolicy) async throws {
        let resource = Resource(50_000)
        let claims = Atomic(true)
        let bench = try CacheBench(kind)
        bench.server.fallback { request in
            var reply = resource.reply(request)
            if claims.load(ordering: .relaxed), reply.status == 206 { reply.status = 200 }
            return reply
        }
        func send(_ range: String?) async throws -> HTTPResponse {
            var request = Self.request(bench, range)
            request.cachePolicy = policy
            return try await bench.send(request)
        }
        let part = try await send("20000-29999")
        #expect(part.status == 200 && part.data == Resource.bytes(20_000..<30_000, 1))
        #expect(try await bench.cache().entries().isEmpty)
        #expect(try await send(nil).data == Resource.bytes(0..<50_000, 1))
        guard policy == .http else { return }
        // The rest of a stored part comes in the same form, so the whole is requested.
        _ = try await bench.cache().removeAll()
        claims.store(false, ordering: .relaxed)
        _ = try await send("0-29999")
        #expect(try await bench.cache().entries().map(\.status) == [206])
        claims.store(true, ordering: .relaxed)
        #expect(try await send(nil).data == Resource.bytes(0..<50_000, 1))
    }

    @Test(arguments: StoreKind.allCases, [false, true])
    func partsAreJoinedUntilWhole(kind: StoreKind, streams: Bool) async throws {
        let resource = Resource(50_000)
        let bench = try Self.bench(kind, resource)
        for range in ["20000-29999", "0-9999", "5000-24999", "30000-39999"] {
            #expect(try await Self.ask(bench, resource, range, streams: streams).source == .network)
        }
        for range in ["0-39999", "12345-23456", "39999-39999"] {
            #expect(try await Self.ask(bench, resource, range, streams: streams).source != .network)
        }
        #expect(bench.server.requestCount == 4)
        #expect(try await bench.cache().entries().map(\.status) == [206])
        try await Self.ask(bench, resource, "-10000", streams: streams)
        #expect(try await bench.cache().entries().map(\.status) == [200])
        #expect(try await Self.ask(bench, resource, nil, streams: streams).source != .network)
        #expect(bench.server.requestCount == 5)
        await bench.shutdown()
    }

    @Test(arguments: StoreKind.allCases, [false, true])
    func storedPrefixIsCompleted(kind: StoreKind, streams: Bool) async throws {
        let resource = Resource(100_000)
        let bench = try Self.bench(kind, resource)
        try await Self.ask(bench, resource, "0-39999")
        #expect(try await Self.ask(bench, resource, "30000-49999", streams: streams).status == 206)
        #expect(try await Self.ask(bench, resource, nil, streams: streams).status == 200)
        #expect(
            bench.server.requests.map { $0.headers["Range"] } == ["bytes=0-39999", "bytes=40000-49999", "bytes=50000-"])
        #expect(bench.server.requests.map { $0.headers["If-Range"] } == [nil, "\"1\"", "\"1\""])
        #expect(try await Self.ask(bench, resource, nil, streams: streams).source != .network)
        await bench.shutdown()
    }

    @Test(arguments: [false, true]) func changedResourceStartsOver(streams: Bool) async throws {
        let resource = Resource(1_000)
        let bench = try Self.bench(.memory, resource)
        try await Self.ask(bench, resource, "0-499")
        resource.change()
        let response = try await Self.ask(bench, resource, nil, streams: streams)
        #expect(response.status == 200 && response.headers["ETag"] == "\"2\"" && bench.server.requestCount == 2)
        #expect(try await Self.ask(bench, resource, "0-99", streams: streams).headers["ETag"] == "\"2\"")
    }

    /// The server's response to the request for the remainder cannot be joined with the stored part.
    @Test(arguments: [206, 304, 412, 416, 404]) func unusableRemainderIsFetchedAgain(status: Int) async throws {
        let resource = Resource(1_000)
        let bench = try Self.bench(.memory, resource)
        try await Self.ask(bench, resource, "0-499")
        bench.server.fallback { request in
            guard request.headers["If-Range"] != nil else { return resource.reply(request) }
            return MockReply(status: status, headers: ["ETag": "\"1\"", "Content-Range": "bytes 500-899/1000"])
        }
        let response = try await bench.send(Self.request(bench, nil))
        #expect(response.status == (status == 404 ? 404 : 200))
        if status != 404 { #expect(response.body.data == Resource.bytes(0..<1_000, 1)) }
        #expect(bench.server.requestCount == (status == 404 ? 2 : 3))
    }

    @Test func bodyLimitAppliesToTheJoinedBody() async throws {
        let resource = Resource(1_000)
        let bench = try Self.bench(.memory, resource)
        try await Self.ask(bench, resource, "0-799")
        var request = Self.request(bench, nil)
        request.maxBodySize = 500
        let limited = request
        #expect(await failure { try await bench.send(limited) }?.kind == .bodyTooLarge)
        // Stored parts outside the requested range do not count towards the limit.
        request = Self.request(bench, "900-949")
        request.maxBodySize = 60
        #expect(try await bench.send(request).body.data == Resource.bytes(900..<950, 1))
    }

    @Test func abandonedStreamKeepsTheStoredPart() async throws {
        let resource = Resource(3 << 20)
        let bench = try Self.bench(.memory, resource)
        try await Self.ask(bench, resource, "0-99999")
        do {
            let response = try await bench.send(Self.request(bench, "100000-2999999", streams: true))
            for try await _ in response.body { break }
        }
        #expect(try await Self.ask(bench, resource, "0-99999").source == .memoryCache)
        #expect(try await Self.ask(bench, resource, nil).status == 200)
    }

    @Test(arguments: [CachePolicy.cacheElseNetwork(.forever), .networkElseCache, .cacheThenNetwork, .cacheOnly])
    func otherPoliciesNeverServeAPartAsTheWhole(policy: CachePolicy) async throws {
        let resource = Resource(1_000)
        let bench = try Self.bench(.memory, resource)
        try await Self.ask(bench, resource, "0-499")
        var request = Self.request(bench, nil)
        request.cachePolicy = policy
        let asked = request
        if policy == .cacheOnly {
            #expect(await failure { try await bench.send(asked) }?.kind == .cache)
        } else {
            #expect(try await bench.send(asked).body.data == Resource.bytes(0..<1_000, 1))
            #expect(try await bench.cache().entries().map(\.status) == [200])
        }
    }

    /// nginx sends no freshness fields; the stored part is completed all the same.
    @Test(.needsNginx, arguments: ["/1m.bin", "/gzip/1m.bin"])
    func nginxFileIsJoinedFromRanges(path: String) async throws {
        let url = try #require(Servers.nginx) + path
        let whole = try await CentralRequestManager.caching(.networkOnly).startRequest("GET", url).data
        let manager = try CentralRequestManager.caching(.http) { $0.cacheClock = { Date() } }
        for range in [0..<100_000, 50_000..<200_000, 900_000..<1_000_000] {
            let part = try await manager.startRequest(
                "GET", url, headers: ["Range": "bytes=\(range.lowerBound)-\(range.upperBound - 1)"])
            #expect(part.status == 206 && part.data == whole[range])
        }
        let entry = try #require(try await manager.cache.entries().first)
        #expect(entry.status == 206 && entry.headers["Content-Range"] == "bytes 0-199999,900000-999999/1048576")
        #expect(try await manager.startRequest("GET", url).data == whole)
        #expect(try await manager.cache.entries().map(\.status) == [200])
    }

    /// Random ranges of a resource that changes now and then.
    @Test(arguments: StoreKind.allCases) func randomRangesNeverGiveWrongBytes(kind: StoreKind) async throws {
        let resource = Resource(40_000)
        let bench = try Self.bench(kind, resource)
        var random = SeededGenerator(seed: 14)
        var kept = 0
        for _ in 0..<200 {
            if Int.random(in: 0..<10, using: &random) == 0 { resource.change() }
            if Int.random(in: 0..<30, using: &random) == 0 { bench.clock.advance(by: 61) }
            // A complete response would stay and serve every range, so the cache is cleared.
            if Int.random(in: 0..<30, using: &random) == 0 { try await bench.cache().removeAll() }
            let first = Int.random(in: 0...40_000, using: &random)
            let range: String? =
                switch Int.random(in: 0..<40, using: &random) {
                case 0: nil
                case 1: "\(first)-"
                case 2...4: "-\(first / 8)"
                default: "\(first)-\(first + Int.random(in: 0...9_000, using: &random))"
                }
            let response = try await Self.ask(bench, resource, range, streams: Bool.random(using: &random))
            if response.source != .network { kept += 1 }
        }
        #expect(kept > 10)
        await bench.shutdown()
    }
}
