import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import Testing

extension CentralRequestManager {
    /// Returns a manager with changed settings, without a proxy, and with its cache in memory.
    static func make(_ change: (inout Configuration) throws -> Void = { _ in }) throws -> CentralRequestManager {
        var configuration = Configuration()
        configuration.proxy = .direct
        configuration.cacheStorage = .memory
        try change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }
}

/// Takes the place of the app. A test can wait for the values that it is shown.
final class Screen: Sendable {
    private let shown = AsyncStream<any Sendable>.makeStream()

    func show(_ value: any Sendable) { shown.continuation.yield(value) }

    /// The next value that was shown and not read yet.
    func next<Value>(_ type: Value.Type = Value.self) async throws -> Value {
        var values = shown.stream.makeAsyncIterator()
        let value = try #require(await values.next())
        return try #require(value as? Value, "shown was \(value)")
    }
}

extension RecordedRequest {
    var json: JSONValue? { try? JSONValue(parsing: body) }
}

/// Returns the error that a call throws, and records an issue when the call succeeds.
func failure<Value>(of call: () async throws -> Value) async throws -> NetworkError {
    do {
        _ = try await call()
    } catch {
        return try #require(error as? NetworkError)
    }
    Issue.record("the call succeeded")
    throw CancellationError()
}

/// A wall clock that a test moves.
final class Clock: Sendable {
    private let time = Mutex(Date())

    var now: Date { time.withLock { $0 } }

    func advance(by seconds: Double) { time.withLock { $0.addTimeInterval(seconds) } }
}

/// The nginx that the test script starts.
enum Nginx {
    static let https = ProcessInfo.processInfo.environment["LAT_TEST_NGINX_HTTPS"]
    static let authority = ProcessInfo.processInfo.environment["LAT_TEST_CA"]
}
