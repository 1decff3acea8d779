import HTTPCore
import Testing

/// Returns the error that a call throws, and records an issue when the call succeeds.
package func failure<T>(
    of call: () async throws -> T, sourceLocation: SourceLocation = #_sourceLocation
) async -> NetworkError? {
    do {
        _ = try await call()
        Issue.record("the call succeeded", sourceLocation: sourceLocation)
    } catch let error as NetworkError {
        return error
    } catch {
        Issue.record("not a NetworkError: \(error)", sourceLocation: sourceLocation)
    }
    return nil
}
