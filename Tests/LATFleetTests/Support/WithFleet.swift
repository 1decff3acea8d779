import LATTesting
import TestSupport
import Testing

@testable import LATFleet

extension Trait where Self == ConditionTrait {
    /// Skips tests without a Redis.
    static var needsRedis: Self {
        .enabled(
            if: RedisReader.isAvailable && ChildProcess.path(of: "redis-server") != nil,
            "needs --traits Fleet and redis-server; scripts/setup --tests installs it")
    }
}

/// Runs a test with a fleet that is connected, then shuts it down.
func withFleet(
    _ configuration: FleetConfiguration, isConnected: Bool = true, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @Sendable (Fleet) async throws -> Void
) async throws {
    let fleet = try Fleet(configuration)
    var thrown: (any Error)?
    do {
        if isConnected { try await fleet.connect(within: .seconds(20)) }
        try await body(fleet)
    } catch {
        thrown = error
    }
    try await within(.seconds(20), "the fleet's end", sourceLocation: sourceLocation) { await fleet.shutdown() }
    #expect(fleet.status.state == .shutDown, sourceLocation: sourceLocation)
    if let thrown { throw thrown }
}

/// The error that an operation throws. Any other outcome fails the test.
func fleetError(
    sourceLocation: SourceLocation = #_sourceLocation, of body: @escaping @Sendable () async throws -> some Sendable
) async throws -> FleetError {
    do {
        let value = try await within(sourceLocation: sourceLocation) { try await body() }
        Issue.record("the operation succeeded: \(value)", sourceLocation: sourceLocation)
    } catch let error as FleetError {
        return error
    }
    throw Overdue(description: "the operation succeeded, but an error was expected")
}

extension RedisClient {
    /// A look-up with a budget that a busy machine does not exceed.
    func get(_ key: String) async throws(FleetError) -> RedisValue {
        try await call(RedisCommand("GET", [.text(key)]), .time(.seconds(10)))
    }

    func set(_ key: String, _ value: String) async throws(FleetError) {
        _ = try await call(RedisCommand("SET", [.text(key), .text(value)]), .time(.seconds(10)))
    }
}
