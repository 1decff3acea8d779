import FoundationEssentials
import HTTPCore
import LATClient
import Platform
import SQLite

// What the end of an attempt changes: the entry, its target, and what others see of it.
extension OutboxEngine {
    /// Records ends, ends what has expired, and sends the next entries.
    func advance(_ endings: [Ending]) {
        let now = now
        let new = endings.map { outcome($0, now) }
        for outcome in new { land(outcome, now) }
        let starting = record(unrecorded + new, now, picks: isSender && !isClosed && !isRetired)
        for flight in starting { send(flight) }
    }

    /// What the end of an attempt changes. The row of the flight is that after the attempt.
    struct Outcome {
        var flight: Flight
        var result: Result<HTTPResponse, NetworkError>
        var verdict: OutboxVerdict
        var retryAfter: Duration?
        var failure: NetworkError?
        /// Whether the entry waits for the same reason as before, and nothing was sent.
        var isRepetition = false
        var isSuperseded = false
        /// Whether the entry was dropped while it was sent.
        var isGone = false

        var row: OutboxRow { flight.row }
    }

    /// Records ends with one commit.
    ///
    /// - Parameter picks: whether to pick the entries to send next in the same commit.
    /// - Returns: these entries.
    private func record(_ ended: [Outcome], _ now: Int64, picks: Bool) -> [Flight] {
        var outcomes = ended
        guard !outcomes.isEmpty || picks && freePlaces > 0 else { return [] }
        pickedAt = now
        unrecorded = []
        var expired: [OutboxRow] = []
        var starting: [Flight] = []
        if !outcomes.allSatisfy(\.removes) { ahead = nil }
        var newAhead = ahead
        do {
            // What is picked need not survive, nor why nothing was sent.
            try recording(isDurable: outcomes.contains(where: \.isDurable)) { transaction in
                // Most entries are removed. That is done together, and costs less.
                try transaction.remove(outcomes.compactMap { $0.removes ? $0.flight : nil })
                for index in outcomes.indices where !outcomes[index].removes {
                    try self.record(&outcomes[index], transaction)
                }
                try self.keepTime(transaction.connection)
                if picks {
                    expired = try self.expire(now, transaction)
                    newAhead = expired.isEmpty ? self.ahead : nil
                    starting = try self.pick(now, &newAhead, transaction)
                }
                // Only the sender: what is kept is of the process that has the seat.
                if self.isSender, !outcomes.isEmpty || !starting.isEmpty {
                    transaction.keepFlight(Array(self.running.keys) + starting.map(\.row.id))
                }
            }
        } catch {
            // Nothing is sent twice by this process: the ends stay here until they can be written.
            unrecorded = ended
            ahead = nil
            noteStore(failed: true)
            hub.send(.trouble(error))
            return []
        }
        ahead = newAhead
        noteStore(failed: false)
        if !outcomes.isEmpty { store.keepReserve(isIdle: starting.isEmpty && running.isEmpty) }
        for outcome in outcomes { tell(outcome) }
        for row in expired { tellExpired(row) }
        // There may be more of them.
        if expired.count >= Self.expiryLimit { perform { _ in } }
        return starting
    }

    private func outcome(_ ending: Ending, _ now: Int64) -> Outcome {
        let flight = ending.flight
        flight.secrets = ending.secrets
        var failure: NetworkError?
        switch ending.result {
        case .failure(let error): failure = error
        case .success(let response): failure = OutboxRule.redirectFailure(response)
        }
        guard let failure else {
            if case .success(let response) = ending.result { flight.row.status = response.status }
            flight.row.attempts += 1
            return Outcome(flight: flight, result: ending.result, verdict: .succeeded)
        }
        let response = failure.response
        let retryAfter = response?.retryAfter(at: Int64(Date.now.timeIntervalSince1970))
        let before = flight.row
        let verdict = rule.verdict(
            after: failure,
            OutboxRule.Attempt(
                count: before.attempts + 1, unseen: before.unseen, isTransient: ending.isTransient,
                retryAfter: retryAfter, chance: .random(in: 0...1)))
        var row = before
        row.status = response?.status
        row.reason = "\(failure.message)"
        if [401, 407].contains(response?.status) {
            row.reason? += "; the entries for this server wait, and one at a time tries whether it accepts them again"
        }
        switch verdict {
        case .unreachable, .rowMissing: break
        case .interrupted:
            row.unseen = max(row.unseen, 1)
            row.due = now + rule.backoff.pause(afterFailures: 1).wholeMilliseconds
            if let expires = row.expires, expires <= now { row.reason = before.reason }
        case .wait(let pause, _):
            row.attempts += 1
            row.due = now + pause.wholeMilliseconds
            if OutboxRule.mayHaveArrived(failure) { row.unseen = max(row.unseen, 1) }
            if response?.status == 409, row.unseen > 0 { row.unseen += 1 }
        case .succeeded, .refused, .givenUp: row.attempts += 1
        }
        flight.row = row
        return Outcome(
            flight: flight, result: ending.result, verdict: verdict, retryAfter: retryAfter, failure: failure,
            isRepetition: [.unreachable, .rowMissing].contains(verdict) && before.reason == row.reason)
    }

