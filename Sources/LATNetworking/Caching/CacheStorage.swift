import FoundationEssentials
import Glibc
public import HTTPCore
import ResponseCache
import Synchronization

/// A manager's store: made when it is first needed, its faults reported and kept from the requests.
final class CacheStorage: Sendable {
    private struct State {
        var store: (any CacheStore)?
        var isMissing = false
        var reported: Set<String> = []
        var partition: String?
        var memoryValues: MemoryStore?
    }

    let counters = CacheCounters()
    let refusals = RefusalLog()
    /// What tells answers of one sender from those of another.
    let identityKey: IdentityKey
    private let isPartitioned: Atomic<Bool>
    private let isOpen = Atomic(false)
    /// Whether an earlier process has left something.
    private let isThere: @Sendable () -> Bool

    private let make: @Sendable () throws -> any CacheStore
    private let observer: CacheObserver?
    private let state: Mutex<State>
    /// The time, by the wall clock.
    let now: @Sendable () -> Date

    init(
        partition: String?, directory: String?, now: @escaping @Sendable () -> Date, observer: CacheObserver?,
        make: @escaping @Sendable () throws -> any CacheStore
    ) {
        self.make = make
        self.observer = observer
        self.now = now
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
    var mayHoldEntries: Bool { isOpen.load(ordering: .relaxed) || isThere() }

    /// The store.
    ///
    /// - Throws: what making it threw, each time.
    func store() throws -> any CacheStore {
        try state.withLock { state in
            if let store = state.store { return store }
            let store = try make()
            state.store = store
            isOpen.store(true, ordering: .relaxed)
            return store
        }
    }

    /// Holds values that never touch a disk.
    var memoryValues: MemoryStore {
        state.withLock { state in
            let store = state.memoryValues ?? MemoryStore(byteLimit: 16 << 20)
            state.memoryValues = store
            return store
        }
    }

    /// What was counted so far. Makes no store.
    var statistics: CacheStatistics { counters.statistics(of: state.withLock(\.store)) }

    /// Does something with the store. A fault is reported and gives `nil`: the request goes on without the cache.
    func attempt<Value: Sendable>(
        _ operation: String, _ work: (any CacheStore) async throws -> Value
    ) async -> Value? {
        do {
            return try await work(try available())
        } catch is CancellationError {
            return nil
        } catch {
            report(error, operation)
            return nil
        }
    }

    /// The store; where it could not be made once, that is not tried for each request again.
    private func available() throws -> any CacheStore {
        guard state.withLock({ !$0.isMissing }) else { throw CancellationError() }
        do {
            return try store()
        } catch {
            state.withLock { $0.isMissing = true }
            throw error
        }
    }

    /// Writes an answer; why that failed is noted under its key.
    func keep<Value: Sendable>(
        _ primaryKey: String, _ work: (any CacheStore) async throws -> Value
    ) async -> Value? {
        var refusal = CacheRefusal.storeFailed
        let written: Value? = await attempt("write") { store in
            do {
                return try await work(store)
            } catch {
                refusal = CacheRefusal(writing: error)
                throw error
            }
        }
        if written == nil { refuse(primaryKey, refusal) }
        return written
    }

    /// Notes why an answer is not stored.
    func refuse(_ primaryKey: String, _ refusal: CacheRefusal) {
        counters.add(.notStored)
        refusals.note(refusal, of: primaryKey, at: now())
    }

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
