import FoundationEssentials
import HTTPCore
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Storing responses never delays requests, whatever the store does.
@Suite(.timeLimit(.minutes(2))) struct CacheBehindTests {
    private static let policies: [CachePolicy] = [
        .http, .cacheElseNetwork(.forever), .cacheElseNetwork(.sliding(.seconds(60))), .networkElseCache,
    ]

    @Test(arguments: policies) func blockedStoreDelaysNoRequest(_ policy: CachePolicy) async throws {
        let store = AwkwardStore(.hangs)
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let faults = Log<NetworkError>()
        let manager = try CentralRequestManager.caching(policy) {
            $0.cacheStore = store
            $0.cacheLookUpTimeout = .milliseconds(5)
            $0.cacheObserver = { faults.append($0) }
        }
        // The store blocks every operation until the end of the test, so any response proves that it did not wait.
        for number in 0..<20 {
            let response = try await manager.startRequest("GET", server.url("/\(number)"))
            #expect(response.source == .network)
        }
        _ = try await manager.startRequest("POST", server.url("/0"))
        // A pending write is found, an invalidated response is not.
        if policy != .networkElseCache {
            #expect(try await manager.startRequest("GET", server.url("/1")).source == .memoryCache)
        }
        #expect(try await manager.startRequest("GET", server.url("/0")).source == .network)
        #expect(faults.count <= 1)
        store.release()
        try await manager.cache.flush()
    }

    @Test(arguments: policies) func wrongEntriesAreNotUsed(_ policy: CachePolicy) async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let manager = try CentralRequestManager.caching(policy) { $0.cacheStore = AwkwardStore(.lies) }
        for _ in 0..<3 {
            let response = try await manager.startRequest("GET", server.url())
            #expect(response.source == .network)
            #expect(response.text != "lie")
            try await manager.cache.flush()
        }
    }

    @Test(arguments: [CachePolicy.cacheOnly, .http]) func requiredCacheIsWaitedFor(_ policy: CachePolicy) async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let manager = try CentralRequestManager.caching(.http) {
            $0.cacheStorage = .memoryAndDisk
            $0.cacheDirectory = directory.path(of: "cache")
        }
        _ = try await manager.startRequest("GET", server.url())
        try await manager.cache.flush()
        let impatient = try CentralRequestManager.caching(policy) {
            $0.cacheStorage = .memoryAndDisk
            $0.cacheDirectory = directory.path(of: "cache")
            $0.cacheLookUpTimeout = .zero
        }
        let headers: HTTPHeaders = policy == .http ? ["Cache-Control": "only-if-cached"] : [:]
        #expect(try await impatient.startRequest("GET", server.url(), headers: headers).text == "1")
    }

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever), .networkElseCache])
    func lateLookUpIsRepeatedWhenTheNetworkFails(_ policy: CachePolicy) async throws {
        let directory = try TemporaryDirectory()
        func manager(_ change: (inout CentralRequestManager.Configuration) -> Void) throws -> CentralRequestManager {
            try .caching(policy) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
                change(&$0)
            }
        }
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let online = try manager { _ in }
        _ = try await online.startRequest("GET", server.url())
        try await online.cache.flush()
        // Nothing is found in time, so the request is sent.
        let offline = try manager {
            $0.cacheLookUpTimeout = .zero
            $0.transport = NoNetwork()
        }
        let response = try await offline.startRequest("GET", server.url())
        #expect(response.text == "1" && response.source != .network)
        #expect(offline.cache.statistics.lookups == 1)
        #expect(await failure { try await offline.startRequest("GET", server.url("/b")) }?.kind == .connect)
    }

    private struct NoNetwork: Transport {
        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            throw NetworkError(.connect, message: "there is no network")
        }
    }

    @Test func shutdownFlushesPendingWrites() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        func manager() throws -> CentralRequestManager {
            try .caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
            }
        }
        let first = try manager()
        for number in 0..<50 { _ = try await first.startRequest("GET", server.url("/\(number)")) }
        await first.shutdown()
        #expect(try await manager().cache.usage().entryCount == 50)
    }

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func unstorableResponseIsNotWaitedFor(_ policy: CachePolicy) async throws {
        let server = try MockServer()
        // Neither the status nor the header fields allow it to be stored.
        server.enqueue(MockReply.text("own", status: 404).header("Cache-Control", "no-store"))
        server.fallback { _ in .text("never").stalling(.start) }
        let manager = try CentralRequestManager.caching(policy)
        let url = server.url()
        _ = await failure { try await manager.startRequest("GET", url) }
        let calls = (0..<5).map { _ in Task { try await manager.startRequest("GET", url) } }
        // Each call sends its own request before any has a response.
        try await server.waitForRequests(6)
        for call in calls { call.cancel() }
        for call in calls { _ = await call.result }
    }

    @Test func keyIsSharedAgainAfterAStoredResponse() async throws {
        let table = FlightTable()
        try await lead(table, isStored: false)
        #expect(isLone(table))
        try await lead(table, isStored: true)
        #expect(!isLone(table))
        // A server error says nothing about whether later responses can be stored.
        try await lead(table, isStored: false, status: 503)
        #expect(!isLone(table))
    }

    private func lead(_ table: FlightTable, isStored: Bool, status: Int = 200) async throws {
        _ = try await table.lead("k", nil) {
            (HTTPResponse(status: status, url: "http://h/", source: .network), isStored)
        }
    }

    private func isLone(_ table: FlightTable) -> Bool {
        switch table.join("k", since: nil) {
        case .alone: return true
        case .lead(let flight):
            table.end(flight, .notStored)
            return false
        case .follow, .lookAgain: return false
        }
    }
}
