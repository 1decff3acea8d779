import LATNetworking
import LATTesting
import Testing

/// A private cache by RFC 9111, case by case, over real sockets; the clock is the test's.
@Suite(.timeLimit(.minutes(5))) struct ConformanceTests {
    @Test(arguments: [
        ("Cache-Control", FreshnessCases.cacheControl), ("parsing", FreshnessCases.parsing),
        ("Expires", FreshnessCases.expires), ("heuristic", FreshnessCases.heuristic),
        ("response directives", DirectiveCases.responses), ("request directives", DirectiveCases.requests),
        ("statuses", DirectiveCases.statuses), ("staleness", DirectiveCases.staleness),
        ("Vary", SelectionCases.vary), ("conditions", SelectionCases.conditions), ("parts", SelectionCases.parts),
        ("stored fields", UpdateCases.stored), ("304", UpdateCases.validated), ("HEAD", UpdateCases.heads),
        ("invalidation", UpdateCases.invalidation), ("others", UpdateCases.others),
    ])
    func casesPass(_ category: String, _ cases: [ConformanceCase]) async throws {
        #expect(!cases.isEmpty)
        for test in cases {
            let complaint = try await ConformanceRun(test).failure()
            #expect(complaint == nil, "\(test.kind) \(test.id)")
        }
    }

    @Test func idsAreUnique() {
        let ids = Set(Self.all.map(\.id))
        #expect(ids.count == Self.all.count)
        #expect(Self.all.count { $0.kind == .required } >= 100)
    }

    private static let all =
        FreshnessCases.cacheControl + FreshnessCases.parsing + FreshnessCases.expires + FreshnessCases.heuristic
        + DirectiveCases.responses + DirectiveCases.requests + DirectiveCases.statuses + DirectiveCases.staleness
        + SelectionCases.vary + SelectionCases.conditions + SelectionCases.parts + UpdateCases.stored
        + UpdateCases.validated + UpdateCases.heads + UpdateCases.invalidation + UpdateCases.others
}