    private func record(_ outcome: inout Outcome, _ transaction: OutboxTransaction) throws {
        let row = outcome.row
        switch outcome.verdict {
        case .succeeded:
            guard case .success(let response) = outcome.result else { break }
            outcome.isGone = try !transaction.end(
                row, .answered, answer: answer(response, outcome.flight), isTold: false)
        case .refused, .givenUp:
            outcome.isGone = try !transaction.end(
                row, outcome.verdict == .refused ? .refused : .givenUp,
                answer: outcome.failure?.response.map { answer($0, outcome.flight) }, isTold: row.handler == nil)
        case .wait, .unreachable, .rowMissing, .interrupted:
            // One with a key has a mark to lose.
            if outcome.isRepetition, row.supersedes == nil { break }
            outcome.isSuperseded = try transaction.postpone(row)
        }
    }

    /// Frees the place of a call that has ended, and changes its target.
    private func land(_ outcome: Outcome, _ now: Int64) {
        let flight = outcome.flight
        let target = flight.row.target
        noteLimit(flight, isWaiting: false)
        running[flight.row.id] = nil
        // Its call has a closure that holds the flight.
        flight.task = nil
        if let group = flight.row.group { groups.remove(group) }
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

    private func tell(_ outcome: Outcome) {
        if outcome.removes, !hub.isActive {
            sent.add(1, ordering: .relaxed)
            return remove(files: outcome.flight.files)
        }
        var row = outcome.row
        if outcome.isSuperseded { tellSuperseded(row) }
        switch outcome.verdict {
        case .succeeded:
            sent.add(1, ordering: .relaxed)
            if row.handler != nil {
                row.state = .answered
            } else {
                remove(files: outcome.flight.files)
            }
            if hub.isActive, let response = try? outcome.result.get() {
                hub.send(.succeeded(entry(row), response))
            }
        case .refused, .givenUp:
            failed.add(1, ordering: .relaxed)
            row.state = outcome.verdict == .refused ? .refused : .givenUp
            if hub.isActive, let failure = outcome.failure { hub.send(.died(entry(row), failure)) }
        case .wait, .unreachable, .rowMissing:
            if outcome.isRepetition { return }
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
        guard !outcome.isGone, let handler = row.handler else { return }
        keepResult(outcome.failure.map { .failure($0) } ?? outcome.result, of: row, for: handler)
        callHandlers(handler)
    }

    /// Keeps a few results for handlers that are called soon; others are read from the store, with the beginning of the body.
    private func keepResult(_ result: Result<HTTPResponse, NetworkError>, of row: OutboxRow, for handler: String) {
        results[row.id] = nil
        if handlers[handler] != nil, results.count < 32 { results[row.id] = (handler, result) }
    }

    // MARK: The store

    /// Writes, and sets a damaged store aside.
    ///
    /// - Parameter isDurable: whether the change is on the disk when this returns.
    func writing<Result>(
        isDurable: Bool = true, _ body: (OutboxTransaction) throws -> Result
    ) throws(NetworkError) -> Result {
        try replacingDamaged { () throws(NetworkError) in try store.write(isDurable: isDurable, body) }
    }

    /// Writes what has happened already, or makes room: on a full disk the reserve is given up for it.
    func recording<Result>(
        isDurable: Bool = true, _ body: (OutboxTransaction) throws -> Result
    ) throws(NetworkError) -> Result {
        do throws(NetworkError) {
            return try writing(isDurable: isDurable, body)
        } catch {
            guard error.outboxFailure == .diskFull else { throw error }
            store.releaseReserve()
            defer { store.keepReserve() }
            return try writing(body)
        }
    }

    /// Reads, and sets a damaged store aside.
    func reading<Result>(_ body: (SQLiteConnection) throws -> Result) throws(NetworkError) -> Result {
        try replacingDamaged { () throws(NetworkError) in try store.read(body) }
    }

    private func replacingDamaged<Result>(_ use: () throws(NetworkError) -> Result) throws(NetworkError) -> Result {
        do {
            return try use()
        } catch {
            guard error.underlying is OutboxStore.Damage else { throw error }
            if let report = try store.replaceDamaged(error) { hub.send(.trouble(report)) }
            return try use()
        }
    }

    // MARK: Expiry

    /// The largest number of entries that expire in one turn.
    private static let expiryLimit = 1_000

    private func expire(_ now: Int64, _ transaction: OutboxTransaction) throws -> [OutboxRow] {
        let rows = try transaction.connection.entries("state = 0 AND expires <= ?1 LIMIT ?2") {
            $0.bind(1, now)
            $0.bind(2, Int64(Self.expiryLimit + running.count))
        }
        // One that waits for a limit of its row expires when its call has ended.
        for row in rows { if let flight = running[row.id], flight.isWaiting { flight.task?.cancel() } }
        return try rows.filter { running[$0.id] == nil }.map { row in
            var ended = row
            ended.reason = "it expired before it could be sent" + (row.reason.map { "; \($0)" } ?? "")
            try transaction.end(ended, .expired, answer: nil, isTold: row.handler == nil)
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
}

extension OutboxEngine.Outcome {
    /// Whether the entry is removed, because nobody waits for its answer.
    fileprivate var removes: Bool { verdict == .succeeded && flight.row.handler == nil }

    /// Whether what it changes has to be on the disk.
    fileprivate var isDurable: Bool {
        switch verdict {
        case .unreachable, .rowMissing: false
        default: true
        }
    }
}
