import Dispatch
package import FoundationEssentials
internal import HTTPCore
import Platform
import Synchronization

/// A store whose changes are made after the requests that they belong to, and that no request waits for beyond a limit.
///
/// What waits to be written is found like what is written. It waits in memory, at most ``Settings/queueByteLimit`` of it:
/// what comes when that is full is not stored, and counted. A removal is never dropped: what it is to remove counts as
/// absent from the moment that it is asked for, also while the store fails to do it.
package final class WriteBehind: EndsWithProcess {
    /// The store.
    package let store: any CacheStore
    let quick: (any QuickStore)?
    let settings: Settings
    private let now: @Sendable () -> Date
    /// Called before something is written for the first time since ``needPreparation()``.
    private let prepare: @Sendable () -> Void
    let report: @Sendable (_ fault: any Error, _ operation: String) -> Void
    let patience = Patience()
    /// Told of what is stored, and of what is not and why.
    let ledger: CacheLedger

    struct State {
        var pending: PendingChanges
        var counts = Counts()
        var isDraining = false
        var needsPreparation = false
        var waiters: [Waiter] = []
        var isRetrying = false
        var retryDelay = Duration.seconds(1)

        /// When what the store has failed to remove is to be tried again, if that is not settled yet.
        mutating func nextRetry() -> Duration? {
            guard pending.isOwing else {
                retryDelay = .seconds(1)
                return nil
            }
            guard !isRetrying else { return nil }
            isRetrying = true
            defer { retryDelay = min(retryDelay * 2, .seconds(60)) }
            return retryDelay
        }
    }

    struct Waiter {
        var unfinished: Set<UInt64>
        let continuation: CheckedContinuation<Void, Never>
    }

    let state: Mutex<State>
    /// Whether nothing waits, so that no lock is needed to look.
    let isIdle = Atomic(true)

    /// Makes changes of a store behind.
    ///
    /// - Parameters:
    ///   - ledger: told of what is stored, and of what is not and why. Default: one of its own.
    ///   - now: the wall clock.
    ///   - prepare: what is to be done before something is written that ``needPreparation()`` was called for.
    ///   - report: told of each fault of the store, with what it could not do.
    package init(
        _ store: any CacheStore, _ settings: Settings, _ ledger: CacheLedger? = nil,
        now: @escaping @Sendable () -> Date,
        prepare: @escaping @Sendable () -> Void,
        report: @escaping @Sendable (_ fault: any Error, _ operation: String) -> Void
    ) {
        self.store = store
        self.settings = settings
        self.ledger = ledger ?? CacheLedger(now: now)
        self.now = now
        self.prepare = prepare
        self.report = report
        quick = store as? any QuickStore
        state = Mutex(State(pending: PendingChanges(byteLimit: settings.queueByteLimit)))
        if !neverWaits { ProcessEnd.tell(self) }
    }

    private var neverWaits: Bool { quick?.neverWaits ?? false }

    /// What could not be done in time, or at all.
    package var counts: Counts {
        state.withLock { state in
            var counts = state.counts
            counts.waitingByteCount = state.pending.byteCount
            return counts
        }
    }

    // MARK: Changing

    /// Has an answer stored.
    ///
    /// - Parameter replacing: what it may take the place of; what somebody else has stored there since stays.
    /// - Returns: whether it is found from now on.
    package func store(
        _ entry: CacheEntry, _ body: Data, replacing: CacheReplacement = .anything
    ) async -> Bool {
        guard !neverWaits else { return await keep(entry, body, replacing) }
        let isTaken = change { $0.store(entry, body, replacing: replacing) }
        if !isTaken { ledger.refuse(entry.key.primary, .queueFull) }
        return isTaken
    }

    /// Stores an answer, and tells what came of it.
    private func keep(_ entry: CacheEntry, _ body: Data, _ replacing: CacheReplacement) async -> Bool {
        defer { entry.lease?.end() }
        do {
            try await store.put(entry, body, replacing: replacing)
            ledger.counters.countStored(body.count)
            return true
        } catch {
            ledger.refuse(entry.key.primary, CacheRefusal(writing: error))
            fail(error)
            return false
        }
    }

    /// Has what is kept of an entry besides its body replaced.
    package func update(_ entry: CacheEntry) async {
        if neverWaits {
            _ = await perform { try await $0.update(entry) }
        } else {
            _ = change { $0.update(entry) }
        }
    }

    /// Has what is selected removed. It counts as absent from now on.
    package func remove(_ selection: CacheSelection) async {
        let now = now()
        if neverWaits {
            _ = await perform { try await $0.remove(selection) }
        } else {
            _ = change {
                $0.remove(selection, at: now)
                return true
            }
        }
    }

    /// Notes a use. It is written when the last one that was written is older than an interval, in seconds.
    package func touch(_ entry: CacheEntry, interval: Double) {
        let now = now()
        if entry.isWaiting, state.withLock({ $0.pending.touchStored(entry.key, at: now) }) { return }
        if let quick, quick.quickTouch(entry, at: now, interval: interval) { return }
        guard abs(now.timeIntervalSince(entry.lastUse)) >= interval else { return }
        var used = entry
        used.lastUse = now
        _ = change { [used] in $0.touch(used) }
    }

    /// Begins to store a stream.
    package func stream(_ entry: CacheEntry, replacing: CacheReplacement = .anything) -> StreamKeeper {
        StreamKeeper(entry, replacing, self)
    }

    /// Asks for the preparation before the next write.
    package func needPreparation() { state.withLock { $0.needsPreparation = true } }

    /// Changes what waits, and has it written.
    private func change(_ body: (inout PendingChanges) -> Bool) -> Bool {
        let (isTaken, begins) = state.withLock { state in
            let isTaken = body(&state.pending)
            if !isTaken { state.counts.skippedWrites += 1 }
            isIdle.store(state.pending.isEmpty, ordering: .releasing)
            defer { state.isDraining = true }
            return (isTaken, !state.isDraining)
        }
        if begins { Task(priority: .utility) { await drain() } }
        return isTaken
    }

    /// Does one thing after the other until nothing waits.
    private func drain() async {
        while true {
            let (work, prepares) = state.withLock { state in
                let work = state.pending.next()
                state.isDraining = !work.isEmpty
                defer { if !work.isEmpty { state.needsPreparation = false } }
                return (work, state.needsPreparation && !work.isEmpty)
            }
            guard !work.isEmpty else { return }
            if prepares { prepare() }
            // Together, so that a store can make one transaction of them.
            await withTaskGroup(of: Void.self) { group in
                for item in work { group.addTask { await self.perform(item) } }
            }
        }
    }

    private func perform(_ work: PendingChanges.Work) async {
        let succeeded: Bool
        switch work {
        case .change(_, .store(let entry, let body, let replacing)):
            succeeded = await keep(entry, body, replacing)
        case .change(_, .update(let entry)):
            succeeded = await perform { try await $0.update(entry) }
        case .change(_, .touch(let entry)):
            succeeded = await perform { try await $0.touch(entry.key, at: entry.lastUse) }
        case .removal(_, let selection):
            succeeded = await perform { store -> Void in
                // Most requests with effects find nothing, and a look costs less than a removal.
                if case .url = selection, try await store.inspecting?.entries(selection).isEmpty ?? false { return }
                if case .primaryKey(let key) = selection, try await store.entries(for: key).isEmpty { return }
                _ = try await store.remove(selection)
            }
        }
        end { $0.pending.end(work, succeeded: succeeded) }
    }

    /// Does something with the store.
    private func perform<Value>(_ work: (any CacheStore) async throws -> Value) async -> Bool {
        do {
            _ = try await work(store)
            return true
        } catch {
            fail(error)
            return false
        }
    }

    func fail(_ error: any Error) {
        state.withLock { $0.counts.failedWrites += 1 }
        report(error, "write")
    }

    /// Notes that something was tried, and wakes those who wait for it.
    private func end(_ body: (inout State) -> Void) {
        let (done, delay) = state.withLock { state in
            body(&state)
            isIdle.store(state.pending.isEmpty, ordering: .releasing)
            var done: [CheckedContinuation<Void, Never>] = []
            if !state.waiters.isEmpty {
                let unfinished = state.pending.unfinished
                state.waiters.removeAll { waiter in
                    guard waiter.unfinished.isDisjoint(with: unfinished) else { return false }
                    done.append(waiter.continuation)
                    return true
                }
            }
            return (done, state.nextRetry())
        }
        for continuation in done { continuation.resume() }
        if let delay { retry(after: delay) }
    }

    /// Tries what the store has failed to remove once more after a while.
    private func retry(after delay: Duration) {
        Task(priority: .utility) { [weak self] in
            try? await Task.sleep(for: delay)
            guard let self else { return }
            state.withLock { $0.isRetrying = false }
            _ = change {
                $0.retryOwed()
                return true
            }
        }
    }

    // MARK: Waiting

    /// Returns when all that has been asked for until now has been tried.
    package func settle() async {
        if state.withLock({ $0.pending.isOwing }) {
            _ = change {
                $0.retryOwed()
                return true
            }
        }
        await settle(nil)
    }

    /// Returns when these are done; `nil`: all that is unfinished now.
    func settle(_ numbers: Set<UInt64>?) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                let unfinished = state.pending.unfinished.intersection(numbers ?? state.pending.unfinished)
                if !unfinished.isEmpty {
                    state.waiters.append(Waiter(unfinished: unfinished, continuation: continuation))
                }
                return unfinished.isEmpty
            }
            if isDone { continuation.resume() }
        }
    }

    /// Returns when all that has been asked for until now has been tried, or after a while.
    package func settle(within limit: Duration) async {
        _ = try? await patience.run(within: limit) { await self.settle() }
    }

    /// A program that makes one request and ends keeps its answer.
    package func processEnds() {
        guard !isIdle.load(ordering: .acquiring) else { return }
        let isSettled = DispatchSemaphore(value: 0)
        Task {
            await settle()
            isSettled.signal()
        }
        _ = isSettled.wait(timeout: .now() + 1)
    }

    // MARK: Streams

    func reserve(_ count: Int) -> Bool {
        state.withLock { state in
            let isTaken = state.pending.reserve(Int64(count))
            if !isTaken { state.counts.skippedWrites += 1 }
            return isTaken
        }
    }

    func release(_ count: Int) { state.withLock { $0.pending.release(Int64(count)) } }

    func beginCommit(_ primaryKey: String) -> UInt64 {
        state.withLock { state in
            isIdle.store(false, ordering: .releasing)
            return state.pending.beginStream(primaryKey)
        }
    }

    func endCommit(_ number: UInt64, _ primaryKey: String) {
        end { $0.pending.endStream(number, primaryKey) }
    }
}
