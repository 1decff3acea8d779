import FoundationEssentials
import HTTPCore
import TestSupport
import Testing

@testable import LATClient

/// A hedged request goes to another address of the name than the first one.
@Suite(.timeLimit(.minutes(2))) struct HedgedAddressTests {
    @Test(arguments: [RequestOptions.Addresses.roundRobin, .leastRequest])
    func hedgeGoesToAnotherAddress(policy: RequestOptions.Addresses) async throws {
        let servers = try AddressServers(["127.0.0.1": .stalls, "127.0.0.2": .responds])
        let manager = try CentralRequestManager.make {
            $0.resolve = ["a.example:\(servers.port)": "127.0.0.1,127.0.0.2"]
            $0.addresses = policy
            $0.hedge = .init(after: .time(.milliseconds(20)), share: 1)
            $0.retryBudget = nil
            $0.retries = 0
        }
        for _ in 0..<6 {
            let response = try await manager.startRequest("GET", "http://a.example:\(servers.port)/")
            #expect(response.text == "127.0.0.2")
        }
        await manager.shutdown()
    }

    @Test func leftOutAddressesAreShown() async throws {
        let servers = try AddressServers(["127.0.0.1": .closes], refusing: ["127.0.0.2"])
        let manager = try CentralRequestManager.make {
            $0.resolve = ["a.example:\(servers.port)": "127.0.0.1,127.0.0.2"]
            $0.domains = try? DomainTable(
                json5: #"{ domains: { a: { baseURL: "http://a.example:\#(servers.port)", addresses: "roundRobin" } } }"#
            )
        }
        for _ in 0..<2 {
            // The body is no JSON.
            let error = await failure { try await manager.startRequest(Route("GET", domain: "a", path: "x")) }
            #expect(error?.response?.status == 200)
        }
        let circuit = "http://a.example:\(servers.port) 127.0.0.2"
        #expect(await manager.load.circuits.keys.contains(circuit))
        let lines = manager.explain("a").split(separator: "\n")
        #expect(lines.contains { $0.contains("addresses") && $0.contains("roundRobin") })
        #expect(lines.contains { $0.contains("address now") && $0.hasSuffix(circuit) })
        await manager.shutdown()
    }
}
