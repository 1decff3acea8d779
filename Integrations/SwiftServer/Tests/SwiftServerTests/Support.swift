import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import Testing

extension CentralRequestManager {
    static func make(_ change: (inout Configuration) throws -> Void) throws -> CentralRequestManager {
        var configuration = Configuration()
        configuration.retryPolicy.retries = 2
        configuration.retryPolicy.firstWait = .milliseconds(1)
        try change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }
}

/// The address of httpbin, which `scripts/integrations` starts.
let httpbin = getenv("LAT_TEST_HTTPBIN").map { String(cString: $0) }

/// Waits until a condition holds, for up to 30 seconds.
func eventually(_ condition: () async -> Bool, sourceLocation: SourceLocation = #_sourceLocation) async throws {
    let end = ContinuousClock.now + .seconds(30)
    while ContinuousClock.now < end {
        if await condition() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    Issue.record("the condition did not come true", sourceLocation: sourceLocation)
}

/// What others wait for until it is opened.
final class Gate: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func open() { continuation.finish() }

    /// Returns when it is open. Only one task may wait.
    func wait() async { for await _ in stream {} }
}
