import CassetteTesting
import FoundationEssentials
import LATInspect
import LATNetworking
import LATTesting
import Testing

/// Several cassettes with one file.
@Suite struct SharedCassetteTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.path(of: "calls.yaml") }

    init() throws { directory = try TemporaryDirectory() }

    private func manager() throws -> (CentralRequestManager, Cassette) {
        let cassette = try Cassette(path)
        var configuration = CentralRequestManager.Configuration()
        configuration.transport = cassette
        return (try CentralRequestManager(configuration: configuration), cassette)
    }

    private func text() -> String { directory.read("calls.yaml").map { String(decoding: $0, as: UTF8.self) } ?? "" }

    /// As two cases of a test that record at the same time.
    @Test func recordingOfAnotherCassetteStays() async throws {
        let server = try MockServer { .text($0.path) }
        let (first, one) = try manager()
        let (second, two) = try manager()
        _ = try await first.startRequest("GET", server.url("/first"))
        _ = try await second.startRequest("GET", server.url("/second"))
        try one.eject()
        let error = #expect(throws: NetworkError.self) { try two.eject() }
        #expect(error?.kind == .storage && error?.message.contains("another cassette") == true)
        #expect(text().contains("/first") && !text().contains("/second"))
        _ = try await first.startRequest("GET", server.url("/third"))
        try one.eject()
        #expect(text().contains("/first") && text().contains("/third"))
    }

    /// As the tests of a suite that run one after the other.
    @Test(arguments: [Cassette.Mode.once, .all]) func testsOfASuiteShareAFile(mode: Cassette.Mode) async throws {
        let server = try MockServer { .text($0.path) }
        let trait: CassetteTrait = .cassette(path, mode: mode)
        for name in ["/first", "/second"] {
            try await trait.provideScope(for: #require(Test.current), testCase: Test.Case.current) {
                var configuration = CentralRequestManager.Configuration()
                configuration.transport = Cassette.current
                let central = try CentralRequestManager(configuration: configuration)
                #expect(try await central.startRequest("GET", server.url(name)).text == name)
            }
        }
        #expect(text().contains("/first") && text().contains("/second"))
    }
}
