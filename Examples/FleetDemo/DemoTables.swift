import FoundationEssentials
import LATFleet
import LATNetworking

/// The two versions of the table that the processes get from the Redis.
enum DemoTables {
    static let name = "demo"
    static let ratePerSecond = 100
    static let burst = 10

    /// - Parameter version: The first path segment of the URL of the row `price`.
    static func text(_ origin: String, version: String) -> String {
        """
        {
          domains: {
            shop: { baseURL: "\(origin)/\(version)" },
            // The limits hold for all processes together.
            slow: { baseURL: "\(origin)", limits: { rate: { perSecond: \(ratePerSecond), burst: \(burst) } } },
            wide: { baseURL: "\(origin)", limits: { rate: { perSecond: 100000, burst: 1000 }, maxConcurrentRequests: 24 },
                    circuit: { failures: 5, pause: "1s" } },
          },
          servers: {
            price: { domain: "shop", path: "price", method: "GET" },
            limited: { domain: "slow", path: "limited", method: "GET" },
            steady: { domain: "wide", path: "limited", method: "GET" },
          },
        }
        """
    }

    /// Writes a version of the table into the Redis.
    static func push(_ version: String, _ origin: String, on fleet: Fleet) async throws {
        let table = FleetTable(fleet, name)
        var known: Int64 = 0
        if case .version(let version) = try await table.read() { known = version.revision }
        let bytes = Array(text(origin, version: version).utf8)
        let result = try await table.push(bytes, expecting: known, as: known + 1, author: "demo")
        guard case .pushed = result else { throw FleetDemo.Failure("the table could not be pushed: \(result)") }
    }
}
