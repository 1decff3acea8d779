import CurlTransport
import HTTPCore
import LATTesting
import Synchronization
import Testing

/// Settings for tests: nothing of the environment counts, and no fault keeps a test waiting for long.
func testConfiguration(
    _ change: (inout CurlTransport.Configuration) -> Void = { _ in }
) -> CurlTransport.Configuration {
    var configuration = CurlTransport.Configuration()
    configuration.proxy = .none
    configuration.timeout = .seconds(20)
    change(&configuration)
    return configuration
}

/// Runs a test with an engine of its own, then shuts that down and asserts that it left nothing behind: no libcurl
/// handle, no socket, no thread.
func withTransport(
    _ configuration: CurlTransport.Configuration = testConfiguration(),
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
    try await within(.seconds(10), "the engine's end", sourceLocation: sourceLocation) { await transport.shutdown() }
    let left = await transport.gauges
    #expect(left.easyHandles == 0, "libcurl handles were left", sourceLocation: sourceLocation)
    #expect(left.sockets == 0, "sockets were left", sourceLocation: sourceLocation)
    #expect(!left.isRunning, "the thread still runs", sourceLocation: sourceLocation)
    if let thrown { throw thrown }
}

/// What did not happen in time.
struct Overdue: Error, CustomStringConvertible {
    let description: String
}

/// Awaits something, but only for so long. Unlike a task group it does not wait for what hangs: that is left behind, so
/// that a hang in the engine fails one test and not the whole run.
@discardableResult
func within<Result: Sendable>(
    _ limit: Duration = .seconds(20), _ what: String = "the end", sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    let race = Race<Result>()
    let work = Task {
        do {
            race.finish(.success(try await body()))
        } catch {
            race.finish(.failure(error))
        }
    }
    let clock = Task {
        try await Task.sleep(for: limit)
        race.finish(.failure(Overdue(description: "waited \(limit) for \(what)")))
    }
    defer { clock.cancel() }
    return try await withTaskCancellationHandler {
        try await race.value
    } onCancel: {
        work.cancel()
    }
}

/// The first of several outcomes.
private final class Race<Value: Sendable>: Sendable {
    private enum State {
        case running
        case awaited(CheckedContinuation<Value, any Error>)
        case over(Result<Value, any Error>)
    }

    private let state = Mutex(State.running)

    func finish(_ result: Result<Value, any Error>) {
        let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            switch state {
            case .running:
                state = .over(result)
                return nil
            case .awaited(let continuation):
                state = .over(result)
                return continuation
            case .over:
                return nil
            }
        }
        continuation?.resume(with: result)
    }

    var value: Value {
        get async throws {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    if case .over(let result) = state { return result }
                    state = .awaited(continuation)
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        }
    }
}

/// The error that something throws, as the engine's own kind; a test that gets another or none fails.
func failure(
    sourceLocation: SourceLocation = #_sourceLocation, of body: @escaping @Sendable () async throws -> some Sendable
) async throws -> NetworkError {
    do {
        let value = try await within(sourceLocation: sourceLocation) { try await body() }
        Issue.record("it went well: \(value)", sourceLocation: sourceLocation)
    } catch let error as NetworkError {
        return error
    }
    throw Overdue(description: "no error came")
}

extension CurlTransport {
    /// Sends and gives up after twenty seconds, whatever the engine does.
    func answer(
        to request: HTTPRequest, for owner: TestOwner? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> HTTPResponse {
        try await within(sourceLocation: sourceLocation) { try await self.send(request, for: owner) }
    }

    /// A GET with ``answer(to:sourceLocation:)``.
    func get(_ url: String, sourceLocation: SourceLocation = #_sourceLocation) async throws -> HTTPResponse {
        try await answer(to: HTTPRequest("GET", url), sourceLocation: sourceLocation)
    }

    /// The error of a request that has to fail.
    func failure(
        of request: HTTPRequest, for owner: TestOwner? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> NetworkError {
        try await CurlTransportTests.failure(sourceLocation: sourceLocation) {
            try await self.send(request, for: owner)
        }
    }
}

extension CurlTransport {
    /// Starts a request that will have to wait, and returns when the engine has it.
    ///
    /// Nothing tells when exactly that is. But its body is encoded on the way to the engine, and five requests there and
    /// back to another server take far longer than the rest of that way.
    func submit(
        _ request: HTTPRequest, for owner: TestOwner? = nil
    ) async throws -> Task<HTTPResponse, any Error> {
        let isOnItsWay = Event()
        let request = request.with { $0.body = .json(Signal(event: isOnItsWay)) }
        let task = Task { try await self.send(request, for: owner) }
        await isOnItsWay.wait()
        let other = try MockServer()
        for _ in 0..<5 { _ = try await get(other.url()) }
        return task
    }

    private struct Signal: Encodable, Sendable {
        let event: Event

        func encode(to encoder: any Encoder) throws {
            event.happen()
            var container = encoder.singleValueContainer()
            try container.encode(0)
        }
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
