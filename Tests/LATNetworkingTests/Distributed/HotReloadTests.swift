import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Path and header come from one row, so a half-updated row would show.
private struct Versioned: RequestEntity { static let route = Route("GET", server: "s") }

@Suite(.timeLimit(.minutes(1))) struct HotReloadTests {
    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer.answering()
    }

    private var path: String { directory.path(of: "domains.json5") }

    private func text(_ version: Int) -> String {
        DomainTable.text(
            server.url("/\(version)"), domain: #"headers: { "X-Domain": "\#(version)" }"#,
            servers: #"s: { domain: "d", path: "\#(version)", headers: { "X-Row": "\#(version)" } }"#)
    }

    private func replaceFile(_ text: String) throws {
        let new = try directory.write(Data(text.utf8), to: "new.json5")
        #expect(rename(new, path) == 0)
    }

    private func version(_ request: RecordedRequest) throws -> Int {
        let parts = request.path.split(separator: "/").map(String.init)
        let all = Set(parts + [request.headers["X-Domain"] ?? "", request.headers["X-Row"] ?? ""])
        #expect(parts.count == 2)
        #expect(all.count == 1, "\(request.target) with \(request.headers)")
        return try #require(Int(parts[0]))
    }

    /// Collects the watcher's events, so that a test can wait for them.
    private final class Events: Sendable {
        let stream: AsyncStream<DomainTable.FileEvent>
        let observer: @Sendable (DomainTable.FileEvent) -> Void

        init() {
            let (stream, continuation) = AsyncStream<DomainTable.FileEvent>.makeStream()
            self.stream = stream
            observer = { continuation.yield($0) }
        }

        /// Waits until the table of this version is loaded.
        func version(_ wanted: Int) async {
            for await event in stream {
                if case .reloaded(let table) = event, (try? table.server("s").path) == "\(wanted)" { return }
            }
        }

        func rejection() async -> NetworkError? {
            for await event in stream { if case .rejected(let error) = event { return error } }
            return nil
        }
    }

    private func start(_ events: Events) throws -> CentralRequestManager {
        try replaceFile(text(0))
        return try CentralRequestManager.make(DomainTable(contentsOf: path, environment: nil)) {
            $0.domainsObserver = events.observer
        }
    }

    @Test func requestsSeeWholeTablesDuringEdits() async throws {
        let events = Events()
        let manager = try start(events)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for version in 1...100 {
                    try replaceFile(text(version))
                    await Task.yield()
                }
            }
            for _ in 0..<20 {
                group.addTask { for _ in 0..<10 { _ = try await Versioned().startRequest(on: manager) } }
            }
            try await group.waitForAll()
        }
        #expect(server.requestCount == 200)
        for request in server.requests { _ = try version(request) }
        await events.version(100)
        _ = try await Versioned().startRequest(on: manager)
        #expect(try version(#require(server.requests.last)) == 100)
    }

    @Test func fileBrokenAtTheStartIsLoadedOnceMended() async throws {
        try replaceFile(text(1))
        let table = try DomainTable(contentsOf: path, environment: nil)
        let events = Events()
        try replaceFile("{ domains: {")
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.domainsObserver = events.observer
        }
        #expect(await events.rejection() != nil)
        #expect(try manager.domains?.server("s").path == "1")
        try replaceFile(text(2))
        await events.version(2)
        #expect(try manager.domains?.server("s").path == "2")
    }

    @Test func invalidFileIsReportedAndNotLoaded() async throws {
        let events = Events()
        let manager = try start(events)
        try replaceFile("{ domains: { d: { baseURL: 5 } } }")
        let error = await events.rejection()
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("domains.json5:1:") == true, "\(error?.message ?? "")")
        _ = try await Versioned().startRequest(on: manager)
        #expect(try version(#require(server.requests.last)) == 0)
        try replaceFile(text(2))
        await events.version(2)
        _ = try await Versioned().startRequest(on: manager)
        #expect(try version(#require(server.requests.last)) == 2)
    }

    @Test func changesInCodeSurviveAFileEdit() async throws {
        let other = try MockServer.answering()
        let events = Events()
        let manager = try start(events)
        let url = other.url("/code")
        try manager.updateDomains { table throws(NetworkError) in try table.setBaseURL(url, forDomain: "d") }
        try replaceFile(text(1))
        await events.version(1)
        _ = try await Versioned().startRequest(on: manager)
        #expect(other.requests.map(\.target) == ["/code/1"])
        #expect(other.requests.first?.headers["X-Row"] == "1")
    }

    @Test func removedRowIsUnknownToTheNextRequest() async throws {
        let events = Events()
        let manager = try start(events)
        try replaceFile(
            DomainTable.text(server.url(), servers: #"t: { domain: "d", path: "t", method: "GET" }"#))
        for await event in events.stream { if case .reloaded = event { break } }
        #expect(await failure { try await Versioned().startRequest(on: manager) }?.kind == .unknownName)
    }
}
