import Glibc
import LATFleet
import LATNetworking

/// Sends a number of requests, several at once, within the quota that the server tells all processes of the fleet together.
/// Prints how many it refused, and ends.
func sendAsTold(socket: String, password: String, url: String, _ count: Int) async throws {
    var settings = FleetConfiguration()
    settings.address = .unixSocket(path: socket)
    settings.password = password
    (settings.lookUpBudget, settings.writeBudget) = (.seconds(30), .seconds(30))
    let fleet = try Fleet(settings)
    try await fleet.connect(within: .seconds(30))
    var configuration = CentralRequestManager.Configuration()
    configuration.fleet = fleet
    configuration.proxy = .direct
    configuration.limits.followsServer = true
    configuration.retries = 0
    configuration.timeout = .seconds(60)
    let manager = try CentralRequestManager(configuration: configuration)
    // The first response tells the quota.
    var refused = try await manager.send(HTTPRequest("GET", url)).status == 200 ? 0 : 1
    try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<4 {
            group.addTask {
                var refused = 0
                for _ in 0..<(count / 4) where try await manager.send(HTTPRequest("GET", url)).status != 200 {
                    refused += 1
                }
                return refused
            }
        }
        for try await part in group { refused += part }
    }
    print("refused \(refused), granted \(fleet.status.counters["limits.granted"] ?? 0)")
    fflush(nil)
    exit(0)
}
