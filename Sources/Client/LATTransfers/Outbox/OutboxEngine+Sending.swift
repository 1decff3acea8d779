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
            seat.take(makingRoom: { store.releaseReserve() })
        else { return }
        var superseded: [OutboxRow] = []
        do {
            try recording { transaction in
                superseded = try transaction.takeOver()
                try self.keepTime(transaction.connection, always: true)
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
        ahead = nil
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
        guard let used = try? reading({ try $0.ownFiles() }) else { return }
        for name in names.subtracting(used) { unlink("\(bodies)/\(name)") }
    }

    /// Opens a target again when it can be connected to. Each failure since the last success makes the wait longer, because a
    /// server that accepts connections may still fail each request.
    func watch(_ target: String, _ url: String?, _ failures: Int) {
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

    // MARK: Sending

    /// Marks the entries to send next.
    func pick(
        _ now: Int64, _ ahead: inout ReadAhead?, _ transaction: OutboxTransaction
    ) throws -> [Flight] {
        let free = freePlaces
        guard free > 0 else { return [] }
        if let picked = try ReadAhead.pick(free, &ahead, now, self, transaction.connection) { return picked }
        var picked: [Flight] = []
        var taken: Set<Int64> = []
        var targets = targets
        var groups = groups
        // A target that was paused is closed again after the first of its entries; others may fill the places that this leaves.
        var count = -1
        while picked.count < free, picked.count != count {
            count = picked.count
            let found = try transaction.connection.candidates(
                at: now, limit: free + running.count + picked.count, closed: targets.closed(at: now)
            ) { running[$0] != nil || taken.contains($0) }
            for row in found {
                guard picked.count < free, targets.isOpen(row.target, at: now) else { continue }
                // One that was dropped while it is sent holds its group until it has ended.
                if let group = row.group { guard groups.insert(group).inserted else { continue } }
                if row.supersedes != nil { guard try transaction.begin(row) else { continue } }
                targets.begins(row.target)
                taken.insert(row.id)
                picked.append(Flight(row))
            }
        }
        return picked
    }

    func send(_ flight: Flight) {
        running[flight.row.id] = flight
        if let group = flight.row.group { groups.insert(group) }
        targets.begins(flight.row.target)
        let call: KeptRequest.Call
        do throws(NetworkError) {
            let request = try prepared(flight.row)
            flight.files = request.files
            call = try request.call(flight.row, folder: folder)
        } catch {
            return ended(Ending(flight: flight, result: .failure(error), isTransient: false))
        }
        // The bytes are not needed any more when it ends.
        flight.row.body = Data()
        flight.task = Task { [self] in
            var secrets = Secrets()
            let (result, isTransient) = await central.result { () throws(NetworkError) in
                switch call {
                case .request(let request): try central.call(request)
                case .entity(let plan): try central.call(plan)
                }
            } begin: { call in
                secrets = call.request.context.rowSecrets
                call.observeLimits { [weak self] isWaiting in
                    self?.perform { $0.noteLimit(flight, isWaiting: isWaiting) }
                }
            }
            ended(Ending(flight: flight, result: result, isTransient: isTransient, secrets: secrets))
        }
    }

    private func prepared(_ row: OutboxRow) throws(NetworkError) -> KeptRequest.Prepared {
        if let lastRequest, lastRequest.priority == row.priority, lastRequest.data == row.request {
            return lastRequest.prepared
        }
        guard let kept = KeptRequest(row.request) else { throw KeptRequest.damaged }
        let prepared = KeptRequest.Prepared(kept, RequestPriority(rawValue: Int(row.priority)))
        lastRequest = (row.request, row.priority, prepared)
        return prepared
    }

    /// A call has begun to wait for a limit of its row, or its turn has come. While it waits, others may have its place, but no
    /// more are sent to its target.
    func noteLimit(_ flight: Flight, isWaiting: Bool) {
        guard flight.isWaiting != isWaiting, running[flight.row.id] === flight else { return }
        flight.isWaiting = isWaiting
        limited += isWaiting ? 1 : -1
        targets.waits(flight.row.target, isWaiting)
    }
}

/// Entries that were read before they can be sent: the first ones, in the order in which they are sent. It is given up when
/// another process has changed anything, and not used while groups, keys, waits or targets that failed decide what is sent
/// next.
struct ReadAhead {
    private var flights: ArraySlice<OutboxEngine.Flight>
    /// The connection and the version of its database when they were read.
    private let connection: ObjectIdentifier
    private let version: Int64?

    /// The largest number of entries, and of their bytes.
    private static let limits = (count: 256, bytes: 1 << 20)

    /// Takes the next entries, and reads more of them when there are not enough.
    ///
    /// - Returns: the entries; `nil` when others have to be regarded, such as those that are due after a wait.
    static func pick(
        _ count: Int, _ ahead: inout ReadAhead?, _ now: Int64, _ engine: OutboxEngine, _ connection: SQLiteConnection
    ) throws -> [OutboxEngine.Flight]? {
        let version = try connection.number("PRAGMA data_version")
        if let known = ahead, known.connection != ObjectIdentifier(connection) || known.version != version {
            ahead = nil
        }
        guard engine.targets.areAllOpen, try !connection.hasSpecial(at: now) else {
            ahead = nil
            return nil
        }
        if ahead?.flights.count ?? 0 < count {
            let rows = try connection.candidates(
                at: now, limit: engine.running.count + max(count, limits.count), closed: [],
                enough: (count, limits.bytes)
            ) { engine.running[$0] != nil }
            let flights = rows.map(OutboxEngine.Flight.init)[...]
            ahead = ReadAhead(flights: flights, connection: ObjectIdentifier(connection), version: version)
        }
        let picked = ahead.map { Array($0.flights.prefix(count)) } ?? []
        ahead?.flights.removeFirst(picked.count)
        return picked
    }

    /// Whether new entries change what is sent first.
    func isChanged(by added: some Sequence<OutboxRow>) -> Bool {
        guard let last = flights.last?.row.priority else { return true }
        return added.contains { $0.priority > last }
    }
}

extension Duration {
    /// The whole milliseconds, rounded up.
    var wholeMilliseconds: Int64 { roundedUpMilliseconds(atMost: 1 << 60) }
}
