import CurlTransport
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Returns settings for tests: they ignore the environment and limit every wait.
func testConfiguration(
    _ change: (inout EngineConfiguration) -> Void = { _ in }
) -> EngineConfiguration {
    var configuration = EngineConfiguration()
    configuration.proxy = .direct
    configuration.timeout = .seconds(20)
    change(&configuration)
    return configuration
}

/// Runs a test with an engine of its own, then shuts it down and checks that it left no libcurl handle, socket or thread.
func withTransport(
    _ configuration: EngineConfiguration = testConfiguration(),
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @Sendable (CurlTransport) async throws -> Void
) async throws {
    let transport = try CurlTransport(configuration: configuration)
    var thrown: (any Error)?
    do {
        try await body(transport)
    } catch {
        thrown = error
    }
    try await within(.seconds(20), "the engine's end", sourceLocation: sourceLocation) { await transport.shutdown() }
    let left = await transport.gauges
    #expect(left.easyHandles == 0, "libcurl handles were left", sourceLocation: sourceLocation)
    #expect(left.sockets == 0, "sockets were left", sourceLocation: sourceLocation)
    #expect(!left.isRunning, "the thread still runs", sourceLocation: sourceLocation)
    if let thrown { throw thrown }
}

/// Returns the `NetworkError` that an operation throws. Any other outcome fails the test.
func failure(
    sourceLocation: SourceLocation = #_sourceLocation, of body: @escaping @Sendable () async throws -> some Sendable
) async throws -> NetworkError {
    do {
        let value = try await within(sourceLocation: sourceLocation) { try await body() }
        Issue.record("the operation succeeded: \(value)", sourceLocation: sourceLocation)
    } catch let error as NetworkError {
        return error
    }
    throw Overdue(description: "the operation succeeded, but an error was expected")
}

extension CurlTransport {
    /// Sends a request and gives up after twenty seconds, whatever the engine does.
    func answer(
        to request: HTTPRequest, for owner: TestOwner? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> HTTPResponse {
        try await within(sourceLocation: sourceLocation) { try await self.send(request, for: owner) }
    }

    /// Sends a GET with ``answer(to:for:sourceLocation:)``.
    func get(_ url: String, sourceLocation: SourceLocation = #_sourceLocation) async throws -> HTTPResponse {
        try await answer(to: HTTPRequest("GET", url), sourceLocation: sourceLocation)
    }

    /// Returns the error of a request that must fail.
    func failure(
        of request: HTTPRequest, for owner: TestOwner? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> NetworkError {
        try await CurlTransportTests.failure(sourceLocation: sourceLocation) {
            try await self.send(request, for: owner)
        }
    }
}

extension CurlTransport {
    /// Starts a request that has to wait or connects to a full backlog, and returns when the engine has it.
    func submit(
        _ request: HTTPRequest, for owner: TestOwner? = nil
    ) async throws -> Task<HTTPResponse, any Error> {
        func count() async -> Int {
            let gauges = await gauges
            return gauges.transfers + gauges.waiting
        }
        let before = await count()
        let task = Task { try await self.send(request, for: owner) }
        try await eventually("the request in the engine") { await count() > before }
        return task
    }
}

extension HTTPRequest {
    /// The request after a change, for one-line tests.
    func with(_ change: (inout HTTPRequest) -> Void) -> HTTPRequest {
        var copy = self
        change(&copy)
        return copy
    }
}
