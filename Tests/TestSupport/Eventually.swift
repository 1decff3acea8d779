import Testing

/// Polls a condition for which there is no event, for half a minute at most. It sleeps between checks, so that the awaited
/// work can use the thread. On a machine that is too busy for 3,000 checks in that time, it goes on until they are done.
///
/// A condition that is never met is recorded, because an error thrown from an exit test crashes it without a message.
///
/// - Throws: `Unmet` when the condition is never met, so that the test does not go on.
package func eventually(
    _ what: String = "a condition", isolation: isolated (any Actor)? = #isolation,
    sourceLocation: SourceLocation = #_sourceLocation, _ isSo: () async throws -> Bool
) async throws {
    let end = ContinuousClock.now + .seconds(30)
    var checks = 0
    while try await !isSo() {
        checks += 1
        guard checks < 3_000 || ContinuousClock.now < end else {
            Issue.record("waited for \(what), checked \(checks) times", sourceLocation: sourceLocation)
            throw Unmet(description: "the test cannot go on without \(what)")
        }
        try await Task.sleep(for: .milliseconds(2))
    }
}

/// The error of a test that waited in vain.
package struct Unmet: Error, CustomStringConvertible {
    package let description: String
}
