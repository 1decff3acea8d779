import FoundationEssentials
import Glibc
import HTTPCore
import Synchronization

/// A manager's table: fixed, or following its file.
final class TableSource: Sendable {
    private enum Storage: Sendable {
        case watched(DomainTableWatcher)
        case kept
    }

    private let storage: Storage
    private let kept: Mutex<DomainTable?>

    /// Watches the file of a table. If that fails, the table stays fixed, and the observer gets the error.
    init(_ table: DomainTable?, observer: (@Sendable (DomainTable.FileEvent) -> Void)?) {
        let report = observer ?? Self.reportRejected
        kept = Mutex(table)
        guard let table, let path = table.path else {
            storage = .kept
            return
        }
        do {
            storage = .watched(try DomainTableWatcher(following: table, at: path, onEvent: report))
        } catch {
            storage = .kept
            report(.rejected(error))
        }
    }

    var current: DomainTable? {
        switch storage {
        case .watched(let watcher): watcher.current
        case .kept: kept.withLock { $0 }
        }
    }

    func update(_ change: (inout DomainTable) throws -> Void) throws {
        switch storage {
        case .watched(let watcher):
            try watcher.update(change)
        case .kept:
            try kept.withLock { table in
                var changed = table ?? DomainTable()
                try change(&changed)
                table = changed
            }
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

    /// Changes the table in code: the environment, a base URL, a row. The change applies from the next request on, and
    /// stays when the file is read again.
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
