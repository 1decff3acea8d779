import FoundationEssentials
import HTTPCore
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATClient

/// Groups of stored responses that servers invalidate together (RFC 9875).
@Suite struct CacheGroupTests {
    private let server: MockServer
    private let manager: CentralRequestManager

    init() throws {
        server = try Self.server()
        manager = try CentralRequestManager.caching(.http)
    }

    /// Each response is fresh for long and belongs to the groups that its query names.
    private static func server() throws -> MockServer {
        let server = try MockServer()
        server.fallback { request in
            let reply = MockReply.text("\(request.path)").header("Cache-Control", "max-age=3600")
            return request.queryItems.reduce(reply) { $0.header($1.name, $1.value ?? "") }
        }
        return server
    }

    private func source(_ path: String, of server: MockServer? = nil) async throws -> HTTPResponse.Source {
        try await manager.startRequest("GET", (server ?? self.server).url(path)).source
    }

    private func post(_ path: String, invalidating groups: String, status: Int = 200) async throws {
        server.enqueue(MockReply.status(status).header("Cache-Group-Invalidation", groups))
        _ = try? await manager.startRequest("POST", server.url(path))
    }

    @Test func unsafeRequestInvalidatesGroupsOfItsOrigin() async throws {
        let other = try Self.server()
        let (menu, cart, prices) = ("/menu?Cache-Groups=\"shop\"", "/cart?Cache-Groups=\"a\",\"shop\"", "/prices")
        for path in [menu, cart, prices] { #expect(try await source(path) == .network) }
        #expect(try await source(menu, of: other) == .network)
        try await post("/order", invalidating: "\"none\", \"shop\";x=1")
        #expect(try await source(menu) == .network)
        #expect(try await source(cart) == .network)
        #expect(try await source(prices) == .memoryCache)
        #expect(try await source(menu, of: other) == .memoryCache)
    }

    @Test func invalidResponseInvalidatesItsGroups() async throws {
        let (item, list, far) = ("/i?Cache-Groups=\"x\"", "/l?Cache-Groups=\"x\",\"y\"", "/f?Cache-Groups=\"y\"")
        for path in [item, list, far] { _ = try await source(path) }
        _ = try await manager.startRequest("POST", server.url(item))
        #expect(try await source(list) == .network)
        // A response that only shares a group with what fell with it stays.
        #expect(try await source(far) == .memoryCache)
    }

    @Test func safeRequestsAndFailuresInvalidateNothing() async throws {
        let menu = "/menu?Cache-Groups=\"shop\""
        _ = try await source(menu)
        server.enqueue(MockReply.text("x").header("Cache-Group-Invalidation", "\"shop\""))
        _ = try await source("/other")
        try await post("/order", invalidating: "\"shop\"", status: 500)
        try await post("/order", invalidating: "shop")
        try await post("/order", invalidating: "\"SHOP\"")
        try await post("/order", invalidating: "\"shop")
        #expect(try await source(menu) == .memoryCache)
    }

    @Test func redirectToASafeRequestInvalidatesNothing() async throws {
        let menu = "/menu?Cache-Groups=\"shop\""
        _ = try await source(menu)
        server.enqueue(
            .redirect(to: "/done", status: 303), MockReply.text("x").header("Cache-Group-Invalidation", "\"shop\""))
        _ = try await manager.startRequest("POST", server.url("/order"))
        #expect(try await source(menu) == .memoryCache)
    }

    @Test func appRemovesAGroupByItsName() async throws {
        let menu = "/menu?Cache-Groups=\"shop\""
        _ = try await source(menu)
        _ = try await manager.cache.remove(.tag("shop"))
        #expect(try await source(menu) == .network)
    }

    private struct SlowStore: ForwardingStore {
        let store: any CacheStore
        let isSlow: Box<Bool>

        func entries(for primaryKey: String) async throws -> [CacheEntry] {
            if isSlow.value { try await Task.sleep(for: .milliseconds(100)) }
            return try await store.entries(for: primaryKey)
        }
    }

    /// A look-up that is longer than `cacheLookUpTimeout` is waited for, because nothing else finds the groups.
    @Test func slowLookUpOfGroupsIsWaitedFor() async throws {
        let isSlow = Box(false)
        let faults = Box<[String]>([])
        let manager = try CentralRequestManager.caching(.http) {
            $0.cacheStore = SlowStore(store: MemoryStore(), isSlow: isSlow)
            $0.cacheObserver = { fault in faults.change { $0.append(fault.message) } }
        }
        let (item, list) = (server.url("/i?Cache-Groups=\"x\""), server.url("/l?Cache-Groups=\"x\""))
        for url in [item, list] { _ = try await manager.startRequest("GET", url) }
        isSlow.change { $0 = true }
        _ = try await manager.startRequest("POST", item)
        isSlow.change { $0 = false }
        #expect(faults.value == [])
        #expect(try await manager.startRequest("GET", list).source == .network)
    }

    /// Unsafe requests look up what they invalidate only when something may belong to a group.
    @Test func lookUpWaitsForTheFirstGroup() async throws {
        let directory = try TemporaryDirectory()
        func manager() throws -> CentralRequestManager {
            try CentralRequestManager.caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
            }
        }
        let first = try manager()
        _ = try await first.startRequest("GET", server.url("/plain"))
        _ = try await first.startRequest("POST", server.url("/plain"))
        #expect(first.storage.behind?.mayHoldGroups == false)
        _ = try await first.startRequest("GET", server.url("/menu?Cache-Groups=\"shop\""))
        #expect(first.storage.behind?.mayHoldGroups == true)
        await first.shutdown()
        // An earlier process may have stored some.
        let second = try manager()
        _ = try await second.startRequest("GET", server.url("/other"))
        #expect(second.storage.behind?.mayHoldGroups == true)
        _ = try await second.startRequest("GET", server.url("/list?Cache-Groups=\"shop\""))
        _ = try await second.startRequest("POST", server.url("/menu?Cache-Groups=\"shop\""))
        #expect(try await second.startRequest("GET", server.url("/list?Cache-Groups=\"shop\"")).source == .network)
        await second.shutdown()
        let shared = try CentralRequestManager.caching(.http) { $0.cacheStore = MemoryStore() }
        #expect(shared.storage.behind?.mayHoldGroups == true)
    }

    @Test func tagOfAServerIsNoGroup() throws {
        let url = "http://a.example/x"
        let tags = InvalidationRule.tags(of: ["Cache-Tag": "shop", "Cache-Groups": "\"g\""], at: url)
        #expect(tags.count == 3 && tags.contains("shop") && tags.contains("g"))
        #expect(
            InvalidationRule.invalidatedGroups(["Cache-Group-Invalidation": "\"g\""], at: url).allSatisfy(tags.contains)
        )
        for other in ["https://a.example/x", "http://b.example/x", "http://a.example:81/x"] {
            let groups = InvalidationRule.invalidatedGroups(["Cache-Group-Invalidation": "\"g\""], at: other)
            #expect(groups.count == 1 && !groups.contains(where: tags.contains))
        }
        let many = (0..<500).map { "\"\($0)\"" }.joined(separator: ",")
        #expect(InvalidationRule.tags(of: ["Cache-Groups": many], at: url).count == 128)
    }
}
