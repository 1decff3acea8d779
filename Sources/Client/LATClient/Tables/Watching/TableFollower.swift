import CurlTransport
import DomainTables
import FoundationEssentials
public import HTTPCore
import Platform
import Synchronization

/// Follows a table from a source while the program runs: reads its feed when the feed reports a change, and at intervals.
///
/// A new version is checked as a whole, then replaces the old one atomically, and is kept on disk. An invalid version is
/// reported, and the old one stays. What the program has set in the table is kept. Releasing the follower ends it.
final class TableFollower: Sendable {
    let state: WatchState
    private let work: Task<Void, Never>

    /// - Returns: `nil` for a table that has no source.
    init?(following table: DomainTable, onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?) {
        guard let origin = table.contents.origin as? TableOrigin else { return nil }
        let triggers = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let state = WatchState(table, onEvent: onEvent) { triggers.continuation.yield() }
        self.state = state
        work = Task.detached(priority: .utility) {
            var loop = FollowLoop(origin, state, triggers)
            await loop.run()
            state.end()
        }
    }

    deinit { work.cancel() }
}

private struct FollowLoop {
    private let feed: any TableFeed
    private let copy: TableCopy?
    private let state: WatchState
    /// Leads to a poll.
    private let triggers: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)
    /// The newest version and the reason, if it is refused as the app has set the table.
    private var refused: (version: TableVersion, reason: String)?
    /// The revision read last, even if its table was rejected, so that the rejection is reported once. A version with a
    /// wrong signature is read again.
    private var seen: String?
    private var schedule: PollSchedule
    /// The failure to read that was reported last.
    private var reported: String?
    /// The newest valid version, until it is on disk.
    private var unkept: TableVersion?
    /// Whether the failure to write the copy was reported.
    private var isCopyReported: Bool
    private let number = Self.nextNumber.add(1, ordering: .relaxed).newValue
    /// Why the version read last is not used.
    private var refusal: NetworkError?
    private var hasReported = false

    private static let nextNumber = Atomic(0)

    private static let limit = Duration.seconds(10)

    init(
        _ origin: TableOrigin, _ state: WatchState,
        _ triggers: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)
    ) {
        feed = origin.feed
        copy = origin.copy
        self.state = state
        self.triggers = triggers
        seen = origin.version.revision
        isCopyReported = !origin.isKept
        unkept = origin.isKept ? nil : origin.version
        // After a start from the copy, the source is read again soon.
        schedule = PollSchedule(interval: feed.interval, isFailing: origin.isCopy)
    }

    mutating func run() async {
        let trigger = triggers.continuation
        let subscription = feed.subscribe { trigger.yield() }
        var iterator = triggers.stream.makeAsyncIterator()
        while !Task.isCancelled {
            let timer = Task { [pause = schedule.pause(random: .random(in: 0...1))] in
                do {
                    try await CallClock.continuous.sleep(pause)
                    trigger.yield()
                } catch {}
            }
            let isTriggered = await iterator.next() != nil
            timer.cancel()
            guard isTriggered, !Task.isCancelled else { break }
            await poll()
        }
        withExtendedLifetime(subscription) {}
    }

    private mutating func poll() async {
        do throws(NetworkError) {
            if let refused { try await take(refused.version) }
            switch try await feed.read(after: seen, within: Self.limit) {
            case .unchanged: confirm()
            case .version(let version): try await take(version)
            case .refused(let error):
                refusal = error
                report(error)
            }
            schedule.succeeded()
            await keep()
            await reportUse()
        } catch {
            schedule.failed()
            // The file of a signature may be written after the table, so the first mismatch is not reported.
            let patience = error.kind == .integrity ? 2 : 3
            guard schedule.failures >= patience, !Task.isCancelled else { return }
            report(error)
            guard error.kind == .integrity else { return }
            refusal = error
            await reportUse()
        }
    }

    private mutating func reportUse() async {
        guard let revision = state.current.revision else { return }
        let use = TableUse(follower: number, revision: revision, refusal: refusal, isFirst: !hasReported)
        hasReported = true
        await feed.report(use)
    }

    private mutating func report(_ error: NetworkError) {
        guard reported != error.message else { return }
        reported = error.message
        state.report(.rejected(error))
    }

    /// Records that the version in use is the newest.
    private mutating func confirm() {
        reported = nil
        guard state.current.revision == seen else { return }
        refusal = nil
        guard state.current.isCopy else { return }
        state.update { table in table.change { $0.origin?.isCopy = false } }
    }

    private mutating func take(_ version: TableVersion) async throws(NetworkError) {
        let known = refused
        refused = nil
        var isValid = false
        let table: DomainTable
        do throws(NetworkError) {
            let new = try DomainTable(version, from: feed, copy: copy, isCopy: false)
            isValid = true
            table = try state.replaceFile(by: new)
        } catch {
            if error.kind == .integrity { throw error }
            seen = version.revision
            reported = nil
            refusal = error
            if isValid { refused = (version, error.message) }
            guard known?.version.revision != version.revision || known?.reason != error.message else { return }
            return state.report(.rejected(error))
        }
        seen = version.revision
        reported = nil
        refusal = nil
        unkept = version
        await keep()
        state.report(.reloaded(table))
    }

    /// Writes the newest version to the disk, unless it is there. What fails is tried again after the next read.
    private mutating func keep() async {
        guard let copy, let version = unkept else { return }
        do throws(SystemError) {
            try await copy.write(version, from: feed)
            (unkept, isCopyReported) = (nil, false)
        } catch {
            if !isCopyReported { copy.warn(error) }
            isCopyReported = true
        }
    }
}

