import LATNetworking
import LATTesting
import Testing

/// The RFC 9111 cases over real sockets, on every store, with a test clock.
@Suite(.timeLimit(.minutes(5))) struct ConformanceTests {
    private static let categories: [String: [ConformanceCase]] = [
        "Cache-Control": FreshnessCases.cacheControl, "parsing": FreshnessCases.parsing,
        "Expires": FreshnessCases.expires, "heuristic": FreshnessCases.heuristic,
        "response directives": DirectiveCases.responses, "request directives": DirectiveCases.requests,
        "statuses": DirectiveCases.statuses, "staleness": DirectiveCases.staleness, "Vary": SelectionCases.vary,
        "conditions": SelectionCases.conditions, "parts": SelectionCases.parts, "stored fields": UpdateCases.stored,
        "304": UpdateCases.validated, "HEAD": UpdateCases.heads, "invalidation": UpdateCases.invalidation,
        "others": UpdateCases.others, "shared": DirectiveCases.shared,
    ]

    @Test(arguments: categories.keys.sorted(), StoreKind.allCases)
    func everyCasePasses(_ category: String, on store: StoreKind) async throws {
        let cases = try #require(Self.categories[category])
        #expect(!cases.isEmpty)
        let bench = try CacheBench(store, category == "shared" ? .shared : .private)
        for test in cases {
            let complaint = try await ConformanceRun(test, on: bench).failure()
            #expect(complaint == nil, "\(test.kind) \(test.id)")
        }
        await bench.shutdown()
    }

    @Test func secondProcessFindsTheFirstsResponse() async throws {
        let bench = try CacheBench(.twoProcesses)
        bench.server.count(["Cache-Control": "max-age=60"])
        let request = HTTPRequest("GET", bench.server.url())
        // A response from disk was stored by the other process. Its own would be in memory.
        for source in [HTTPResponse.Source.network, .diskCache] {
            let response = try await bench.send(request)
            #expect(response.source == source && response.text == "1")
        }
        #expect(try await bench.send(request).source.isFromCache)
        try await bench.cache().removeAll()
        for source in [HTTPResponse.Source.network, .diskCache] {
            let response = try await bench.send(request)
            #expect(response.source == source && response.text == "2")
        }
        await bench.shutdown()
    }

    @Test func caseIDsAreUnique() {
        let all = Self.categories.values.flatMap { $0 }
        #expect(Set(all.map(\.id)).count == all.count)
        #expect(all.count { $0.kind == .required } >= 130 && all.count { $0.kind == .optimal } >= 120)
    }
}
