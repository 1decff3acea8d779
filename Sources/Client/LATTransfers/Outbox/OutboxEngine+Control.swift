public import HTTPCore
public import LATClient
import Glibc
import SQLite

// What the app and the command line ask for.
extension OutboxEngine {
    // MARK: What others see

    func entry(_ row: OutboxRow) -> Outbox.Entry {
        let request = KeptRequest(row.request)
        let now = now
        return Outbox.Entry(
            id: row.id, state: row.state, method: request?.method, address: request?.address ?? "", group: row.group,
            supersedes: row.supersedes, tag: request?.tag, handler: row.handler,
            priority: RequestPriority(rawValue: Int(row.priority)) ?? .normal, idempotencyKey: row.key, size: row.size,
            added: date(row.added, now: now), expires: row.expires.map { date($0, now: now) }, attempts: row.attempts,
            nextAttempt: row.due > now ? date(row.due, now: now) : nil, reason: row.reason, status: row.status)
    }

    func load() throws -> Outbox.Load {
        var load = Outbox.Load()
        let now = now
        try reading { connection in
            try connection.use("SELECT count, answered, dead, size FROM outbox") { row in
                guard try row.step() else { return }
                load.answered = Int(row.amount(1))
                load.dead = Int(row.amount(2))
                load.waiting = Int(row.amount(0)) - load.answered - load.dead
                load.size = row.amount(3)
            }
            if load.waiting > 0,
                let added = try connection.number("SELECT added FROM entries WHERE state = 0 ORDER BY id LIMIT 1")
            {
                load.oldest = .milliseconds(now - min(max(0, added), now))
            }
        }
        load.sending = running.count
        load.sent = sent.load(ordering: .relaxed)
        load.failed = failed.load(ordering: .relaxed)
        load.isSender = isSender
        load.sender = isSender ? Int(getpid()) : SenderSeat.holder(of: folder)
        return load
    }

    // MARK: Changes

    func retry(_ ids: [Int64]) throws -> [Int64] {
        let rows = try changing(ids) { transaction, row in
            if row.state.isDead {
                try transaction.retry(row)
            } else if row.state == .waiting {
                try transaction.connection.run("UPDATE entries SET due = 0 WHERE id = ?") { $0.bind(1, row.id) }
            } else {
                return false
            }
            return true
        }
        if rows.contains(where: { $0.state == .waiting }) {
            targets.openAll(at: now)
            seat?.ring(isUrgent: true)
        }
        for row in rows {
            results[row.id] = nil
            var retried = row
            (retried.state, retried.attempts, retried.reason, retried.status) = (.waiting, 0, nil, nil)
            if row.state.isDead { hub.send(.retried(entry(retried))) }
        }
        return rows.map(\.id)
    }

    func drop(_ ids: [Int64]) throws -> [Int64] {
        let rows = try changing(ids) { transaction, row in
            try transaction.remove(row)
            return true
        }
        for row in rows {
            running[row.id]?.task?.cancel()
            results[row.id] = nil
            removeFiles(of: row)
            hub.send(.dropped(entry(row)))
        }
        if !rows.isEmpty { store.keepReserve() }
        return rows.map(\.id)
    }

    /// Why an entry was not changed.
    func refusal(of id: Int64) throws -> NetworkError {
        guard let row = try reading({ try $0.entry(id) }) else {
            return NetworkError(
                .unknownName,
                message: "the outbox has no entry \(id); it was sent or dropped, or look for it in entries")
        }
        return NetworkError(
            .unsupported,
            message: "the server has accepted the entry \(id), so it is not sent again; its handler "
                + "\"\(row.handler ?? "")\" has not ended: register it, or drop the entry")
    }

    func sendNow() throws {
        try recording { try $0.connection.execute("UPDATE entries SET due = 0 WHERE state = 0 AND due > 0") }
        ahead = nil
        targets.openAll(at: now)
        seat?.ring(isUrgent: true)
    }

    /// Changes entries in one commit.
    ///
    /// - Parameter change: returns whether it has changed the entry.
    private func changing(
        _ ids: [Int64], _ change: (OutboxTransaction, OutboxRow) throws -> Bool
    ) throws -> [OutboxRow] {
        let rows = try recording { transaction in
            try ids.compactMap { id -> OutboxRow? in
                guard let row = try transaction.connection.entry(id), try change(transaction, row) else { return nil }
                return row
            }
        }
        guard !rows.isEmpty else { return [] }
        ahead = nil
        seat?.ring()
        return rows
    }
}

extension Outbox {
    /// Lets a dead letter wait again, as the last of its group and without expiry. A waiting entry is sent at once.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` if there is no such entry, ``NetworkError/Kind/unsupported`` for one that the
    ///   server has accepted.
    public func retry(_ id: Entry.ID) async throws {
        try await engine.value { if try $0.retry([id]).isEmpty { throw try $0.refusal(of: id) } }
    }

    /// The same for many entries in one commit, so that thousands take no longer than a few.
    ///
    /// - Returns: Those that wait now. Entries that are gone, and those that the server has accepted, are left out.
    @discardableResult
    public func retry(_ ids: [Entry.ID]) async throws -> [Entry.ID] { try await engine.value { try $0.retry(ids) } }

    /// Removes an entry with its files. The call of one that is being sent is cancelled.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` if there is no such entry.
    public func drop(_ id: Entry.ID) async throws {
        try await engine.value { if try $0.drop([id]).isEmpty { throw try $0.refusal(of: id) } }
    }

    /// The same for many entries in one commit.
    ///
    /// - Returns: Those that were there.
    @discardableResult
    public func drop(_ ids: [Entry.ID]) async throws -> [Entry.ID] { try await engine.value { try $0.drop(ids) } }

    /// Sends all waiting entries now, without regard to what they wait for. Within a group they still go one after the other.
    public func sendNow() async throws {
        try await engine.value { try $0.sendNow() }
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
