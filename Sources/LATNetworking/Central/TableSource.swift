import FoundationEssentials
import Glibc
import HTTPCore
import Synchronization

/// A manager's table: fixed, or following its file or source.
final class TableSource: Sendable {
    private enum Storage: Sendable {
        /// The state, and the follower that changes it until it is released.
        case followed(WatchState, by: any Sendable)
        case kept
    }

    private let storage: Storage
    private let kept: Mutex<DomainTable?>
    /// Held while a changed table is made, so that no update is lost; readers do not wait for it.
    private let changes = Mutex<Void>(())

    /// Follows the file of a table, or its source. If that fails, the table stays fixed, and the observer gets the error.
    init(_ table: DomainTable?, observer: (@Sendable (DomainTable.FileEvent) -> Void)?) {
        let report = observer ?? Self.reportRejected
        kept = Mutex(table)
        guard let table else {
            storage = .kept
            return
        }
        do {
            if let path = table.path {
                let watcher = try DomainTableWatcher(following: table, at: path, onEvent: report)
                storage = .followed(watcher.state, by: watcher)
            } else if let follower = TableFollower(following: table, onEvent: report) {
                storage = .followed(follower.state, by: follower)
            } else {
                storage = .kept
            }
        } catch {
            storage = .kept
            report(.rejected(error))
        }
    }

    var current: DomainTable? {
        switch storage {
        case .followed(let state, _): state.current
        case .kept: kept.withLock { $0 }
        }
    }

    func update(_ change: (inout DomainTable) throws -> Void) throws {
        switch storage {
        case .followed(let state, _):
            try state.update(change)
        case .kept:
            try changes.withLock { _ in
                var copy = current ?? DomainTable()
                try change(&copy)
                let changed = copy
                kept.withLock { $0 = changed }
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
