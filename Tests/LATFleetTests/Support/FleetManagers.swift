import FoundationEssentials
import LATNetworking
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATFleet

/// Managers that each have a fleet of their own, like processes.
struct FleetManagers: Sendable {
    let fleets: [Fleet]
    let managers: [CentralRequestManager]

    subscript(index: Int) -> CentralRequestManager { managers[index] }

    /// Calls a URL so many times with each manager, all at once. Each call must get 200.
    func callAll(_ url: String, times: Int, during body: () throws -> Void = {}) async throws {
        try await withThrowingTaskGroup(of: Int.self) { group in
            for manager in managers {
                for _ in 0..<times { group.addTask { try await manager.startRequest("GET", url).status } }
            }
            try body()
            for try await status in group { #expect(status == 200) }
        }
    }

    func counter(_ name: String) -> Int { fleets.reduce(0) { $0 + ($1.status.counters[name] ?? 0) } }
}

/// Runs a test with connected fleets and a manager for each, then shuts them down.
///
/// - Parameter patience: The budget of each operation, long enough that a busy machine does not look like a lost Redis.
func withManagers(
    _ count: Int, _ server: RedisServer, patience: Duration = .seconds(20),
    settings: FleetConfiguration? = nil,
    _ configure: @Sendable (inout CentralRequestManager.Configuration, Fleet) throws -> Void,
    _ body: @Sendable (FleetManagers) async throws -> Void
) async throws {
    var fleets: [Fleet] = []
    var managers: [CentralRequestManager] = []
    for _ in 0..<count {
        var own = settings ?? server.configuration()
        (own.lookUpBudget, own.writeBudget) = (patience, patience)
        let fleet = try Fleet(own)
        try await fleet.connect(within: .seconds(30))
        var configuration = CentralRequestManager.Configuration()
        configuration.fleet = fleet
        configuration.timeout = .seconds(60)
        try configure(&configuration, fleet)
        managers.append(try CentralRequestManager(configuration: configuration))
        fleets.append(fleet)
    }
    var thrown: (any Error)?
    do {
        try await body(FleetManagers(fleets: fleets, managers: managers))
    } catch {
        thrown = error
    }
    for manager in managers { await manager.shutdown() }
    for fleet in fleets { await fleet.shutdown() }
    if let thrown { throw thrown }
}

/// Counts what runs at once.
final class Gauge: Sendable {
    private let state = Box<(now: Int, most: Int)>((0, 0))

    var most: Int { state.value.most }

    var interceptor: any Interceptor { Counting(gauge: self) }

    private struct Counting: Interceptor {
        let gauge: Gauge

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            gauge.state.change { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
            defer { gauge.state.change { $0.now -= 1 } }
            return try await next(request)
        }
    }
}

/// The error of a call; any other outcome fails the test.
func callError(
    sourceLocation: SourceLocation = #_sourceLocation, of body: @escaping @Sendable () async throws -> some Sendable
) async throws -> NetworkError {
    do {
        let value = try await within(.seconds(60), sourceLocation: sourceLocation) { try await body() }
        Issue.record("the call succeeded: \(value)", sourceLocation: sourceLocation)
    } catch let error as NetworkError {
        return error
    }
    throw Overdue(description: "the call succeeded, but an error was expected")
}
