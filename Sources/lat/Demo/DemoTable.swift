import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// The table of the demo, in a folder of its own, so that it can be edited: a copy of `Config/domains.json5` when that
/// lies below the current folder and has the row the demo calls, else a short one.
final class DemoTable: Sendable {
    /// The row that is called and edited.
    static let server: ServerName = "demo.get"
    private static let domain: DomainName = "demo"
    private static let row = #""demo.get": { domain: "demo", path: "get", method: "GET" }"#
    private static let editedRow = #""demo.get": { domain: "demo", path: "v2/get", method: "GET" }"#
    private static let short = """
        {
          domains: { demo: { baseURL: "http://127.0.0.1:8080", headers: { "X-App": "demo" } } },
          servers: { \(row) },
        }
        """

    private let directory: TemporaryDirectory
    private let text: String
    private let events: AsyncStream<DomainTableWatcher.Event>
    /// Why the file was refused last.
    private let refusal = Mutex<NetworkError?>(nil)
    private let report: AsyncStream<DomainTableWatcher.Event>.Continuation

    init() throws {
        directory = try TemporaryDirectory()
        let own = (try? Data(contentsOf: URL(filePath: TableArgument.standardPath))).map {
            String(decoding: $0, as: UTF8.self)
        }
        text = own.flatMap { Self.isUsable($0) ? $0 : nil } ?? Self.short
        (events, report) = AsyncStream.makeStream()
        _ = try directory.write(Data(text.utf8), to: Self.fileName)
    }

    /// Puts the table into a configuration, the demo's server in the place of the domain's own.
    func set(up configuration: inout CentralRequestManager.Configuration, baseURL: String) throws {
        var table = try DomainTable(contentsOf: directory.path(of: Self.fileName), environment: nil)
        try table.setBaseURL(baseURL, forDomain: Self.domain)
        configuration.domains = table
        configuration.domainsObserver = { [report] event in report.yield(event) }
    }

    /// Edits the row in the file, and returns when the manager has it.
    ///
    /// - Throws: ``NetworkError`` when the file was refused, or nobody saw the change within two seconds.
    func edit() async throws {
        let edited = text.replacing(Self.row, with: Self.editedRow)
        _ = try directory.write(Data(edited.utf8), to: Self.fileName)
        let isSeen = await withTaskGroup(of: Bool.self) { group in
            group.addTask { await self.isReloaded() }
            group.addTask {
                try? await Task.sleep(for: .seconds(2))
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        try Task.checkCancellation()
        guard !isSeen else { return }
        let message = "the change of the table was not seen within two seconds"
        throw refusal.withLock { $0 } ?? NetworkError(.other, message: message)
    }

    private func isReloaded() async -> Bool {
        for await event in events {
            switch event {
            case .reloaded: return true
            case .rejected(let error): refusal.withLock { $0 = error }
            }
        }
        return false
    }

    private static let fileName = "domains.json5"

    /// Whether the demo can do with this table what it shows.
    private static func isUsable(_ text: String) -> Bool {
        guard text.contains(row), let table = try? DomainTable(json5: text, environment: nil),
            let route = try? table.resolve(server: server)
        else { return false }
        let settings = route.settings
        return route.path == "get" && settings.headers["X-App"] == "demo" && settings.envelope == nil
            && settings.simulation == nil
    }
}
