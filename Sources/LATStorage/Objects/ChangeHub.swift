import Platform
import Synchronization

/// Who waits for changes of a store, and how they are told.
///
/// Commits of this process are told at once. Those of others are noticed without polling: a commit writes the log file
/// beside the database, inotify sees that, and then the connection is asked whether somebody else has committed
/// (`PRAGMA data_version`). The log is written a little before a commit counts, so the question is repeated a few
/// times.
final class ChangeHub: Sendable {
    private struct State {
        var next = 0
        var observers: [Int: (table: String, signal: AsyncStream<Void>.Continuation)] = [:]
        var watch: FolderWatch?
        var isClosed = false
    }

    private let state = Mutex(State())
    private let path: String

    /// When to look again after a change of the log, in milliseconds.
    private static let looks: [Int32] = [2, 10, 50, 200]

    init(path: String) { self.path = path }

    /// Signals for a table, from now on; more than one while nobody looks are one.
    func signals(for table: String, core: StoreCore) -> (AsyncStream<Void>, Subscription) {
        let (stream, signal) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let (number, isFirst) = state.withLock { state -> (Int, Bool) in
            if state.isClosed {
                signal.finish()
                return (-1, false)
            }
            state.next += 1
            state.observers[state.next] = (table, signal)
            return (state.next, state.watch == nil)
        }
        if isFirst, !core.isInMemory { startWatch(core) }
        return (stream, Subscription { [weak self] in self?.remove(number) })
    }

    /// Ends an observation when it goes.
    final class Subscription: Sendable {
        private let end: @Sendable () -> Void

        init(_ end: @escaping @Sendable () -> Void) { self.end = end }

        deinit { end() }
    }

    /// Tells who waits for one of these tables.
    func report(_ tables: Set<String>) {
        if tables.isEmpty { return }
        let signals = state.withLock { state in
            state.observers.values.filter { tables.contains($0.table) }.map(\.signal)
        }
        for signal in signals { signal.yield() }
    }

    private func reportAll() {
        let signals = state.withLock { $0.observers.values.map(\.signal) }
        for signal in signals { signal.yield() }
    }

    func close() {
        let (signals, watch) = state.withLock { state in
            defer {
                state.isClosed = true
                state.observers = [:]
                state.watch = nil
            }
            return (state.observers.values.map(\.signal), state.watch)
        }
        watch?.end()
        for signal in signals { signal.finish() }
    }

    private func remove(_ number: Int) {
        let watch = state.withLock { state -> FolderWatch? in
            state.observers[number]?.signal.finish()
            state.observers[number] = nil
            guard state.observers.isEmpty else { return nil }
            defer { state.watch = nil }
            return state.watch
        }
        watch?.end()
    }

    // MARK: Other processes

    private func startWatch(_ core: StoreCore) {
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
            if isForeign { self.reportAll() }
            let look = Int(count.value.wrappingAdd(1, ordering: .relaxed).oldValue)
            return look < Self.looks.count ? Self.looks[look] : nil
        }
        let surplus = state.withLock { state -> FolderWatch? in
            if state.isClosed || state.observers.isEmpty || state.watch != nil { return watch }
            state.watch = watch
            return nil
        }
        surplus?.end()
    }

    private static func version(_ connection: Connection) -> Int64 {
        (try? connection.scalar("PRAGMA data_version", operation: "look for changes")) ?? 0
    }

    /// An atomic that closures can hold.
    private final class Atomic64: Sendable {
        let value: Atomic<Int64>

        init(_ value: Int64) { self.value = Atomic(value) }
    }
}
