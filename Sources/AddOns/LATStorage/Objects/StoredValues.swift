import HTTPCore
import Platform
import SQLite
import Synchronization

extension ObjectStore {
    /// The results of a query, now and after every commit that may have changed them.
    ///
    /// ```swift
    /// for try await users in store.values(of: Query<User>(where: \.age >= 18)) { show(users) }
    /// ```
    ///
    /// The first element comes at once. The query then runs again after each commit to the type's table, by this
    /// program or, where the store is a file, by another process. Several commits during the processing of one element
    /// lead to one new element. An element may equal the previous one. The sequence ends when the task is cancelled or
    /// the store is closed.
    public func values<Object: Storable>(of query: Query<Object>) -> StoredValues<Object>
    where Object.ID: Codable & Sendable {
        StoredValues(store: self, query: query)
    }

    /// The values that match a condition (default: all, in any order), now and after every commit that may have changed
    /// them. See ``values(of:)``.
    public func values<Object: Storable>(
        of type: Object.Type, where condition: Condition<Object> = .all, sortedBy order: [Sorting<Object>] = []
    ) -> StoredValues<Object> where Object.ID: Codable & Sendable {
        StoredValues(store: self, query: Query(where: condition, sortedBy: order))
    }
}

/// The results of a query over time; see ``ObjectStore/values(of:)``.
public struct StoredValues<Object: Storable>: AsyncSequence, Sendable where Object.ID: Codable & Sendable {
    let store: ObjectStore
    let query: Query<Object>

    /// Starts to observe.
    public func makeAsyncIterator() -> Iterator { Iterator(store: store, query: query) }

    /// Waits for commits and runs the query again.
    public struct Iterator: AsyncIteratorProtocol {
        private let store: ObjectStore
        private let query: Query<Object>
        private var signals: AsyncStream<Void>.Iterator

        init(store: ObjectStore, query: Query<Object>) {
            self.store = store
            self.query = query
            // Made before the first query, so that no commit in between is missed.
            let table = TableLayout.table(of: Object.self)
            signals = store.core.changes.signals(for: table, core: store.core).makeAsyncIterator()
        }

        /// The next result; `nil` after cancellation, or when the store was closed.
        ///
        /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage`.
        public mutating func next() async throws -> [Object]? {
            guard await signals.next() != nil, !Task.isCancelled else { return nil }
            let query = query
            do {
                return try await store.run { try $0.fetch(query) }
            } catch is CancellationError {
                return nil
            } catch let error as NetworkError where error.storageFailure?.reason == .closed {
                // The store was closed after the signal.
                return nil
            }
        }
    }
}

/// The observers of changes of a store.
///
/// Commits of this process are reported at once. Those of other processes are noticed without polling: a commit writes
/// the log file beside the database, inotify reports that, and `PRAGMA data_version` says whether another process has
/// committed. The log is written shortly before the commit becomes visible, so the pragma is read several times.
final class ChangeHub: Sendable {
    private struct State {
        var tables: [String: LatestValue<Void>] = [:]
        var watch: FolderWatch?
        var isClosed = false
    }

    private let state = Mutex(State())
    private let path: String

    /// After a change of the log, `PRAGMA data_version` is read at once, and then again after each of these waits, in
    /// milliseconds: a durable commit becomes visible only when the disk has written its log.
    private static let rereadDelays: [Int32] = [2, 10, 50, 200, 500, 1_000, 2_000, 4_000]

    init(path: String) { self.path = path }

    /// Yields at once and after every change of a table. Several changes while no one waits yield once.
    func signals(for table: String, core: StoreCore) -> AsyncStream<Void> {
        let hub = state.withLock { state in
            if let hub = state.tables[table] { return hub }
            let hub = LatestValue<Void>(()) { [weak self] in self?.endWatchWhenIdle() }
            if state.isClosed { hub.finish() } else { state.tables[table] = hub }
            return hub
        }
        let signals = hub.values()
        if !core.isInMemory { startWatch(core) }
        return signals
    }

    /// Signals the observers of these tables; of all tables when `nil`.
    func report(_ tables: Set<String>?) {
        if tables?.isEmpty == true { return }
        let hubs = state.withLock { state in
            state.tables.filter { tables?.contains($0.key) ?? true }.values
        }
        for hub in hubs { hub.send(()) }
    }

    func close() {
        let (hubs, watch) = state.withLock { state in
            defer { state = State(isClosed: true) }
            return (state.tables.values, state.watch)
        }
        watch?.end()
        for hub in hubs { hub.finish() }
    }

    private func endWatchWhenIdle() {
        let watch = state.withLock { state -> FolderWatch? in
            if state.tables.values.contains(where: \.hasReaders) { return nil }
            defer { state.watch = nil }
            return state.watch
        }
        watch?.end()
    }

    // MARK: Other processes

    private func startWatch(_ core: StoreCore) {
        if state.withLock({ $0.isClosed || $0.watch != nil }) { return }
        let parts = PathParts(path)
        let version = Atomic64(0)
        core.withIdleWriter { version.value.store(Self.version($0), ordering: .relaxed) }
        let count = Atomic64(0)
        let watch = FolderWatch(folder: parts.folder, names: [parts.name, parts.name + "-wal"]) {
            [weak self, weak core] names in
            guard let self, let core else { return nil }
            if !names.isEmpty { count.value.store(0, ordering: .relaxed) }
            var isForeign = false
            core.withIdleWriter { connection in
                let now = Self.version(connection)
                isForeign = version.value.exchange(now, ordering: .relaxed) != now
            }
            if isForeign { self.report(nil) }
            let number = Int(count.value.wrappingAdd(1, ordering: .relaxed).oldValue)
            return number < Self.rereadDelays.count ? Self.rereadDelays[number] : nil
        }
        let surplus = state.withLock { state -> FolderWatch? in
            if state.isClosed || state.watch != nil { return watch }
            state.watch = watch
            return nil
        }
        surplus?.end()
        // The last observer may have ended in the meantime.
        endWatchWhenIdle()
    }

    private static func version(_ connection: SQLiteConnection) -> Int64 {
        (try? connection.scalar("PRAGMA data_version", operation: "look for changes")) ?? 0
    }

    /// An atomic that closures can capture.
    private final class Atomic64: Sendable {
        let value: Atomic<Int64>

        init(_ value: Int64) { self.value = Atomic(value) }
    }
}
