import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform
import SQLite
import Synchronization

/// The work of an outbox: it carries out what ``OutboxRule`` and ``OutboxTargets`` decide.
///
/// What arrives (entries to add, ends of attempts, commands) is collected in the inbox and handled in turns on one queue. A turn
/// writes all ends with one commit, and all additions with another.
///
/// `@unchecked Sendable`: what is not constant is used only on ``queue``, and the inbox under its lock.
final class OutboxEngine: @unchecked Sendable {
    /// Entries that are added together.
    struct Adding: Sendable {
        var rows: [OutboxRow]
        var done: @Sendable (Result<[Int64], NetworkError>) -> Void
    }

    /// An entry that is being sent.
    ///
    /// `@unchecked Sendable`: used only on the engine's ``queue``.
    final class Flight: @unchecked Sendable {
        var row: OutboxRow
        var task: Task<Void, Never>?
        /// The files of the folder that belong to the entry.
        var files: [String] = []
        /// What the rows of its call count as secret.
        var secrets = Secrets()
        /// Whether the call waits for a limit of its row, so that it takes no place.
        var isWaiting = false

        init(_ row: OutboxRow) { self.row = row }
    }

    /// The end of an attempt.
    struct Ending: Sendable {
        var flight: Flight
        var result: Result<HTTPResponse, NetworkError>
        var isTransient: Bool
        var secrets = Secrets()
    }

    typealias Handler = @Sendable (Outbox.Entry, Result<HTTPResponse, NetworkError>) async throws -> Void

    private struct Inbox {
        var addings: [Adding] = []
        var endings: [Ending] = []
        var commands: [@Sendable (OutboxEngine) -> Void] = []
        var isScheduled = false
        /// Whether a turn is being taken.
        var isBusy = false
        /// Whether ends wait for others, so that one commit serves more of them.
        var isHeld = false
        /// The number of ends that wait for no more.
        var enough = 1
        /// How many ends came within the time that they may wait.
        var mostTogether = Int.max
    }

    let folder: String
    let central: CentralRequestManager
    let configuration: Outbox.Configuration
    let rule: OutboxRule
    /// What was wrong with the store when it was opened.
    let damage: NetworkError?
    let hub = EventHub<Outbox.Change>(limit: 10_000)
    let sent = Atomic(0)
    let failed = Atomic(0)
    private let queue = DispatchQueue(label: "LATNetworking.outbox")
    private let inbox = Mutex(Inbox())
    private let readClock: @Sendable () -> OutboxClock.Reading

    var store: OutboxStore
    var seat: SenderSeat?
    var clock: OutboxClock
    var targets = OutboxTargets()
    /// The calls in flight.
    var running: [Int64: Flight] = [:]
    /// The number of them that wait for a limit of their row.
    var limited = 0
    var groups: Set<String> = []
    /// The ends that could not be written yet, because the disk was full.
    var unrecorded: [Outcome] = []
    /// The request that was read last. Those of many entries differ only in their bodies.
    var lastRequest: (data: Data, priority: Int64, prepared: KeptRequest.Prepared)?
    /// Entries that were read before they can be sent; `nil` when they may be others now.
    var ahead: ReadAhead?
    /// The tasks that wait until a target can be connected to.
    var watches: [String: Task<Void, Never>] = [:]
    var handlers: [String: Handler] = [:]
    /// The handlers that run, or wait until they are called again.
    var busyHandlers: Set<String> = []
    var handlerFailures: [String: Int] = [:]
    var runningHandlers = 0
    /// The engine whose handler the current task is.
    @TaskLocal static var handling: ObjectIdentifier?
    /// The results of entries whose handler has not ended, which are more exact than what is kept.
    var results: [Int64: (handler: String, result: Result<HTTPResponse, NetworkError>)] = [:]
    var isSender = false
    var isClosed = false
    /// Whether the manager was shut down, so that nothing more can be sent with it.
    var isRetired = false
    private var closing: [Waiter<Void>] = []
    /// Whether ``close(_:)`` waits no more for handlers, nor until ends can be written.
    private var isOverdue = false
    private var emptyWaiters: [(waiter: Waiter<Void>, awaitsHandlers: Bool)] = []
    /// When the next turn is taken by itself.
    private var nextTurn: DispatchTime?
    /// When the entries to send were looked for last.
    var pickedAt: Int64 = 0
    private var markedAt: Int64 = 0
    /// How often in a row the store failed, and when it is tried again.
    private(set) var storeTrouble: (failures: Int, retryAt: Int64) = (0, 0)

    init(
        folder: String, central: CentralRequestManager, configuration: Outbox.Configuration,
        readClock: @escaping @Sendable () -> OutboxClock.Reading
    ) throws(NetworkError) {
        self.folder = folder
        self.central = central
        self.configuration = configuration
        self.readClock = readClock
        rule = OutboxRule(
            backoff: Backoff(first: configuration.firstWait, longest: configuration.longestWait),
            maxAttempts: configuration.maxAttempts)
        let (store, report) = try OutboxStore.opening(folder)
        self.store = store
        clock = OutboxClock(after: try store.read { try OutboxStore.mark(in: $0) }, readClock())
        damage = report
    }

