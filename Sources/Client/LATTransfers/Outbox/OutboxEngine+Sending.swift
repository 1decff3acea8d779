import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform
import SQLite

// What only the process does that has the seat: it sends, and records how that ended.
extension OutboxEngine {
    /// Another process has rung, or left the seat.
    ///
    /// - Parameter isUrgent: whether it wants everything to be sent now.
    func noticed(isUrgent: Bool) {
        if !isSender { takeSeat() }
        if isUrgent { targets.openAll(at: now) }
    }

    func takeSeat() {
        guard !isClosed, !isRetired, !isSender, configuration.limit > 0, storeTrouble.retryAt <= now, let seat,
            seat.take()
        else { return }
        var superseded: [OutboxRow] = []
        do {
            let reset = { (connection: SQLiteConnection) in
                let left = try connection.entries("state = 0 AND sending = 1 AND supersedes IS NOT NULL")
                // What a process that died was sending may have had its effect.
                try connection.execute("UPDATE entries SET sending = 0, unseen = 1 WHERE sending = 1")
                superseded = try left.filter { try connection.removeSuperseded($0) }
                try self.keepTime(connection, always: true)
            }
            do {
                try writing(reset)
            } catch let error where error.outboxFailure == .diskFull {
                store.releaseReserve()
                try writing(reset)
            }
        } catch {
            // The entries of a process that died would never be sent. The seat looks again every second.
            noteStore(failed: true)
            hub.send(.trouble(error))
            seat.leave()
            return
        }
        noteStore(failed: false)
        for row in superseded { tellSuperseded(row) }
        removeOrphans()
        isSender = true
        hub.send(.isSender(true))
        callHandlers(nil)
    }

    /// Removes the files of entries that were never added, because their process died.
    private func removeOrphans() {
        let bodies = folder + "/bodies"
        let names = Set((try? FileManager.default.contentsOfDirectory(atPath: bodies)) ?? [])
        guard !names.isEmpty else { return }
        let lock = open(folder + "/bodies.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { return }
        // Who adds an entry with files holds the shared lock until it is added.
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            Glibc.close(lock)
            return
        }
        flock(lock, LOCK_UN)
        Glibc.close(lock)
        guard let used = try? store.read({ try $0.ownFiles() }) else { return }
        for name in names.subtracting(used) { unlink("\(bodies)/\(name)") }
    }

    // MARK: Turns

    /// Records ends, ends what has expired, and sends the next entries.
    func advance(_ endings: [Ending]) {
        unrecorded = []
        let starting = record(endings, picks: isSender && !isClosed && !isRetired)
        for row in starting { send(row) }
    }

    /// What the end of an attempt changes.
    private struct Outcome {
        var ending: Ending
        var row: OutboxRow
        var verdict: OutboxVerdict
        var retryAfter: Duration?
        var failure: NetworkError?
        var isSuperseded = false
    }

    /// Records ends with one commit.
    ///
    /// - Parameter picks: whether to pick the entries to send next in the same commit.
    /// - Returns: these entries.
    private func record(_ endings: [Ending], picks: Bool) -> [OutboxRow] {
        let now = now
        var outcomes = endings.map { outcome($0, now) }
        guard !outcomes.isEmpty || picks && running.count < configuration.limit else { return [] }
        pickedAt = now
        for outcome in outcomes { change(targets: outcome, now) }
        var expired: [OutboxRow] = []
        var starting: [OutboxRow] = []
        let write = { (connection: SQLiteConnection) in
            for index in outcomes.indices {
                outcomes[index].isSuperseded = try self.record(outcomes[index], connection)
            }
            try self.keepTime(connection)
            guard picks else { return }
            expired = try self.expire(now, connection)
            starting = try self.pick(now, freed: outcomes, connection)
        }
        var isReserveGone = false
        do {
            do {
                // Without ends there is only what is picked, which need not survive.
                try writing(isDurable: !outcomes.isEmpty, write)
            } catch let error where error.outboxFailure == .diskFull {
                store.releaseReserve()
                isReserveGone = true
                try writing(write)
            }
        } catch {
            // Nothing is sent twice by this process: the ends stay here until they can be written.
            unrecorded = endings
            noteStore(failed: true)
            hub.send(.trouble(error))
            return []
        }
        noteStore(failed: false)
        if !outcomes.isEmpty || isReserveGone { store.keepReserve() }
        for outcome in outcomes { tell(outcome) }
        for row in expired { tellExpired(row) }
        // There may be more of them.
        if expired.count == Self.expiryLimit { perform { _ in } }
        return starting
    }

