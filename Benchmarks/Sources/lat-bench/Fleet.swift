import BenchmarkSupport
import FoundationEssentials
import LATFleet
import LATNetworking
import ResponseCache

/// Modes `fleet-…`: the cache of a manager that belongs to a fleet on the Redis URL, with IN_FLIGHT entries of 4 KiB.
///
/// - `fleet-remote`: hits in Redis. No tier of the process keeps them.
/// - `fleet-memory`: hits in the memory of the process, as `cache-memory` has them without a fleet. FILE is the folder
///   of the cache.
func fleet(_ arguments: Arguments) async throws {
    var settings = try FleetConfiguration(url: arguments.url)
    // The time of look-ups is measured, so they must not time out.
    (settings.lookUpBudget, settings.writeBudget) = (.seconds(10), .seconds(10))
    let fleet = try Fleet(settings)
    try await fleet.connect()
    if arguments.mode == "fleet-remote" {
        let manager = try manager(nil, MemoryStore(byteLimit: 0)) { $0.fleet = fleet }
        try await hits(manager, .remoteCache, arguments)
    } else {
        let manager = try manager(try file(arguments)) { $0.fleet = fleet }
        try await hits(manager, .memoryCache, arguments)
    }
    await fleet.shutdown()
}
