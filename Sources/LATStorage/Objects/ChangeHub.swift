import Platform
import Synchronization
import SQLite

/// Who waits for changes of a store, and how they are told.
///
/// Commits of this process are told at once. Those of others are noticed without polling: a commit writes the log file
/// beside the database, inotify sees that, and then the connection is asked whether somebody else has committed
/// (`PRAGMA data_version`). The log is written a little before a commit counts, so the question is repeated a few
/// times.
final class ChangeHub: Sendable {
    private struct State {
        var tables: [String: LatestValue<Void>] = [:]
        var watch: FolderWatch?
        var isClosed = false
    }

    private let state = Mutex(State())
    private let path: String

    /// When to look again after a change of the log, in milliseconds.
    private static let looks: [Int32] = [2, 10, 50, 200]

    init(path: String) { self.path = path }

    /// A signal at once and after every change of a table; more than one while nobody looks are one.
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

    /// Tells who waits for one of these tables; `nil` for any.
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
            let look = Int(count.value.wrappingAdd(1, ordering: .relaxed).oldValue)
            return look < Self.looks.count ? Self.looks[look] : nil
        }
        let surplus = state.withLock { state -> FolderWatch? in
            if state.isClosed || state.watch != nil { return watch }
            state.watch = watch
            return nil
        }
        surplus?.end()
        // The reader may have left meanwhile.
        endWatchWhenIdle()
    }

    private static func version(_ connection: SQLiteConnection) -> Int64 {
        (try? connection.scalar("PRAGMA data_version", operation: "look for changes")) ?? 0
    }

    /// An atomic that closures can hold.
    private final class Atomic64: Sendable {
        let value: Atomic<Int64>

        init(_ value: Int64) { self.value = Atomic(value) }
    }
}