/// Decides when to read a feed that reports no change: at each interval, and sooner after a failure. All pauses are random
/// within bounds, so that the processes of a service do not read at the same time.
struct PollSchedule {
    let interval: Duration
    /// Begins with a second, and grows up to the interval.
    private var backoff: Backoff

    var failures: Int { backoff.failures }

    init(interval: Duration, isFailing: Bool = false) {
        self.interval = interval
        backoff = Backoff(first: .seconds(1), longest: interval)
        if isFailing { failed() }
    }

    mutating func succeeded() { backoff.reset() }

    mutating func failed() { _ = backoff.next() }

    /// - Parameter random: from 0 to 1.
    func pause(random: Double) -> Duration {
        guard failures > 0 else { return interval * (0.8 + 0.4 * random) }
        return backoff.pause(afterFailures: failures) * (0.5 + 0.5 * random)
    }
}

extension TableCopy {
    /// Reports on standard error that the copy is not used.
    func warn(_ refusal: OwnFile.Refusal) {
        EngineConfiguration().warn("the copy of the table in \(path) is not used, because it \(refusal.reason)")
    }

    /// Reports on standard error that the copy could not be written.
    func warn(_ error: SystemError) {
        EngineConfiguration().warn(
            "the copy of the table cannot be written to \(path) (\(error)), so a start without the table's source would use an "
                + "older one or none; writing is tried again")
    }
}

/// The table of a watcher or follower. The watcher's thread or the follower's task changes it, and so may the app.
final class WatchState: Sendable {
    private let table: Mutex<DomainTable>
    /// Held while a changed table is made, so that no update is lost; readers do not wait for it.
    private let changes = Mutex<Void>(())
    private let onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?
    private let hub = EventHub<DomainTable.FileEvent>()
    private let stopped = Atomic(false)
    /// Whether the newest version was refused as the table is set.
    private let isRefused = Atomic(false)
    private let retry: @Sendable () -> Void

    /// - Parameter retry: called when the app has changed a table whose newest version was refused.
    init(
        _ table: DomainTable, onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?,
        retry: @escaping @Sendable () -> Void
    ) {
        self.table = Mutex(table)
        self.onEvent = onEvent
        self.retry = retry
    }

    var current: DomainTable { table.withLock { $0 } }

    func update<Result: Sendable, Failure: Error>(
        _ change: (inout DomainTable) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try changes.withLock { _ throws(Failure) in
            var copy = current
            let result = try change(&copy)
            let changed = copy
            table.withLock { $0 = changed }
            if isRefused.exchange(false, ordering: .acquiringAndReleasing) { retry() }
            return result
        }
    }

    func noteRefusal() { isRefused.store(true, ordering: .releasing) }

    /// Adopts the rows of a newly read table, and returns the new table.
    func replaceFile(by file: DomainTable) throws(NetworkError) -> DomainTable {
        try update { table throws(NetworkError) in
            noteRefusal()
            try table.replaceFile(by: file)
            isRefused.store(false, ordering: .releasing)
            return table
        }
    }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    func stop() { stopped.store(true, ordering: .releasing) }

    func report(_ event: DomainTable.FileEvent) {
        onEvent?(event)
        hub.send(event)
    }

    func events() -> AsyncStream<DomainTable.FileEvent> { hub.events() }

    func end() { hub.finish() }
}

extension DomainTable {
    /// The result of a change of the table's file or source.
    public enum FileEvent: Sendable {
        /// The table was replaced by this one.
        case reloaded(DomainTable)
        /// The new version is invalid or cannot be read; the table is unchanged.
        case rejected(NetworkError)
    }
}
