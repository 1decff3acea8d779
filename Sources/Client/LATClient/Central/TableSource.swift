import FoundationEssentials
import Glibc
import HTTPCore
import Synchronization

/// A manager's table: fixed, or following its file or source.
final class TableSource: Sendable {
    /// The table's state, and the follower that changes it until the follower is released; `nil` for a fixed table.
    private let followed: (state: WatchState, follower: any Sendable)?
    private let fixed: Mutex<DomainTable?>
    /// Held while a changed table is made, so that no update is lost; readers do not wait for it.
    private let changes = Mutex<Void>(())

    /// Follows the file of a table, or its source. If that fails, the table stays fixed, and the observer gets the error.
    init(_ table: DomainTable?, observer: (@Sendable (DomainTable.FileEvent) -> Void)?) {
        let report = observer ?? Self.reportRejected
        fixed = Mutex(table)
        do {
            if let table, let path = table.path {
                let watcher = try DomainTableWatcher(following: table, at: path, onEvent: report)
                followed = (watcher.state, watcher)
            } else if let table, let follower = TableFollower(following: table, onEvent: report) {
                followed = (follower.state, follower)
            } else {
                followed = nil
            }
        } catch {
            followed = nil
            report(.rejected(error))
        }
    }

    var current: DomainTable? { if let followed { followed.state.current } else { fixed.withLock { $0 } } }

    func update(_ change: (inout DomainTable) throws -> Void) throws {
        if let followed { return try followed.state.update(change) }
        try changes.withLock { _ in
            var copy = current ?? DomainTable()
            try change(&copy)
            let changed = copy
            fixed.withLock { $0 = changed }
        }
    }

    private static func reportRejected(_ event: DomainTable.FileEvent) {
        guard case .rejected(let error) = event else { return }
        RequestLog.standardError("LATNetworking: \(error.message); the table is unchanged")
    }
}

extension CentralRequestManager {
    /// The current table; `nil` when the manager has none.
    public var domains: DomainTable? { tables.current }

    /// Explains a call as ``DomainTable/explain(_:)``, and what its limits and circuits have learned of the hosts until now.
    ///
    /// ```
    /// user.detail  GET  https://app.example.org/api/v1/users/{id}
    ///   limits         adaptive, 1 to 200 at once per host   Config/domains.json5:12
    ///   limits now     23 at once                            https://app.example.org:443
    ///   circuit now    open                                  https://app.example.org:443
    ///   address now    left out                              https://app.example.org:443 192.0.2.7
    /// ```
    ///
    /// - Parameter name: the name of a server or a domain, or a URL, whose row is then looked up.
    /// - Returns: the text; for an unknown name, or without a table, the error's message.
    public func explain(_ name: String) -> String {
        guard let table = domains else { return "the manager has no domain table; set configuration.domains" }
        return table.explain(name) { route in
            let hosts = Set(route.baseURLs.compactMap { URLReference.origin(of: $0) })
            func state<Value>(_ all: [String: Value], _ setting: String, _ text: (Value) -> String)
                -> [(String, String, String)]
            {
                // Of the server's row, of its domain's, and of the manager.
                let domain = route.domain.rawValue
                let rows = [route.server.map { "\(domain) \($0.rawValue) " }, "\(domain) ", ""].compactMap(\.self)
                return rows.flatMap { row in
                    all.filter { hosts.contains(String($0.key.dropFirst(row.count))) && $0.key.hasPrefix(row) }
                        .map { (setting, text($0.value), String($0.key.dropFirst(row.count))) }.sorted { $0.2 < $1.2 }
                }
            }
            return state(pipeline.limit.adaptiveLimits, "limits now") { "\($0) at once" }
                + state(pipeline.limit.circuits, "circuit now") { $0 ? "open" : "closed, after failures" }
                + (engine?.addressCircuits.all ?? [:]).sorted { $0.key < $1.key }
                .filter { address, _ in hosts.contains { address.hasPrefix($0 + " ") } }
                .map { ("address now", $0.value ? "left out" : "tried again", $0.key) }
        }
    }

    /// Changes the table in code: the environment, a base URL, a row. The change applies from the next request on, and
    /// stays when the file or source is read again.
    ///
    /// ```swift
    /// try manager.updateDomains { $0.environment = "staging" }
    /// ```
    ///
    /// - Throws: what the closure throws; the table is then unchanged.
    public func updateDomains(_ change: (inout DomainTable) throws -> Void) throws {
        try tables.update(change)
    }
}
