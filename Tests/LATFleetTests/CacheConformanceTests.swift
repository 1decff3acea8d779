import FoundationEssentials
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// The contract of stores, kept by the Redis tier alone and with tiers above it.
@Suite(.needsRedis, .timeLimit(.minutes(3)))
struct CacheConformanceTests {
    /// A store in Redis has no byte limit of its own, and cannot pin entries.
    private static let rules = CacheStoreConformance.Rule.allCases.filter { ![.room, .refusal, .pins].contains($0) }

    private func check(
        _ options: FleetCacheOptions = FleetCacheOptions(), sourceLocation: SourceLocation = #_sourceLocation,
        _ make: @escaping @Sendable (Fleet, FleetCacheOptions) throws -> any CacheStore
    ) async throws {
        let server = try await RedisServer()
        let number = Box(0)
        try await withFleet(server.patient()) { first in
            let fleets = Box<[Fleet]>([first])
            let faults = await CacheStoreConformance.check(
                Self.rules, lookUpBudget: .seconds(2), timeout: .seconds(60)
            ) { _ in
                number.change { $0 += 1 }
                let fleet = try Fleet(server.patient { $0.prefix = "store\(number.value)" })
                try await fleet.connect(within: .seconds(20))
                fleets.change { $0.append(fleet) }
                return try make(fleet, options)
            }
            #expect(faults.isEmpty, "\(faults)", sourceLocation: sourceLocation)
            for fleet in fleets.value.dropFirst() { await fleet.shutdown() }
        }
    }

    @Test func redisTierKeepsTheContract() async throws {
        try await check { try $0.cacheTier($1) }
    }

    @Test func memoryOverRedisKeepsTheContract() async throws {
        try await check { try $0.cache(above: MemoryStore(), $1) }
    }

    @Test func memoryAndDiskOverRedisKeepTheContract() async throws {
        let directory = try TemporaryDirectory()
        let number = Box(0)
        try await check { fleet, options in
            number.change { $0 += 1 }
            let disk = try DiskStore(directory: directory.path(of: "\(number.value)"))
            return try fleet.cache(above: TieredStore(memory: MemoryStore(), disk: disk), options)
        }
        _ = directory
    }

    @Test func sealedTierKeepsTheContract() async throws {
        var options = FleetCacheOptions()
        options.encryptionKey = Data(repeating: 7, count: 32)
        try await check(options) { try $0.cacheTier($1) }
    }
}