    /// Begins to send, if no other process does.
    func start() throws(NetworkError) {
        seat = try SenderSeat(folder, isWanted: configuration.limit > 0) { [weak self] isUrgent in
            self?.perform { $0.noticed(isUrgent: isUrgent) }
        }
        perform { $0.takeSeat() }
    }

    // MARK: The inbox

    /// Adds entries. While nothing else happens they are written at once, on the thread of the caller, because another thread
    /// would have to be woken for each of many entries that are added one after the other.
    func add(_ adding: Adding) { put(atOnce: true) { $0.addings.append(adding) } }

    /// The longest time that an end waits for those of other calls in flight. An `fsync` takes about as long.
    private static let longestHold = DispatchTimeInterval.milliseconds(2)

    func ended(_ ending: Ending) {
        let (isTurn, isHold) = inbox.withLock { inbox in
            inbox.endings.append(ending)
            guard !inbox.isScheduled else { return (false, false) }
            inbox.isScheduled = inbox.endings.count >= inbox.enough
            guard !inbox.isScheduled else { return (true, false) }
            defer { inbox.isHeld = true }
            return (false, !inbox.isHeld)
        }
        if isTurn { queue.async { self.turn() } }
        if isHold { queue.asyncAfter(deadline: .now() + Self.longestHold) { [weak self] in self?.endHold() } }
    }

    private func endHold() {
        let isTurn = inbox.withLock { inbox in
            inbox.isHeld = false
            // The other calls take longer, so their ends are not waited for.
            if inbox.endings.count < inbox.enough { inbox.mostTogether = max(1, inbox.endings.count) }
            defer { inbox.isScheduled = inbox.isScheduled || !inbox.endings.isEmpty }
            return !inbox.isScheduled && !inbox.endings.isEmpty
        }
        if isTurn { turn() }
    }

    /// Calls a closure in the next turn.
    func perform(_ command: @escaping @Sendable (OutboxEngine) -> Void) { put { $0.commands.append(command) } }

    /// Returns what a closure returns in the next turn.
    func value<Value: Sendable>(_ body: @escaping @Sendable (OutboxEngine) throws -> Value) async throws -> Value {
        let waiter = Waiter<Value>()
        perform { engine in waiter.end(Result { try body(engine) }) }
        return try await waiter.uncancelledValue()
    }

    /// Frees the room on the disk that the store holds and does not need. It blocks while a turn is taken.
    @Sendable func makeRoom() { queue.sync { store.makeRoom() } }

    private func put(atOnce: Bool = false, _ change: (inout Inbox) -> Void) {
        let (isFirst, isBusy) = inbox.withLock { inbox in
            change(&inbox)
            defer { inbox.isScheduled = true }
            return (!inbox.isScheduled, inbox.isBusy)
        }
        guard isFirst else { return }
        if atOnce, !isBusy { queue.sync { self.addAtOnce() } } else { queue.async { self.turn() } }
    }

    /// Adds on the thread of the caller. Calls and handlers start in a turn of their own, because they would inherit the values
    /// of the caller's task, as that it renews a token.
    private func addAtOnce() {
        let addings = inbox.withLock { inbox in
            defer { (inbox.addings, inbox.isBusy) = ([], true) }
            return inbox.addings
        }
        add(addings)
        let now = now
        let maySend =
            isSender && !isClosed && freePlaces > 0
            && addings.contains { $0.rows.contains { targets.isOpen($0.target, at: now) } }
        let needsTurn = inbox.withLock { inbox in
            inbox.isBusy = false
            inbox.isScheduled =
                maySend || !inbox.addings.isEmpty || !inbox.endings.isEmpty || !inbox.commands.isEmpty
            return inbox.isScheduled
        }
        if needsTurn { queue.async { self.turn() } } else { arrange() }
    }

    private func turn() {
        let work = inbox.withLock { inbox in
            defer {
                (inbox.addings, inbox.endings, inbox.commands) = ([], [], [])
                (inbox.isScheduled, inbox.isBusy) = (false, true)
            }
            return inbox
        }
        defer {
            // Half of the calls go on while the others wait, so that neither the network nor the disk stands still.
            let half = max(1, (running.count - limited) / 2)
            inbox.withLock { inbox in
                if work.endings.count > inbox.mostTogether { inbox.mostTogether = .max }
                (inbox.isBusy, inbox.enough) = (false, min(half, inbox.mostTogether))
            }
        }
        add(work.addings)
        for command in work.commands { command(self) }
        advance(work.endings)
        arrange()
    }

    // MARK: Time

    /// The time of the outbox in milliseconds.
    var now: Int64 { clock.time(at: readClock()) }

    /// A time of the outbox as a date of the system's clock.
    func date(_ time: Int64, now: Int64) -> Date {
        Date(timeIntervalSince1970: Date.now.timeIntervalSince1970 - Double(now - time) / 1_000)
    }

