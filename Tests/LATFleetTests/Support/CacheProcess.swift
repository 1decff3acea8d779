import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATFleet
@testable import ResponseCache

/// A process as Redis sees it: a fleet of its own, with a manager and a cache.
final class CacheProcess: Sendable {
    let fleet: Fleet
    let manager: CentralRequestManager
    let store: any CacheStore

    init(
        _ configuration: FleetConfiguration, _ options: FleetCacheOptions = FleetCacheOptions(),
        above local: any CacheStore = MemoryStore(),
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws {
        fleet = try Fleet(configuration)
        store = try fleet.cache(above: local, options)
        var settings = CentralRequestManager.Configuration()
        settings.proxy = .direct
        settings.cachePolicy = .http
        settings.cacheMode = .shared
        settings.cacheStore = store
        settings.cacheLookUpTimeout = .seconds(20)
        settings.cacheObserver = { Issue.record("the cache reported \($0)") }
        change(&settings)
        manager = try CentralRequestManager(configuration: settings)
    }

    /// Gets a URL, and returns its text and where it came from.
    func get(_ url: String, _ headers: HTTPHeaders = [:]) async throws -> (text: String, source: HTTPResponse.Source) {
        let response = try await manager.startRequest("GET", url, headers: headers)
        return (String(decoding: response.body.data ?? Data(), as: UTF8.self), response.source)
    }

    func count(_ name: String) -> Int { fleet.status.counters["cache.\(name)"] ?? 0 }

    /// Waits until the process receives messages, and has dropped from its memory what it may have missed before.
    func awaitSubscription() async throws {
        // The cache's receiver may be told after another one, but in the same turn of the engine.
        for _ in 0..<2 {
            let isSubscribed = Event()
            let subscription = fleet.redis.subscribe(channel) { if $0 == .subscribed { isSubscribed.happen() } }
            await isSubscribed.wait()
            subscription.cancel()
        }
        let copies = try #require(store as? TieredStore).copies
        try await eventually("an empty memory") { copies.areCurrent }
    }

    /// Waits until Redis has what was stored.
    func settle() async throws { try await manager.cache.flush() }

    func end() async {
        await manager.shutdown()
        await fleet.shutdown()
    }
}

extension RedisServer {
    /// Settings whose budgets a busy machine does not exceed.
    func patient(_ change: (inout FleetConfiguration) -> Void = { _ in }) -> FleetConfiguration {
        configuration {
            $0.lookUpBudget = .seconds(20)
            $0.writeBudget = .seconds(20)
            change(&$0)
        }
    }
}

/// Runs a test with processes that are connected and hear each other.
func withProcesses(
    _ count: Int, _ server: RedisServer, _ options: FleetCacheOptions = FleetCacheOptions(),
    _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in },
    _ body: @Sendable ([CacheProcess]) async throws -> Void
) async throws {
    let processes = try (0..<count).map { _ in try CacheProcess(server.patient(), options, change) }
    var thrown: (any Error)?
    do {
        for process in processes {
            try await process.fleet.connect(within: .seconds(20))
            try await process.awaitSubscription()
        }
        try await body(processes)
    } catch {
        thrown = error
    }
    for process in processes { await process.end() }
    if let thrown { throw thrown }
}

extension CacheProcess {
    /// The channel of an unsealed cache.
    var channel: String { fleet.channel("\(FleetCacheCoding.format):0") }
}

/// An origin that counts its requests, and whose answers contain their number.
final class Origin: Sendable {
    let server: MockServer
    private let counts = Box<[String: Int]>([:])
    /// The fields of its answers.
    let headers = Box<[(String, String)]>([("Cache-Control", "max-age=600")])
    let delay = Box(Duration.zero)
    let status = Box(200)
    let body = Box<Data?>(nil)

    init() throws {
        server = try MockServer()
        let (counts, headers, delay, status, body) = (counts, headers, delay, status, body)
        server.fallback { request in
            counts.change { $0[request.path, default: 0] += 1 }
            let number = counts.value[request.path] ?? 0
            var reply =
                body.value.map { MockReply.data($0) } ?? .text("\(request.path) \(number)", status: status.value)
            for (name, value) in headers.value { reply = reply.header(name, value) }
            return delay.value == .zero ? reply : reply.delayed(by: delay.value)
        }
    }

    func url(_ path: String) -> String { server.url(path) }

    /// The primary key of a GET, which is also the name of its lease.
    func key(_ path: String) throws -> String {
        let url = try #require(CanonicalURL(url(path)))
        return try #require(KeyRule().primary(method: "GET", url: url))
    }

    func count(_ path: String) -> Int { counts.value[path] ?? 0 }

    var all: [String: Int] { counts.value }
}
