public import HTTPCore
public import LATClient
import SQLite

// What the app and the command line ask for.
extension OutboxEngine {
    func retry(_ id: Int64) throws {
        let row = try changing(id) { connection, row in
            if row.state.isDead {
                try connection.retry(row)
            } else if row.state == .waiting {
                try connection.run("UPDATE entries SET due = 0 WHERE id = ?") { $0.bind(1, id) }
            }
        }
        guard row.state.isDead || row.state == .waiting else { return }
        results[id] = nil
        if row.state == .waiting {
            targets.openAll(at: now)
            seat?.ring(isUrgent: true)
        }
        var retried = row
        (retried.state, retried.attempts, retried.reason, retried.status) = (.waiting, 0, nil, nil)
        if row.state.isDead { hub.send(.retried(entry(retried))) }
    }

    func drop(_ id: Int64) throws {
        let row = try changing(id) { try $0.remove($1) }
        (running[id] ?? nil)?.cancel()
        results[id] = nil
        removeFiles(of: row)
        hub.send(.dropped(entry(row)))
    }

    func sendNow() throws {
        try writing { try $0.execute("UPDATE entries SET due = 0 WHERE state = 0 AND due > 0") }
        targets.openAll(at: now)
        seat?.ring(isUrgent: true)
    }

    private func changing(
        _ id: Int64, _ change: (SQLiteConnection, OutboxRow) throws -> Void
    ) throws -> OutboxRow {
        let row = try writing { connection -> OutboxRow in
            guard let row = try connection.entry(id) else {
                throw NetworkError(
                    .unknownName,
                    message: "the outbox has no entry \(id); it was sent or dropped, or look for it in entries")
            }
            try change(connection, row)
            return row
        }
        seat?.ring()
        return row
    }
}

extension CentralRequestManager {
    /// The outbox that was opened last with this manager.
    ///
    /// - Throws: ``NetworkError/Kind/unsupported`` if there is none, or it was released.
    public var outbox: Outbox {
        get throws {
            if let outbox = attachedOutbox.value as? Outbox { return outbox }
            throw NetworkError(
                .unsupported,
                message:
                    "the manager has no outbox; open one with Outbox(folder:manager:) at the start of the program, and "
                    + "keep it")
        }
    }
}

extension EntityRequest {
    /// Adds the request to the manager's outbox. It is on the disk when this returns, and is sent when that is possible; see
    /// ``Outbox``.
    ///
    /// ```swift
    /// try await SavePhotos(files: photos).enqueue(group: "shop-7", expires: .seconds(86_400))
    /// ```
    ///
    /// The parameters are those of ``Outbox/add(_:group:supersedes:expires:priority:handler:files:)``. The row of the table, and
    /// what it sets, is that of the moment of sending. If the row is not in the table then, the entry waits for it.
    ///
    /// - Returns: the number of the entry.
    @discardableResult
    public func enqueue(
        on manager: CentralRequestManager = .shared, group: String? = nil, supersedes: String? = nil,
        expires: Duration? = nil, priority: RequestPriority? = nil, handler: String? = nil,
        files: Outbox.FileKeeping = .copied, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Outbox.Entry.ID {
        var item = Outbox.Item(self)
        (item.group, item.supersedes, item.expires) = (group, supersedes, expires)
        (item.priority, item.handler, item.files) = (priority, handler, files)
        return try await manager.outbox.add([item])[0]
    }
}
