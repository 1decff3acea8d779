package import FoundationEssentials
internal import HTTPCore
import Platform
import Synchronization

/// Writes to a store in the background. Requests do not wait for writes, and wait for look-ups only up to a limit.
///
/// Look-ups find waiting entries like stored ones. At most ``Settings/queueByteLimit`` bytes wait in memory; entries that
/// come while the queue is full, or that are too large for the store, are counted but not stored, and the older ones under
/// their keys are removed unless they are pinned. A removal is never dropped: the selected entries count as absent as soon as
/// it is requested, even while the store fails to remove them.
package final class WriteBehind: ProcessExitObserver {
    /// How much may wait to be written, and how long a look-up may take.
    package struct Settings: Sendable {
        /// The maximum number of bytes that may wait to be written. Default: 32 MiB.
        package var queueByteLimit: Int64 = 32 << 20
        /// How long a request waits for a look-up. Default: 20 ms.
        package var lookUpTimeout: Duration = .milliseconds(20)

        package init() {}
    }

    /// Whether a request depends on the store.
    package enum Urgency: Sendable {
        /// The request can go to the network.
        case optional
        /// The network has failed or may not be used, or the request has changed what is stored.
        case required
    }

    package let store: any CacheStore
    let quick: (any QuickStore)?
    /// Whether the store is in memory, where no call waits, so that nothing is written in the background.
    private let neverWaits: Bool
    /// Whether the store ends its look-ups in time by itself.
    let limitsLookUps: Bool
    /// The store's leases, if they cover several machines.
    package let coordinator: (any CacheCoordinating)?
    /// The factor of ``EarlyRefresh``; 0 for none.
    package let earlyRefreshFactor: Double
    let settings: Settings
    let now: @Sendable () -> Date
    /// Called before the first write after ``needPreparation()``.
    private let prepare: @Sendable () -> Void
    let report: @Sendable (_ fault: any Error, _ operation: String) -> Void
    let limiter = TimeLimiter()
    let ledger: CacheRecorder

    struct State {
        var pending: PendingChanges
        var isDraining = false
        var needsPreparation = false
        /// The continuations of callers that wait until these numbers are no longer unfinished.
        var waiters: [(numbers: Set<UInt64>, continuation: CheckedContinuation<Void, Never>)] = []
        var isRetrying = false
        var backoff = Backoff(first: .seconds(1), longest: .seconds(60))

        /// Takes the waiters whose changes have ended.
        mutating func takeDone() -> [CheckedContinuation<Void, Never>] {
            guard !waiters.isEmpty else { return [] }
            let unfinished = pending.unfinished.union(pending.refreshes)
            var done: [CheckedContinuation<Void, Never>] = []
            waiters.removeAll { waiter in
                guard waiter.numbers.isDisjoint(with: unfinished) else { return false }
                done.append(waiter.continuation)
                return true
            }
            return done
        }

        /// The delay before failed removals are retried; `nil` when there are none or a retry is already scheduled.
        mutating func nextRetry() -> Duration? {
            guard pending.hasFailedRemovals else {
                backoff.reset()
                return nil
            }
            guard !isRetrying else { return nil }
            isRetrying = true
            return backoff.next()
        }
    }

    let state: Mutex<State>
    /// Whether nothing waits, so that a look-up needs no lock.
    let isIdle = Atomic(true)
    private let holdsGroups: Atomic<Bool>
    let removals = Mutex(RecentRemovals())

    /// Writes to a store in the background. `report` gets each error of the store and the operation that failed.
    ///
    /// - Parameter mayHoldGroups: Whether the store may have entries that belong to a group (``InvalidationRule``) already, or may
    ///   get them from others.
    package init(
        _ store: any CacheStore, _ settings: Settings, _ ledger: CacheRecorder? = nil,
        mayHoldGroups: Bool = true, now: @escaping @Sendable () -> Date, prepare: @escaping @Sendable () -> Void,
        report: @escaping @Sendable (_ fault: any Error, _ operation: String) -> Void
    ) {
        self.store = store
        holdsGroups = Atomic(mayHoldGroups)
        self.settings = settings
        self.ledger = ledger ?? CacheRecorder(now: now)
        self.now = now
        self.prepare = prepare
        self.report = report
        quick = store as? any QuickStore
        neverWaits = store is MemoryStore
        limitsLookUps = ((store as? any CacheLookUpLimiting)?.lookUpLimit).map { $0 <= settings.lookUpTimeout } ?? false
        coordinator = store.leasing as? any CacheCoordinating
        earlyRefreshFactor = coordinator?.earlyRefreshFactor ?? 0
        state = Mutex(State(pending: PendingChanges(byteLimit: settings.queueByteLimit)))
        if !neverWaits { ProcessEnd.register(self) }
    }

    /// Whether an entry may belong to a group. Without any, an unsafe request need not look up what it invalidates.
    package var mayHoldGroups: Bool { holdsGroups.load(ordering: .relaxed) }

    private func noteGroups(of entry: CacheEntry) {
        if InvalidationRule.hasGroups(entry) { holdsGroups.store(true, ordering: .relaxed) }
    }

    /// The bytes that wait to be written.
    var waitingByteCount: Int64 { state.withLock(\.pending.byteCount) }

    // MARK: Changing

    /// Stores an entry.
    ///
    /// - Parameter replacing: What it may replace.
    /// - Returns: `false` when the queue is full, so that look-ups find neither this entry nor an older one, or when the
    ///   store failed. Else look-ups find the entry, or the one that stays in its place: a later one, or the store's own if
    ///   the ``coordinator`` does not accept this one.
    package func store(
        _ entry: CacheEntry, _ body: Data, replacing: CacheReplacement = .anything
    ) async -> Bool {
        noteGroups(of: entry)
        guard !neverWaits else { return await write(entry, body, replacing) }
        if let coordinator, !coordinator.accepts(entry) {
            entry.lease?.end()
            await forget(entry)
            return true
        }
        let isTaken = change { $0.store(entry, body, replacing: replacing) }
        if !isTaken { refuse(entry) }
        return isTaken
    }

    /// Counts a response for which the queue has no room, and removes the older one under its key.
    func refuse(_ entry: CacheEntry) {
        ledger.refuse(entry.key.primary, .queueFull)
        let now = now()
        _ = change {
            $0.discard(entry.key, at: now)
            return true
        }
    }

    /// Removes the copies of the stored entry, then the waiting entry if it was requested before this response was
    /// received. The copies are removed first, since they may be older than the waiting entry.
    private func forget(_ refused: CacheEntry) async {
        await (store as? TieredStore)?.forgetCopies(.key(refused.key))
        forgetWaiting(refused.key, requestedBefore: refused.responseTime)
    }

    private func forgetWaiting(_ key: CacheKey, requestedBefore time: Date) {
        state.withLock { state in
            state.pending.forget(key, requestedBefore: time)
            isIdle.store(state.pending.isEmpty, ordering: .releasing)
        }
    }

    /// Writes an entry to the store and records the outcome.
    private func write(_ entry: CacheEntry, _ body: Data, _ replacing: CacheReplacement) async -> Bool {
        defer { entry.lease?.end() }
        do {
            try await store.put(entry, body, replacing: replacing)
            ledger.counters.countStored(body.count)
            return true
        } catch {
            await refuse(entry, error)
            return false
        }
    }

    /// Updates an entry, except for its pin, which the app may have changed since the look-up.
    private func write(update entry: CacheEntry) async -> Bool {
        await perform { store in
            var entry = entry
            let stored = try await store.entries(for: entry.key.primary).first { $0.key == entry.key }
            entry.isPinned = stored?.isPinned ?? entry.isPinned
            return try await store.update(entry)
        }
    }

    /// Counts a response that could not be written. If the store has no room for it, the older one under its key is removed.
    func refuse(_ entry: CacheEntry, _ error: any Error) async {
        let refusal = CacheRefusal(writing: error)
        ledger.refuse(entry.key.primary, refusal)
        report(error, "write")
        guard case .tooLarge = refusal else { return }
        _ = await removeUnpinned(entry.key)
        forgetWaiting(entry.key, requestedBefore: entry.requestTime)
    }

    /// Removes the entry under a key, unless the app asked for it to stay.
    private func removeUnpinned(_ key: CacheKey) async -> Bool {
        await perform { store -> Void in
            if try await store.inspecting?.entries(.key(key)).contains(where: \.isPinned) ?? false { return }
            _ = try await store.remove(.key(key))
        }
    }

    package func update(_ entry: CacheEntry) async {
        noteGroups(of: entry)
        if neverWaits {
            _ = await write(update: entry)
        } else {
            _ = change { $0.update(entry) }
        }
    }

    /// Removes the selected entries. They count as absent from now on, and so do those that are still being fetched.
    package func remove(_ selection: CacheSelection) async {
        let now = now()
        removals.withLock { $0.note(selection, at: now) }
        if neverWaits {
            _ = await perform { try await $0.remove(selection) }
        } else {
            _ = change {
                $0.remove(selection, at: now)
                return true
            }
        }
    }

    /// Records a use. It is written only when the last written one is older than `interval`, in seconds.
    package func touch(_ entry: CacheEntry, interval: Double) {
        let now = now()
        if entry.isWaiting, state.withLock({ $0.pending.touchStored(entry.key, at: now) }) { return }
        if let quick, quick.quickTouch(entry, at: now, interval: interval) { return }
        guard abs(now.timeIntervalSince(entry.lastUse)) >= interval else { return }
        var used = entry
        used.lastUse = now
        _ = change { [used] in $0.touch(used) }
    }

    package func stream(_ entry: CacheEntry, replacing: CacheReplacement = .anything) -> StreamStoring {
        noteGroups(of: entry)
        return StreamStoring(entry, replacing, self)
    }

    /// Makes the next write call `prepare` first.
    package func needPreparation() { state.withLock { $0.needsPreparation = true } }

    /// Prepares before a write if an entry of it needs that. A stream does not wait in the queue.
    func prepareIfNeeded() {
        let prepares = state.withLock { state in
            defer { state.needsPreparation = false }
            return state.needsPreparation
        }
        if prepares { prepare() }
    }

    /// Changes the queue and starts to write it.
    private func change(_ body: (inout PendingChanges) -> Bool) -> Bool {
        let (isTaken, begins) = state.withLock { state in
            let isTaken = body(&state.pending)
            isIdle.store(state.pending.isEmpty, ordering: .releasing)
            defer { state.isDraining = true }
            return (isTaken, !state.isDraining)
        }
        if begins { Task(priority: .utility) { await drain() } }
        return isTaken
    }

    private func drain() async {
        while true {
            let (work, done) = state.withLock { state in
                let work = state.pending.next()
                state.isDraining = !work.isEmpty
                // Changes that were dropped before they began have ended too.
                return (work, state.takeDone())
            }
            for continuation in done { continuation.resume() }
            guard !work.isEmpty else { return }
            prepareIfNeeded()
            // The items run concurrently, so that a store can combine them in one transaction.
            await withTaskGroup(of: Void.self) { group in
                for item in work { group.addTask { await self.perform(item) } }
            }
        }
    }

    private func perform(_ work: PendingChanges.Work) async {
        let succeeded: Bool
        switch work {
        case .change(_, .store(let entry, let body, let replacing)):
            succeeded = await write(entry, body, replacing)
        case .change(_, .update(let entry)):
            succeeded = await write(update: entry)
        case .change(_, .touch(let entry)):
            succeeded = await perform { try await $0.touch(entry.key, at: entry.lastUse) }
        case .change(_, .discard(let key)):
            succeeded = await removeUnpinned(key)
        case .removal(_, let selection):
            succeeded = await perform { store -> Void in
                // Most unsafe requests invalidate nothing, and a look-up costs less than a removal. A store that cannot be
                // inspected always gets the removal.
                if case .url = selection, try await store.inspecting?.entries(selection).isEmpty ?? false { return }
                _ = try await store.remove(selection)
            }
        }
        end { $0.pending.end(work, succeeded: succeeded) }
    }

    /// Runs an operation of the store and reports its failure.
    private func perform<Value>(_ work: (any CacheStore) async throws -> Value) async -> Bool {
        do {
            _ = try await work(store)
            return true
        } catch {
            report(error, "write")
            return false
        }
    }

    /// Records that work has ended and resumes the waiters that it completes.
    func end(_ body: (inout State) -> Void) {
        let (done, delay) = state.withLock { state in
            body(&state)
            isIdle.store(state.pending.isEmpty, ordering: .releasing)
            return (state.takeDone(), state.nextRetry())
        }
        for continuation in done { continuation.resume() }
        if let delay { retry(after: delay) }
    }

    private func retry(after delay: Duration) {
        Task(priority: .utility) { [weak self] in
            try? await Task.sleep(for: delay)
            guard let self else { return }
            state.withLock { $0.isRetrying = false }
            retryFailedRemovals()
        }
    }

    func retryFailedRemovals() {
        _ = change {
            $0.retryFailedRemovals()
            return true
        }
    }

    // MARK: Streams

    func reserve(_ count: Int) -> Bool { state.withLock { $0.pending.reserve(Int64(count)) } }

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