    private func outcome(_ ending: Ending, _ now: Int64) -> Outcome {
        var row = ending.row
        var failure: NetworkError?
        switch ending.result {
        case .failure(let error): failure = error
        case .success(let response): failure = OutboxRule.redirectFailure(response)
        }
        let response = failure?.response ?? (try? ending.result.get())
        let retryAfter = failure == nil ? nil : response?.retryAfter(at: Int64(Date.now.timeIntervalSince1970))
        let verdict = rule.verdict(
            after: failure,
            OutboxRule.Attempt(
                count: row.attempts + 1, hasUnseen: row.hasUnseen, isTransient: ending.isTransient,
                retryAfter: retryAfter, chance: .random(in: 0...1)))
        row.status = response?.status
        row.reason = failure.map { "\($0.message)" }
        if [401, 407].contains(response?.status) {
            row.reason? += "; the entries for this server wait, and one at a time tries whether it accepts them again"
        }
        switch verdict {
        case .unreachable, .rowMissing: break
        case .interrupted:
            row.hasUnseen = true
            row.due = now + rule.backoff.pause(afterFailures: 1).wholeMilliseconds
        case .wait(let pause, _):
            row.attempts += 1
            row.due = now + pause.wholeMilliseconds
            if response == nil { row.hasUnseen = true }
        case .succeeded, .refused, .givenUp: row.attempts += 1
        }
        return Outcome(ending: ending, row: row, verdict: verdict, retryAfter: retryAfter, failure: failure)
    }

    /// - Returns: whether a newer entry has replaced it.
    private func record(_ outcome: Outcome, _ connection: SQLiteConnection) throws -> Bool {
        let row = outcome.row
        switch outcome.verdict {
        case .succeeded:
            guard row.handler != nil, let response = try? outcome.ending.result.get() else {
                try connection.remove(row)
                break
            }
            try connection.end(row, .answered, answer: answer(response), isTold: false)
        case .refused, .givenUp:
            try connection.end(
                row, outcome.verdict == .refused ? .refused : .givenUp,
                answer: outcome.failure?.response.map(answer), isTold: row.handler == nil)
        case .wait, .unreachable, .rowMissing, .interrupted: return try connection.postpone(row)
        }
        return false
    }

    private func change(targets outcome: Outcome, _ now: Int64) {
        let target = outcome.row.target
        guard running.removeValue(forKey: outcome.row.id) != nil else { return }
        if let group = outcome.row.group { groups.remove(group) }
        targets.ends(target)
        switch outcome.verdict {
        case .succeeded, .refused, .givenUp, .wait(_, pausesTarget: false): targets.succeeded(target)
        case .wait(let pause, pausesTarget: true):
            let asked = min(outcome.retryAfter ?? .zero, OutboxRule.longestRetryAfter)
            targets.failed(target, at: now) { failures in
                now + max(asked, min(pause, rule.backoff.pause(afterFailures: failures))).wholeMilliseconds
            }
        case .rowMissing:
            // The table is looked at again from time to time; that costs no request.
            targets.failed(target, at: now) { now + Int64(min($0, 5)) * 1_000 }
        case .unreachable:
            let failures = targets.failed(target, at: now) { _ in nil }
            watch(target, outcome.failure?.request?.url ?? outcome.failure?.url, failures)
        case .interrupted: break
        }
    }

    /// Opens a target again when it can be connected to. Each failure since the last success makes the wait longer, because a
    /// server that accepts connections may still fail each request.
    private func watch(_ target: String, _ url: String?, _ failures: Int) {
        guard watches[target] == nil, !isClosed else { return }
        let pause = failures > 1 ? rule.backoff.pause(afterFailures: failures - 1) : .zero
        let longest = configuration.longestWait
        watches[target] = Task { [weak self, central] in
            try? await CallClock.continuous.sleep(pause)
            if let url, !Task.isCancelled { _ = await central.reachability.waitUntilConnectable(url, within: longest) }
            guard !Task.isCancelled else { return }
            self?.perform { engine in
                engine.watches[target] = nil
                engine.targets.open(target, at: engine.now)
            }
        }
    }

