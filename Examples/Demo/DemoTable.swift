import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// The table of the demo, in a temporary folder so that it can be edited. It is a copy of `Config/domains.json5` in
/// the current folder if that file has the demo's row, otherwise a short table.
package final class DemoTable: Sendable {
    /// The row that the demo calls and edits.
    static let server: ServerName = "demo.get"
    static let domain: DomainName = "demo"
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
    private let events: AsyncStream<DomainTable.FileEvent>
    /// The reason why the file was last refused.
    private let refusal = Mutex<NetworkError?>(nil)
    private let report: AsyncStream<DomainTable.FileEvent>.Continuation

    /// - Parameter path: The path of the table that is copied when it is usable.
    package init(path: String) throws {
        directory = try TemporaryDirectory()
        let own = (try? Data(contentsOf: URL(filePath: path))).map {
            String(decoding: $0, as: UTF8.self)
        }
        text = own.flatMap { Self.isUsable($0) ? $0 : nil } ?? Self.short
        (events, report) = AsyncStream.makeStream()
        _ = try directory.write(Data(text.utf8), to: Self.fileName)
    }

    /// Sets the table in a configuration, with the demo's server as the base URL of the domain.
    package func set(up configuration: inout CentralRequestManager.Configuration, baseURL: String) throws {
        var table = try DomainTable(contentsOf: directory.path(of: Self.fileName), environment: nil)
        try table.setBaseURL(baseURL, forDomain: Self.domain)
        configuration.domains = table
        configuration.domainsObserver = { [report] event in report.yield(event) }
    }

    /// Edits the row in the file, and returns when the manager has read it.
    ///
    /// - Throws: ``NetworkError`` when the file was refused, or the change was not noticed within two seconds.
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
        let message = "the change of the table was not noticed within two seconds"
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

    /// Whether the demo works with this table.
    private static func isUsable(_ text: String) -> Bool {
        guard text.contains(row), let table = try? DomainTable(json5: text, environment: nil),
            let route = try? table.resolve(server: server)
        else { return false }
        let settings = route.settings
        return route.path == "get" && settings.headers["X-App"] == "demo" && settings.envelope == nil
            && settings.simulation == nil
    }
}
