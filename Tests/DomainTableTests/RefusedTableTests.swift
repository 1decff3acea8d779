import LATNetworking
import LATTesting
import Synchronization
import Testing

/// A new table from a URL that is refused as the program has set the table.
@Suite("A refused table of a URL", .timeLimit(.minutes(1)))
struct RefusedTableTests {
    private final class Site: Sendable {
        let text = Mutex("{ domains: { a: { baseURL: 'http://h:1', environments: { dev: 'http://h:2' } } } }")
    }

    @Test func isUsedWhenTheEnvironmentIsTakenBack() async throws {
        let (server, site) = (try MockServer(), Site())
        server.fallback { _ in .text(site.text.withLock { $0 }) }
        let (events, continuation) = AsyncStream.makeStream(of: DomainTable.FileEvent.self)
        var iterator = events.makeAsyncIterator()
        var configuration = CentralRequestManager.Configuration()
        let source = DomainTable.Source.url(server.url("/t"), every: .milliseconds(50), copy: .none)
        configuration.domains = try await DomainTable(from: source, environment: "dev")
        configuration.domainsObserver = { continuation.yield($0) }
        let manager = try CentralRequestManager(configuration: configuration)
        site.text.withLock { $0 = "{ domains: { a: { baseURL: 'http://h:3' } } }" }
        guard case .rejected(let error)? = await iterator.next() else {
            return #expect(Bool(false), "a table without the environment was used")
        }
        #expect(error.message.contains("unknown environment \"dev\""), "\(error.message)")
        #expect(try manager.domains?.resolve(domain: "a", path: "").baseURLs == ["http://h:2"])
        // Another change is no reason to refuse it once more.
        try manager.updateDomains { try $0.setBaseURL("http://h:9", forDomain: "a") }
        try manager.updateDomains { try $0.setBaseURL(nil, forDomain: "a") }
        try manager.updateDomains { $0.environment = nil }
        guard case .reloaded(let table)? = await iterator.next() else {
            return #expect(Bool(false), "the table was refused once more")
        }
        #expect(try table.resolve(domain: "a", path: "").baseURLs == ["http://h:3"])
    }
}
