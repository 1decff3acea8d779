import FoundationEssentials
import Glibc
public import HTTPCore
import ResponseCache
import Synchronization

/// A manager's store: made when it is first needed, its faults reported and kept from the requests.
final class CacheStorage: Sendable {
    private struct State {
        var isMissing = false
        var reported: Set<String> = []
        var partition: String?
        var memoryValues: MemoryStore?
    }

    /// What the cache did, and why answers were not stored.
    let ledger: CacheLedger
    /// What tells answers of one sender from those of another.
    let identityKey: IdentityKey
    private let isPartitioned: Atomic<Bool>
    /// Whether an earlier process has left something.
    private let isThere: @Sendable () -> Bool

    private let makeStore: @Sendable () throws -> any CacheStore
    private let settings: WriteBehind.Settings
    private let observer: CacheObserver?
    private let state: Mutex<State>
    /// Set once, so that no request takes a lock to have it.
    private let made = AtomicLazyReference<WriteBehind>()
    /// The time, by the wall clock.
    let now: @Sendable () -> Date

    init(
        partition: String?, directory: String?, settings: WriteBehind.Settings, now: @escaping @Sendable () -> Date,
        observer: CacheObserver?, make: @escaping @Sendable () throws -> any CacheStore
    ) {
        makeStore = make
        self.settings = settings
        self.observer = observer
        self.now = now
        ledger = CacheLedger(now: now)
        state = Mutex(State(partition: partition))
        isPartitioned = Atomic(partition != nil)
        identityKey = IdentityKey(directory: directory)
        isThere = { directory.map(DiskStore.hasEntries) ?? false }
    }

    /// The user whose entries are read and written by the calls that begin now.
    var partition: String? {
        get { isPartitioned.load(ordering: .relaxed) ? state.withLock { $0.partition } : nil }
        set {
            state.withLock { state in
                state.partition = newValue
                isPartitioned.store(newValue != nil, ordering: .relaxed)
            }
        }
    }

    /// Whether there can be an entry that a request makes wrong.
    var mayHoldEntries: Bool { made.load() != nil || isThere() }

    /// The store as it is, once all that was to be stored until now is there.
    ///
    /// - Throws: what making it threw, each time.
    func store() async throws -> any CacheStore {
        let behind = try make()
        await behind.settle()
        return behind.store
    }

    /// The store as it is now, whatever waits to be written of responses: for values, which do not wait.
    func storeOfValues() throws -> any CacheStore { try make().store }

    /// Holds values that never touch a disk.
    var memoryValues: MemoryStore {
        state.withLock { state in
            let store = state.memoryValues ?? MemoryStore(byteLimit: 16 << 20)
            state.memoryValues = store
            return store
        }
    }

    /// What was counted so far. Makes no store.
    var statistics: CacheStatistics { ledger.counters.statistics(of: made.load()?.store) }

    /// The store, as requests use it; `nil` when it could not be made, which is reported and not tried for each request.
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
        try state.withLock { _ in
            if let behind = made.load() { return behind }
            let behind = WriteBehind(
                try makeStore(), settings, ledger, now: now, prepare: { [identityKey] in identityKey.save() },
                report: { [weak self] in self?.report($0, $1) })
            return made.storeIfNil(behind)
        }
    }

    /// Writes what waits, for some seconds at most.
    func shutdown() async { await made.load()?.settle(within: .seconds(5)) }

    /// Tells of a fault the first time that it happens to an operation.
    func report(_ error: any Error, _ operation: String) {
        // An entry that no store of this size would take is no fault.
        if (error as? NetworkError)?.underlying is CacheEntryTooLarge { return }
        guard !(error is CancellationError), state.withLock({ $0.reported.insert(operation).inserted }) else { return }
        let fault =
            error as? NetworkError
            ?? NetworkError(
                .cache, message: "the response cache could not \(operation): \(error)", underlying: error)
        if let observer {
            observer(fault)
        } else {
            let line = Array("LATNetworking: \(fault.message); requests go on without the cache\n".utf8)
            _ = write(STDERR_FILENO, line, line.count)
        }
    }
}

/// Is told of a fault of the cache's store, once for each kind of operation.
public typealias CacheObserver = @Sendable (_ fault: NetworkError) -> Void
