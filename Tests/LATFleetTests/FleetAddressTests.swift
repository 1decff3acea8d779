import LATNetworking
import TestSupport
import Testing

@testable import LATFleet

/// Processes share which addresses of a name fail.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct FleetAddressTests {
    @Test func addressIsLeftOutByAllAndComesBackForAll() async throws {
        let redis = try await RedisServer()
        let servers = try AddressServers(["127.0.0.1": .closes, "127.0.0.2": .closes])
        let url = "http://a.example:\(servers.port)/"
        let circuit = "http://a.example:\(servers.port) 127.0.0.2"
        try await withManagers(2, redis) { configuration, _ in
            configuration.resolve = ["a.example:\(servers.port)": "127.0.0.1,127.0.0.2"]
            configuration.addresses = .roundRobin
        } _: { fleet in
            let channel = fleet.fleets[0].channel("circuit:default")
            try await eventually("subscriptions") { try redis.cli("PUBSUB", "NUMSUB", channel).hasSuffix("2") }
            // Both know the addresses.
            try await fleet.callAll(url, times: 1)
            servers.stop("127.0.0.2")
            for _ in 0..<2 { _ = try await fleet[0].startRequest("GET", url) }
            #expect(await fleet[0].load.circuits[circuit] != nil)
            // The news count when the other one has had no response of the address for a while; each trial that fails is one.
            try await eventually("the news") {
                _ = try await fleet[0].startRequest("GET", url)
                return await fleet[1].load.circuits[circuit] != nil
            }
            #expect(fleet[1].fleet?.circuitsHeard ?? 0 >= 1)
            try servers.start("127.0.0.2", .closes)
            try await eventually("the address to be used again") {
                _ = try await fleet[0].startRequest("GET", url)
                let loads = [await fleet[0].load, await fleet[1].load]
                return loads.allSatisfy(\.circuits.isEmpty)
            }
        }
    }
}
