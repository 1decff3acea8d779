import Foundation
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// The copy on disk of a table from a source.
@Suite(.timeLimit(.minutes(1))) struct TableCopyTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// No folder can be made where a file is, until somebody removes it.
    @Test func copyThatCouldNotBeWrittenIsWrittenLater() async throws {
        let server = try MockServer()
        let text = "{ domains: { a: { baseURL: 'http://127.0.0.1:8080' } } }"
        server.fallback { request in
            request.headers["If-None-Match"] == "\"1\"" ? .status(304) : .text(text).header("ETag", "\"1\"")
        }
        let obstacle = try directory.write(Data(), to: "tables")
        let path = directory.path(of: "tables/copy.json5")
        let source = DomainTable.Source.url(server.url("/t"), every: .milliseconds(100), copy: .file(path))
        let table = try await DomainTable(from: source, environment: nil)
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = table
        let manager = try CentralRequestManager(configuration: configuration)
        try FileManager.default.removeItem(atPath: obstacle)
        try await eventually("the copy") { directory.read("tables/copy.json5") != nil }
        await manager.shutdown()
        #expect(try DomainTable(contentsOf: path, environment: nil).domainNames == ["a"])
    }
}
