import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

/// Replies that are stored sealed, and opened at each read.
@Suite(.timeLimit(.minutes(1))) struct SealedCacheTests {
    private static let keys = ["k1": Data(repeating: 1, count: 32), "k2": Data(repeating: 2, count: 32)]

    /// A server that counts its replies, and a manager that stores them sealed.
    private static func made(_ policy: CachePolicy) throws -> (MockServer, CentralRequestManager, AESGCMSealer) {
        let server = try MockServer()
        let peer = SealingPeer(try AESGCMSealer(keys: keys, current: "k1"))
        let next = SealingPeer(try AESGCMSealer(keys: keys, current: "k2"))
        let count = Box(0)
        server.fallback { request in
            count.change { $0 += 1 }
            let key = request.headers["X-Key"] == "k2" ? next : peer
            do {
                let opened = try key.open(
                    method: request.method, target: request.target, headers: request.headers, body: request.body)
                let reply = try key.seal(
                    Data(#"{"n":\#(count.value)}"#.utf8), contentType: "application/json", status: 200, to: opened)
                return MockReply(
                    headers: reply.headers.merging(["Cache-Control": "max-age=600"]), body: .bytes(reply.body))
            } catch {
                return .text("\(error)", status: 400)
            }
        }
        let sealer = try AESGCMSealer(keys: keys, current: "k1")
        let manager = try CentralRequestManager.make {
            ($0.sealer, $0.cachesSealed, $0.cachePolicy) = (sealer, true, policy)
            $0.cacheStore = MemoryStore()
        }
        return (server, manager, sealer)
    }

    @Test(arguments: [CachePolicy.cacheElseNetwork(.forever), .http])
    func storedReplyOfARemovedKeyIsFetchedAgain(_ policy: CachePolicy) async throws {
        let (server, manager, sealer) = try Self.made(policy)
        func number(_ key: String) async throws -> Int? {
            try await manager.startRequest("GET", server.url("/a"), headers: ["X-Key": key]).json()["n"].int
        }
        #expect(try await number("k1") == 1)
        #expect(try await number("k1") == 1, "stored")
        let stored = try await manager.startRequest("GET", server.url("/a"), headers: ["X-Key": "k1"])
        #expect(stored.source == .memoryCache && stored.headers["Content-Type"] == "application/json")
        try sealer.update(keys: ["k2": Self.keys["k2"] ?? Data()], current: "k2")
        #expect(try await number("k2") == 2)
        await manager.shutdown()
    }

    @Test func sealedReplyIsNotDeliveredAhead() async throws {
        let (server, manager, _) = try Self.made(.cacheThenNetwork)
        #expect(try await manager.startRequest("GET", server.url("/a")).json()["n"].int == 1)
        let replies = Box<[HTTPResponse]>([])
        manager.startRequest(HTTPRequest("GET", server.url("/a"))) { _, response in
            replies.change { $0.append(response) }
        } failure: { _, error in
            Issue.record(error)
        }
        try await eventually("the reply of the server") { replies.value.contains { $0.source == .network } }
        #expect(try replies.value.map { try $0.json()["n"].int } == [2])
        await manager.shutdown()
    }
}