    /// Keeps the time in the store, so that a new start of the machine does not lose more than a minute of it.
    func keepTime(_ connection: SQLiteConnection, always: Bool = false) throws {
        let now = now
        guard always || now - markedAt > 60_000 else { return }
        markedAt = now
        clock.advance(to: readClock())
        try OutboxStore.keep(clock.mark, in: connection)
    }

    /// Takes a turn when something is due.
    private func arrange() {
        guard !isClosed else { return finishClosing() }
        if isRetired, isSender, running.isEmpty, runningHandlers == 0, unrecorded.isEmpty { leaveSeat() }
        notifyIfEmpty()
        if isRetired, running.isEmpty { endEmptyWaiters() }
        guard isSender, freePlaces > 0 || !unrecorded.isEmpty else { return }
        // What became due after the last look, as during its commit, has no other turn to come.
        var times = [targets.nextOpening(after: pickedAt)].compactMap { $0 }
        do {
            if let time = try reading({ try $0.nextTime(after: pickedAt) }) { times.append(time) }
        } catch {
            noteStore(failed: true)
        }
        if storeTrouble.failures > 0 { times.append(storeTrouble.retryAt) }
        let now = now
        if !unrecorded.isEmpty { times.append(now + 1_000) }
        guard let time = times.min() else { return }
        // At the latest after a minute: the clock of the timer stands still while the machine sleeps.
        takeTurn(after: min(max(time - now, 1), 60_000))
    }

    /// Takes a turn after a number of milliseconds, or earlier.
    private func takeTurn(after wait: Int64) {
        let time = DispatchTime.now() + .milliseconds(Int(wait))
        if let nextTurn, nextTurn <= time { return }
        nextTurn = time
        queue.asyncAfter(deadline: time) { [weak self] in
            guard let self, self.nextTurn == time else { return }
            self.nextTurn = nil
            self.turn()
        }
    }

    /// The number of calls that may start. One that waits for a limit of its row takes no place.
    var freePlaces: Int { min(configuration.limit, Self.mostPlaces) - (running.count - limited) }
    private static let mostPlaces = 100_000

    /// Has the store tried again in a second after a failure, later after several.
    func noteStore(failed: Bool) {
        guard failed else { return storeTrouble = (0, 0) }
        let failures = storeTrouble.failures + 1
        storeTrouble = (failures, now + Int64(1_000 << min(failures - 1, 5)))
    }

    // MARK: The end of all entries

    /// Ends a waiter once no entry waits, nor a handler if it awaits these, too.
    func notifyWhenEmpty(_ waiter: Waiter<Void>, awaitsHandlers: Bool) { emptyWaiters.append((waiter, awaitsHandlers)) }

    private func notifyIfEmpty() {
        guard !emptyWaiters.isEmpty else { return }
        emptyWaiters.removeAll { $0.waiter.result != nil }
        guard running.isEmpty, let load = try? load(), load.waiting == 0 else { return }
        let isHandled = busyHandlers.isEmpty && load.answered == 0
        for (waiter, awaitsHandlers) in emptyWaiters where isHandled || !awaitsHandlers { waiter.end(.success(())) }
        emptyWaiters.removeAll { isHandled || !$0.awaitsHandlers }
    }

    // MARK: The end

    /// How long ``close(_:)`` waits for handlers, and until ends can be written.
    private static let longestHandling = DispatchTimeInterval.seconds(10)

    /// Stops sending. The waiter ends when no call is in flight and no handler runs any more, and another process may send.
    func close(_ waiter: Waiter<Void>?) {
        if let waiter { closing.append(waiter) }
        guard !isClosed else { return }
        isClosed = true
        for flight in running.values { flight.task?.cancel() }
        for watch in watches.values { watch.cancel() }
        (watches, handlers) = ([:], [:])
        queue.asyncAfter(deadline: .now() + Self.longestHandling) { [weak self] in
            self?.isOverdue = true
            self?.turn()
        }
    }

    private func finishClosing() {
        guard running.isEmpty, runningHandlers == 0 && unrecorded.isEmpty || isOverdue else {
            if !unrecorded.isEmpty { takeTurn(after: 1_000) }
            return
        }
        if seat != nil {
            _ = try? store.write { try self.keepTime($0.connection, always: true) }
            if isSender { leaveSeat() }
            seat = nil
            hub.finish()
        }
        for waiter in closing { waiter.end(.success(())) }
        closing = []
        endEmptyWaiters()
    }

    /// What waits until everything was sent learns that it will not be.
    private func endEmptyWaiters() {
        for (waiter, _) in emptyWaiters { waiter.end(.failure(Outbox.closed)) }
        emptyWaiters = []
    }

    /// What could not be written is for the next sender, which sends it again.
    private func leaveSeat() {
        isSender = false
        unrecorded = []
        seat?.leave()
        hub.send(.isSender(false))
    }
}
