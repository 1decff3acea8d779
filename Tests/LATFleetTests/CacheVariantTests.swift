import FoundationEssentials
import HTTPCore
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct CacheVariantTests {
    /// A look-up of one of many variants does not transfer the bodies of all.
    @Test(arguments: [nil, Data(repeating: 3, count: 32)]) func manyVariantsAreNotReadWithTheirBodies(
        key: Data?
    ) async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            var options = FleetCacheOptions()
            options.encryptionKey = key
            let tier = try fleet.cacheTier(options)
            let names = (0..<20).map { "language \($0)" }
            func body(_ name: String) -> Data { Data(String(repeating: name, count: 4_000).utf8) }
            for name in names {
                let entry = CacheEntry(
                    key: CacheKey(primary: "k", variant: name), method: "GET", url: "http://h/k", status: 200,
                    headers: [:],
                    requestTime: Date(), responseTime: Date())
                let writer = try await tier.writer(for: entry)
                try await writer.append(body(name))
                guard case .stored(let stored, _) = try await writer.commit(), stored.version != nil else {
                    Issue.record("\(name) is not in Redis")
                    return
                }
            }
            let found = try await tier.entries(for: "k")
            #expect(Set(found.map(\.key.variant)) == Set(names))
            #expect((1...5).contains(found.count { $0.attachedBody != nil }))
            for entry in found { #expect(try await tier.body(of: entry)?.data == body(entry.key.variant)) }
        }
    }
}
