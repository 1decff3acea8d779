import FoundationEssentials
public import HTTPCore
import ResponseCache
import Synchronization

/// A manager's store. It is made on first use, and its failures are reported but never fail a request.
final class CacheStorage: Sendable {
    private struct State {
        var isMissing = false
        var reported: Set<String> = []
        var partition: String?
        /// While this is kept, the store's reports include this manager's counts.
        var observation: (any Sendable)?
    }

    /// What the cache did, and why it did not store responses.
    let ledger: CacheRecorder
    /// The secret that separates the entries of different senders.
    let identityKey: IdentityKey
    private let isPartitioned: Atomic<Bool>
    private let layout: DiskLayout?
    /// Whether other managers or processes may use the same store.
    private let isShared: Bool
    private let makeStore: @Sendable () throws -> any CacheStore
    private let settings: WriteBehind.Settings
    private let observer: CacheObserver?
    private let state: Mutex<State>
    /// Set once, so that requests read it without a lock.
    private let made = AtomicLazyReference<WriteBehind>()
    private let madeMemoryValues = AtomicLazyReference<MemoryStore>()
    /// The wall-clock time.
    let now: @Sendable () -> Date

    init(
        partition: String?, directory: String?, isShared: Bool = false, settings: WriteBehind.Settings,
        now: @escaping @Sendable () -> Date, observer: CacheObserver?,
        make: @escaping @Sendable () throws -> any CacheStore
    ) {
        makeStore = make
        self.settings = settings
        self.observer = observer
        self.now = now
        ledger = CacheRecorder(now: now)
        state = Mutex(State(partition: partition))
        isPartitioned = Atomic(partition != nil)
        identityKey = IdentityKey(directory: directory)
        layout = directory.map(DiskLayout.init)
        self.isShared = isShared
    }

    /// The cache partition that new calls use; `nil` for the common one.
    var partition: String? {
        get { isPartitioned.load(ordering: .relaxed) ? state.withLock { $0.partition } : nil }
        set {
            state.withLock { state in
                state.partition = newValue
                isPartitioned.store(newValue != nil, ordering: .relaxed)
            }
        }
    }

    /// Whether there can be entries that a request might invalidate. An earlier process may have left some on the disk.
    var mayHoldEntries: Bool { made.load() != nil || isShared || layout?.mayHoldEntries == true }

    /// Returns the store after all pending writes.
    ///
    /// - Throws: The error of making the store. The next call tries again.
    func store() async throws -> any CacheStore {
        let behind = try make()
        await behind.settle()
        return behind.store
    }

    /// Returns the store without waiting for pending writes of responses. For values, which bypass ``WriteBehind``.
    func storeOfValues() throws -> any CacheStore { try make().store }

    /// The store for values that are never written to disk.
    var memoryValues: MemoryStore {
        madeMemoryValues.load() ?? madeMemoryValues.storeIfNil(MemoryStore(byteLimit: 16 << 20))
    }

    /// The counters so far. Does not make the store.
    var statistics: CacheStatistics { ledger.counters.statistics(of: made.load()?.store) }

    /// The store as requests use it; `nil` if it could not be made, which is reported once and not retried.
    var behind: WriteBehind? {
        if let behind = made.load() { return behind }
        guard state.withLock({ !$0.isMissing }) else { return nil }
        do {
            return try make()
        } catch {
            state.withLock { $0.isMissing = true }
            report(error, "make its store")
            return nil
        }
    }

    private func make() throws -> WriteBehind {
        try state.withLock { state in
            if let behind = made.load() { return behind }
            // Asked before the store is made, because that makes the directory's files.
            let mayHoldGroups = isShared || layout?.mayHoldEntries == true
            let behind = WriteBehind(
                try makeStore(), settings, ledger, mayHoldGroups: mayHoldGroups, now: now,
                prepare: { [identityKey] in identityKey.save() },
                report: { [weak self] in self?.report($0, $1) })
            state.observation = (behind.store.leasing as? any CacheCoordinating)?.observe { [ledger] in
                ledger.counters.statistics(of: nil)
            }
            return made.storeIfNil(behind)
        }
    }

    /// Waits at most five seconds for pending writes.
    func shutdown() async { await made.load()?.settle(within: .seconds(5)) }

    /// Reports a failure of the store, once for each kind of operation.
    func report(_ error: any Error, _ operation: String) {
        // An entry that is too large is not a failure, and an unavailable server was reported by the store itself.
        let cause = (error as? NetworkError)?.underlying
        if cause is CacheEntryTooLarge || cause is CacheServerUnavailable { return }
        guard !(error is CancellationError), state.withLock({ $0.reported.insert(operation).inserted }) else { return }
        let fault =
            error as? NetworkError
            ?? NetworkError(
                .cache, message: "the response cache could not \(operation): \(error)", underlying: error)
        if let observer {
            observer(fault)
        } else {
            RequestLog.standardError("LATNetworking: \(fault.message); requests continue without the cache")
        }
    }
}

/// Receives failures of the cache's store, once for each kind of operation.
public typealias CacheObserver = @Sendable (_ fault: NetworkError) -> Void
