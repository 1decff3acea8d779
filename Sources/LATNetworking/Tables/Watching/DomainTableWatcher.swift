import DomainTableFormat
import Glibc
public import HTTPCore
import Platform
import Synchronization

/// A table that follows its file while the program runs.
///
/// ```swift
/// let watcher = try DomainTableWatcher(contentsOf: "Config/domains.json5") { event in
///     if case .rejected(let error) = event { log(error.message) }    // the table from before goes on
/// }
/// let route = try watcher.current.resolve(server: "user.detail")
/// watcher.update { $0.environment = "dev" }
/// ```
///
/// The file may be written in place, replaced by a rename, reached through links that are switched (a mounted config
/// map), deleted and brought back. A new version is read and checked as a whole, then takes the place of the old one at
/// once, for whoever asks next. A version that is wrong is reported, and the old one stays. What the program has set in
/// the table stays set.
///
/// One thread waits for the system to tell of changes (`inotify(7)`), which file systems of other machines do not.
/// It ends, with its descriptors, when the watcher is let go of. A folder above the file's own that is renamed as a whole
/// is noticed with the next change of the file.
public final class DomainTableWatcher: Sendable {
    /// What has come of a change of the file.
    public enum Event: Sendable {
        /// The table was replaced by this one.
        case reloaded(DomainTable)
        /// The file is wrong or away, as the error says; the table stays as it was.
        case rejected(NetworkError)
    }

    /// The path of the file.
    public let path: String

    private let state: WatchState
    /// Ends the thread.
    private let over: WakeUp

    /// Reads the file and begins to watch it.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - environment: as in ``DomainTable/init(contentsOf:environment:)``.
    ///   - onEvent: told of each change, one after the other, on the watcher's thread. It must not wait for long.
    /// - Throws: as ``DomainTable/init(contentsOf:environment:)``; ``NetworkError/Kind/other`` when the system has no
    ///   more watches or threads.
    public convenience init(
        contentsOf path: String, environment: String? = DomainTable.environmentOfProcess,
        onEvent: (@Sendable (Event) -> Void)? = nil
    ) throws(NetworkError) {
        try self.init(path, onEvent: onEvent) { bytes throws(NetworkError) in
            try DomainTable(bytes: bytes, path: path, environment: environment)
        }
    }

    /// Begins to watch the file a table was read from. What was set in it in code stays.
    convenience init(
        following table: DomainTable, at path: String, onEvent: (@Sendable (Event) -> Void)?
    ) throws(NetworkError) {
        try self.init(path, onEvent: onEvent) { bytes throws(NetworkError) in
            var table = table
            try table.replaceFile(by: try DomainTable(bytes: bytes, path: path, environment: nil))
            return table
        }
    }

    private init(
        _ path: String, onEvent: (@Sendable (Event) -> Void)?,
        _ makeTable: ([UInt8]) throws(NetworkError) -> DomainTable
    ) throws(NetworkError) {
        guard let watch = FileWatch(path: path) else {
            throw Self.systemError(
                "inotify_init1", "raise fs.inotify.max_user_instances, or read the table without watching")
        }
        // Watched before it is read, so that no change falls between.
        let bytes = try DomainTable.bytes(of: path)
        let table = try makeTable(bytes)
        let state = WatchState(table, onEvent: onEvent)
        self.path = path
        self.state = state
        guard let over = WakeUp() else {
            throw Self.systemError("eventfd", "close files, or raise the limit of open files")
        }
        self.over = over
        let loop = WatchLoop(path: path, bytes: bytes, watch: watch, over: over, state: state)
        guard BackgroundThread.start("lat-table", { loop.run() }) else {
            throw Self.systemError("pthread_create", "end other threads, or raise the limit")
        }
    }

    deinit { stop() }

    /// The table as it is now. Cheap.
    public var current: DomainTable { state.current }

    /// Changes the table in code, at once for whoever asks next. The changes stay when the file is read again. The
    /// closure must not call this method.
    ///
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws; the table is then as before.
    @discardableResult
    public func update<Result: Sendable, Failure: Error>(
        _ change: (inout DomainTable) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try state.update(change)
    }

    /// What comes of the changes from now on. Each call gives a stream of its own; it ends with the watching.
    public var events: AsyncStream<Event> { state.events() }

    /// Ends the watching; ``current`` stays as it is. Not needed: letting go of the watcher does the same.
    public func stop() { over.signal() }

    private static func systemError(_ call: String, _ advice: String) -> NetworkError {
        NetworkError(.other, message: "the table cannot be watched: \(call) failed with errno \(errno); \(advice)")
    }
}

/// What the watcher and its thread share.
final class WatchState: Sendable {
    private let table: Mutex<DomainTable>
    /// Held while a changed table is made, so that no change is lost; readers do not wait for it.
    private let changes = Mutex<Void>(())
    private let onEvent: (@Sendable (DomainTableWatcher.Event) -> Void)?
    private let hub = EventHub<DomainTableWatcher.Event>()

    init(_ table: DomainTable, onEvent: (@Sendable (DomainTableWatcher.Event) -> Void)?) {
        self.table = Mutex(table)
        self.onEvent = onEvent
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
            return result
        }
    }

    func report(_ event: DomainTableWatcher.Event) {
        onEvent?(event)
        hub.send(event)
    }

    func events() -> AsyncStream<DomainTableWatcher.Event> { hub.events() }

    func end() { hub.finish() }
}