    private func tell(_ outcome: Outcome) {
        var row = outcome.row
        if outcome.isSuperseded { tellSuperseded(row) }
        switch outcome.verdict {
        case .succeeded:
            sent.add(1, ordering: .relaxed)
            if row.handler != nil {
                row.state = .answered
            } else {
                removeFiles(of: row)
            }
            if hub.isActive, let response = try? outcome.ending.result.get() {
                hub.send(.succeeded(entry(row), response))
            }
        case .refused, .givenUp:
            failed.add(1, ordering: .relaxed)
            row.state = outcome.verdict == .refused ? .refused : .givenUp
            if hub.isActive, let failure = outcome.failure { hub.send(.died(entry(row), failure)) }
        case .wait, .unreachable, .rowMissing:
            failed.add(1, ordering: .relaxed)
            if hub.isActive, !outcome.isSuperseded, let failure = outcome.failure {
                hub.send(.failed(entry(row), failure))
            }
            return
        case .interrupted:
            // Nothing more can be sent with a manager that was shut down.
            if outcome.failure?.kind == .shutDown { isRetired = true }
            return
        }
        guard let handler = row.handler else { return }
        keepResult(outcome.failure.map { .failure($0) } ?? outcome.ending.result, of: row, for: handler)
        callHandlers(handler)
    }

    /// Keeps a few results for handlers that are called soon; others are read from the store, with the beginning of the body.
    private func keepResult(_ result: Result<HTTPResponse, NetworkError>, of row: OutboxRow, for handler: String) {
        if handlers[handler] != nil, results.count < 32 { results[row.id] = result }
    }

    // MARK: Expiry

    /// The largest number of entries that expire in one turn.
    private static let expiryLimit = 1_000

    private func expire(_ now: Int64, _ connection: SQLiteConnection) throws -> [OutboxRow] {
        let rows = try connection.entries("state = 0 AND expires <= ? AND sending = 0 LIMIT \(Self.expiryLimit)") {
            $0.bind(1, now)
        }
        return try rows.map { row in
            var ended = row
            ended.reason = "it expired before it could be sent" + (row.reason.map { "; \($0)" } ?? "")
            try connection.end(ended, .expired, answer: nil, isTold: row.handler == nil)
            ended.state = .expired
            return ended
        }
    }

    private func tellExpired(_ row: OutboxRow) {
        let failure = Self.expired(row)
        if hub.isActive { hub.send(.died(entry(row), failure)) }
        guard let handler = row.handler else { return }
        keepResult(.failure(failure), of: row, for: handler)
        callHandlers(handler)
    }

    static func expired(_ row: OutboxRow) -> NetworkError {
        NetworkError(.timeout(.deadline), message: row.reason ?? "it expired before it could be sent")
    }

    // MARK: Sending

    /// Marks the entries to send next.
    private func pick(_ now: Int64, freed: [Outcome], _ connection: SQLiteConnection) throws -> [OutboxRow] {
        let free = configuration.limit - running.count
        guard free > 0, unrecorded.isEmpty else { return [] }
        var picked: [OutboxRow] = []
        var targets = targets
        var groups = groups
        // A target that was paused is closed again after the first of its entries; others may fill the places that this leaves.
        var count = -1
        while picked.count < free, picked.count != count {
            count = picked.count
            for row in try connection.candidates(at: now, limit: free, closed: targets.closed(at: now)) {
                guard picked.count < free, running[row.id] == nil, targets.isOpen(row.target, at: now) else { continue }
                // One that was dropped while it is sent holds its group until it has ended.
                if let group = row.group { guard groups.insert(group).inserted else { continue } }
                guard try connection.begin(row) else { continue }
                targets.begins(row.target)
                picked.append(row)
            }
        }
        return picked
    }

    private func send(_ row: OutboxRow) {
        running[row.id] = .some(nil)
        if let group = row.group { groups.insert(group) }
        targets.begins(row.target)
        let call: KeptRequest.Call
        do throws(NetworkError) {
            guard let kept = KeptRequest(row.request) else { throw KeptRequest.damaged }
            call = try kept.call(row, folder: folder)
        } catch {
            return ended(Ending(row: row, result: .failure(error), isTransient: false))
        }
        // The bytes are not needed any more when it ends.
        var row = row
        row.body = Data()
        let task = central.start(on: .immediate) { [central] () throws(NetworkError) in
            switch call {
            case .request(let request): try central.call(request, CallArguments())
            case .entity(let plan): try central.call(plan)
            }
        } conclude: { [central] response, call in
            try central.judged(response, of: call)
        } deliver: { [self, row] task, result in
            var isTransient = false
            if case .failure(let error) = result { isTransient = central.isTransient(error, of: task) }
            ended(Ending(row: row, result: result, isTransient: isTransient))
        }
        running[row.id] = task
    }
}

extension Duration {
    /// The whole milliseconds, rounded up.
    var wholeMilliseconds: Int64 { roundedUpMilliseconds(atMost: 1 << 60) }
}
