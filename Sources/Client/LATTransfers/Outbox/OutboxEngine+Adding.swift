import Glibc
import HTTPCore
import Platform
import SQLite

// New entries, and the files of those that are gone.
extension OutboxEngine {
    func add(_ addings: [Adding]) {
        guard !addings.isEmpty else { return }
        guard !isClosed else {
            for adding in addings { adding.done(.failure(Outbox.closed)) }
            return
        }
        var outcomes: [Result<[OutboxTransaction.Added], NetworkError>] = []
        do {
            outcomes = try writing { transaction in
                if addings.count == 1 { return [.success(try self.insert(addings[0], transaction))] }
                // The outbox may be full for one, and have room for another.
                return try addings.map { adding in try transaction.attempt { try self.insert(adding, transaction) } }
            }
        } catch {
            outcomes = addings.map { _ in .failure(error) }
        }
        if !isSender { seat?.ring() }
        if ahead?.isChanged(by: addings.lazy.flatMap(\.rows)) == true { ahead = nil }
        for (adding, outcome) in zip(addings, outcomes) {
            adding.done(outcome.map { $0.map(\.row.id) })
            for (row, added) in zip(adding.rows, (try? outcome.get()) ?? []) {
                for old in added.superseded { tellSuperseded(old) }
                if added.isKnown {
                    // An entry with its key was there already, so this one's files are not needed.
                    removeFiles(of: row)
                } else if hub.isActive {
                    hub.send(.added(entry(added.row)))
                }
            }
        }
    }

    private func insert(_ adding: Adding, _ transaction: OutboxTransaction) throws -> [OutboxTransaction.Added] {
        let now = now
        try keepTime(transaction.connection)
        return try adding.rows.map { row in
            var row = row
            row.added = now
            // The lifetime until now.
            row.expires = row.expires.map { now + $0 }
            return try transaction.add(row, self.configuration)
        }
    }

    func tellSuperseded(_ row: OutboxRow) {
        removeFiles(of: row)
        results[row.id] = nil
        if hub.isActive { hub.send(.superseded(entry(row))) }
    }

    func removeFiles(of row: OutboxRow) {
        remove(files: KeptRequest(row.request)?.ownFiles ?? [])
    }

    func remove(files: [String]) {
        for name in files where !name.contains("/") { unlink("\(folder)/bodies/\(name)") }
    }
}
