import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// Several processes with one Redis: what one has fetched, the others find; what one removes, none of them finds.
@Suite(.needsRedis, .timeLimit(.minutes(3)))
struct CacheFleetTests {
    @Test func answerOfOneProcessServesTheOthers() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(3, server) { processes in
            #expect(try await processes[0].get(origin.url("/a")) == ("/a 1", .network))
            try await processes[0].settle()
            #expect(try await processes[1].get(origin.url("/a")) == ("/a 1", .remoteCache))
            // A message about the write may still come, after which the answer is read from Redis again.
            try await eventually("an answer in memory") {
                try await processes[1].get(origin.url("/a")) == ("/a 1", .memoryCache)
            }
            #expect(try await processes[2].get(origin.url("/a")) == ("/a 1", .remoteCache))
            #expect(origin.count("/a") == 1)
            #expect(processes[1].count("memory.hits") == 1)
            #expect(processes[0].count("fetches") == 1 && processes[0].count("writes") == 1)
        }
    }

    @Test(arguments: ["tag", "url", "prefix", "all"])
    func removalReachesEveryMemory(_ kind: String) async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0.append(("Cache-Tag", "news, \(kind)")) }
        try await withProcesses(3, server) { processes in
            for process in processes {
                _ = try await process.get(origin.url("/a"))
                try await process.settle()
            }
            // A message about the write may still come.
            for process in processes {
                try await eventually("a copy in memory") {
                    try await process.get(origin.url("/a")).source == .memoryCache
                }
            }
            #expect(origin.count("/a") == 1)
            let selection: CacheSelection =
                switch kind {
                case "tag": .tag("news")
                case "url": .url(origin.url("/a"))
                case "prefix": .urlPrefix(origin.url("/"))
                default: .all
                }
            let before = processes.map { $0.count("invalidations.received") }
            _ = try await processes[1].store.remove(selection)
            try await eventually("the messages") {
                processes.indices.allSatisfy { $0 == 1 || processes[$0].count("invalidations.received") > before[$0] }
            }
            for process in processes {
                try await eventually("the new answer") { try await process.get(origin.url("/a")).text == "/a 2" }
                try await process.settle()
            }
            #expect(origin.count("/a") == 2)
        }
    }

    @Test func postRemovesWhatTheOthersKeep() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(2, server) { processes in
            for process in processes {
                _ = try await process.get(origin.url("/a"))
                try await process.settle()
            }
            _ = try await processes[0].manager.startRequest("POST", origin.url("/a"))
            try await processes[0].settle()
            try await eventually("the new answer") { try await processes[1].get(origin.url("/a")).text == "/a 3" }
        }
    }

    @Test func groupsOfAPostAreRemovedForAll() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0.append(("Cache-Groups", "\"shop\"")) }
        try await withProcesses(2, server) { processes in
            for process in processes {
                _ = try await process.get(origin.url("/a"))
                try await process.settle()
            }
            #expect(origin.count("/a") == 1)
            origin.headers.change { $0.append(("Cache-Group-Invalidation", "\"shop\"")) }
            _ = try await processes[0].manager.startRequest("POST", origin.url("/orders"))
            try await processes[0].settle()
            try await eventually("the new answer") { try await processes[1].get(origin.url("/a")).text == "/a 2" }
        }
    }

    @Test func interruptedProcessDropsWhatItMayHaveMissed() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(2, server) { processes in
            for process in processes {
                _ = try await process.get(origin.url("/a"))
                try await process.settle()
            }
            // The message about the write may be late, but it comes before the one about this removal, the last one.
            let feed = try #require(processes[1].store as? any CacheInvalidating).invalidations()
            _ = try await processes[0].store.remove(.primaryKey("another"))
            for await selection in feed where selection == .primaryKey("another") { break }
            try await eventually("a copy in memory") {
                try await processes[1].get(origin.url("/a")).source == .memoryCache
            }
            // A removal without a message, as if it was lost with the connection.
            try server.cli("FLUSHALL")
            #expect(try await processes[1].get(origin.url("/a")).source == .memoryCache)
            try server.cli("CLIENT", "KILL", "TYPE", "pubsub")
            try await eventually("an empty memory") { try await processes[1].get(origin.url("/a")).text == "/a 2" }
        }
    }

    @Test func privateAnswersStayInTheirProcess() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 = [("Cache-Control", "private, max-age=600")] }
        try await withProcesses(2, server) {
            $0.cacheMode = .private
        } _: { processes in
            for process in processes {
                _ = try await process.get(origin.url("/a"))
                try await process.settle()
                #expect(try await process.get(origin.url("/a")).source == .memoryCache)
            }
            #expect(origin.count("/a") == 2)
            #expect(try server.cli("--scan", "--pattern", "*:e:*").isEmpty)
            #expect(processes[0].count("writes.skipped") == 1)
        }
    }

    @Test func answersToCredentialsStayInTheirProcess() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(2, server) {
            $0.cacheMode = .private
        } _: { processes in
            for process in processes { _ = try await process.get(origin.url("/a"), ["Authorization": "Bearer 1"]) }
            for process in processes { try await process.settle() }
            #expect(origin.count("/a") == 2)
            #expect(try server.cli("--scan", "--pattern", "*:e:*").isEmpty)
        }
    }

    @Test func partitionSharesPrivateAnswersWithItself() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 = [("Cache-Control", "private, max-age=600")] }
        try await withProcesses(2, server) { processes in
            for process in processes { process.manager.cache.partition = "ada" }
            _ = try await processes[0].get(origin.url("/a"), ["Authorization": "Bearer 1"])
            try await processes[0].settle()
            #expect(
                try await processes[1].get(origin.url("/a"), ["Authorization": "Bearer 2"]) == ("/a 1", .remoteCache))
            processes[1].manager.cache.partition = "bob"
            #expect(try await processes[1].get(origin.url("/a")).text == "/a 2")
            processes[1].manager.cache.partition = nil
            #expect(try await processes[1].get(origin.url("/a")).text == "/a 3")
            _ = try await processes[0].store.remove(.partition("ada"))
            try await eventually("ada's new answer") {
                processes[1].manager.cache.partition = "ada"
                return try await processes[1].get(origin.url("/a")).text == "/a 4"
            }
        }
    }

    @Test func fleetMakesTheCacheShared() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 = [("Cache-Control", "max-age=0, s-maxage=600")] }
        try await withManagers(2, server) { configuration, _ in
            configuration.proxy = .direct
            configuration.cachePolicy = .http
            configuration.cacheStorage = .memory
            configuration.cacheLookUpTimeout = .seconds(10)
        } _: { managers in
            @Sendable func source(_ index: Int, _ path: String) async throws -> HTTPResponse.Source {
                let source = try await managers[index].startRequest("GET", origin.url(path)).source
                try await managers[index].cache.flush()
                return source
            }
            var sources = [try await source(0, "/a"), try await source(1, "/a")]
            #expect(sources == [.network, .remoteCache])
            // A private answer is stored nowhere, unless it belongs to a partition.
            origin.headers.change { $0 = [("Cache-Control", "private, max-age=600, s-maxage=600")] }
            sources = [try await source(0, "/b"), try await source(0, "/b")]
            #expect(sources == [.network, .network])
            for manager in managers.managers { manager.cache.partition = "ada" }
            sources = [try await source(0, "/b"), try await source(0, "/b"), try await source(1, "/b")]
            #expect(sources == [.network, .memoryCache, .remoteCache])
            managers[1].cache.partition = nil
            sources = [try await source(1, "/b")]
            #expect(sources == [.network])
        }
    }

    @Test func chosenModeStaysInAFleet() async throws {
        let server = try await RedisServer(isAwaited: false)
        try await withFleet(server.configuration(), isConnected: false) { fleet in
            var configuration = CentralRequestManager.Configuration()
            #expect(configuration.cacheMode == .private)
            configuration.join(fleet, sharing: .limits)
            #expect(configuration.cacheMode == .private)
            configuration.fleet = fleet
            #expect(configuration.cacheMode == .shared)
            configuration.cacheMode = .private
            #expect(configuration.cacheMode == .private)
        }
    }

    @Test func sharedLifetimeIsUsed() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 = [("Cache-Control", "max-age=0, s-maxage=600")] }
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            #expect(try await processes[1].get(origin.url("/a")) == ("/a 1", .remoteCache))
        }
    }

    @Test func sealedCacheShowsNothing() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 += [("Cache-Tag", "canarytag"), ("X-Secret", "canaryfield")] }
        origin.body.change { $0 = Data(String(repeating: "canarybody ", count: 40_000).utf8) }
        var options = FleetCacheOptions()
        options.encryptionKey = Data(repeating: 1, count: 32)
        let first = try CacheProcess(server.patient(), options)
        let second = try CacheProcess(server.patient(), options)
        options.encryptionKey = Data(repeating: 2, count: 32)
        let stranger = try CacheProcess(server.patient(), options)
        _ = try await first.get(origin.url("/canarypath"))
        try await first.settle()
        #expect(try await second.get(origin.url("/canarypath")).source == .remoteCache)
        #expect(try await stranger.get(origin.url("/canarypath")).source == .network)
        for key in try server.cli("--scan").split(separator: "\n") {
            let type = try server.cli("TYPE", String(key))
            let value =
                try server.cli(type == "hash" ? "HGETALL" : "GET", String(key)) + key
            #expect(!value.contains("canary"), "\(key) shows the text")
        }
        for process in [first, second, stranger] { await process.end() }
    }

    @Test func bodiesOverTheLimitStayLocal() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.body.change { $0 = Data(repeating: 7, count: 300_000) }
        var options = FleetCacheOptions()
        options.bodyLimit = 299_999
        try await withProcesses(2, server, options) { processes in
            for process in processes {
                _ = try await process.get(origin.url("/a"))
                try await process.settle()
                #expect(try await process.get(origin.url("/a")).source == .memoryCache)
            }
            #expect(origin.count("/a") == 2)
            #expect(try server.cli("--scan", "--pattern", "*:e:*").isEmpty)
        }
    }

    @Test func largeBodiesComeWhole() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.body.change { $0 = Self.body(5 << 20) }
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            let response = try await processes[1].manager.startRequest("GET", origin.url("/a"))
            #expect(response.source == .remoteCache && response.body.data == origin.body.value)
            #expect(origin.count("/a") == 1)
        }
    }

    @Test func bodyOf64MiBComesWhole() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            var options = FleetCacheOptions()
            options.bodyLimit = 64 << 20
            let tier = try fleet.cacheTier(options)
            let body = Self.body(64 << 20)
            func entry() -> CacheEntry {
                CacheEntry(
                    key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200, headers: [:],
                    requestTime: Date(), responseTime: Date())
            }
            let writer = try await tier.writer(for: entry())
            for start in stride(from: 0, to: body.count, by: 1 << 20) {
                try await writer.append(body[start..<start + (1 << 20)])
            }
            guard case .stored(let stored, _) = try await writer.commit() else {
                Issue.record("the body was superseded")
                return
            }
            #expect(stored.version != nil)
            let found = try #require(try await tier.entries(for: "k").first)
            #expect(found.bodyByteCount == 64 << 20)
            #expect(try await tier.body(of: found)?.data == body)
            // One byte more stays local.
            let other = try await tier.writer(for: entry())
            try await other.append(body)
            try await other.append(Data([1]))
            guard case .stored(let kept, _) = try await other.commit() else {
                Issue.record("the larger body was superseded")
                return
            }
            #expect(kept.version == nil)
            #expect(try await tier.entries(for: "k").isEmpty)
        }
    }

    /// A body whose chunks all differ.
    private static func body(_ count: Int) -> Data {
        var body = Data(repeating: 7, count: count)
        for index in stride(from: 0, to: count, by: 100_003) {
            body[index] = UInt8(truncatingIfNeeded: index / 100_003)
        }
        return body
    }
}
