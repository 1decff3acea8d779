import DomainTableFormat
import Glibc
public import HTTPCore
import Platform
import Synchronization

/// A table that follows its file while the program runs.
///
/// ```swift
/// let watcher = try DomainTableWatcher(contentsOf: "Config/domains.json5") { event in
///     if case .rejected(let error) = event { log(error.message) }    // the previous table stays in use
/// }
/// let route = try watcher.current.resolve(server: "user.detail")
/// watcher.update { $0.environment = "dev" }
/// ```
///
/// The file may be written in place, replaced by a rename, reached through symbolic links that change (a mounted config
/// map), or deleted and restored. A new version is read and checked as a whole, then replaces the old one atomically.
/// An invalid version is reported, and the old one stays. What the program has set in the table is kept.
///
/// One thread waits for the kernel's file events (`inotify(7)`), which network file systems do not send for changes
/// made on other machines. The thread ends, and its descriptors are closed, when the watcher is released. A rename of a
/// directory above the file's own is noticed at the next change of the file.
package final class DomainTableWatcher: Sendable {
    /// The path of the file.
    public let path: String

    private let state: WatchState
    /// Ends the thread.
    private let over: WakeUp

    /// Reads the file and starts watching it.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - environment: as in ``DomainTable/init(contentsOf:environment:)``.
    ///   - onEvent: called for each change, one at a time, on the watcher's thread; must not block. Default `nil`.
    /// - Throws: as ``DomainTable/init(contentsOf:environment:)``; ``NetworkError/Kind/other`` when the system has no
    ///   more watches, descriptors or threads.
    public convenience init(
        contentsOf path: String, environment: String? = DomainTable.environmentOfProcess,
        onEvent: (@Sendable (DomainTable.FileEvent) -> Void)? = nil
    ) throws(NetworkError) {
        try self.init(path, onEvent: onEvent) { bytes throws(NetworkError) in
            try DomainTable(bytes: bytes, path: path, environment: environment)
        }
    }

    /// Starts watching the file that a table was read from. Changes made to the table in code are kept.
    convenience init(
        following table: DomainTable, at path: String, onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?
    ) throws(NetworkError) {
        try self.init(path, onEvent: onEvent) { bytes throws(NetworkError) in
            var table = table
            try table.replaceFile(by: try DomainTable(bytes: bytes, path: path, environment: nil))
            return table
        }
    }

    private init(
        _ path: String, onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?,
        _ makeTable: ([UInt8]) throws(NetworkError) -> DomainTable
    ) throws(NetworkError) {
        guard let watch = FileWatch(path: path) else {
            throw Self.systemError(
                "inotify_init1", "raise fs.inotify.max_user_instances, or read the table without watching")
        }
        // Watched before it is read, so that no change is missed in between.
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

    /// The current table. Cheap.
    public var current: DomainTable { state.current }

    /// Changes the table in code, at once for all later reads. The changes are kept when the file is read again. The
    /// closure must not call this method.
    ///
    /// - Returns: what the closure returns.
    /// - Throws: what the closure throws; the table is then unchanged.
    @discardableResult
    public func update<Result: Sendable, Failure: Error>(
        _ change: (inout DomainTable) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try state.update(change)
    }

    /// The results of changes from now on. Each access returns a stream of its own, which ends when the watching ends.
    public var events: AsyncStream<DomainTable.FileEvent> { state.events() }

    /// Stops watching; ``current`` stays as it is. Optional: releasing the watcher does the same.
    public func stop() { over.signal() }

    private static func systemError(_ call: String, _ advice: String) -> NetworkError {
        NetworkError(.other, message: "the table cannot be watched: \(call) failed with errno \(errno); \(advice)")
    }
}

/// The state that the watcher and its thread share.
final class WatchState: Sendable {
    private let table: Mutex<DomainTable>
    /// Held while a changed table is made, so that no update is lost; readers do not wait for it.
    private let changes = Mutex<Void>(())
    private let onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?
    private let hub = EventHub<DomainTable.FileEvent>()

    init(_ table: DomainTable, onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?) {
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

    func report(_ event: DomainTable.FileEvent) {
        onEvent?(event)
        hub.send(event)
    }

    func events() -> AsyncStream<DomainTable.FileEvent> { hub.events() }

    func end() { hub.finish() }
}

extension DomainTable {
    /// The result of a change of the file.
    public enum FileEvent: Sendable {
        /// The table was replaced by this one.
        case reloaded(DomainTable)
        /// The file is invalid or missing, as the error says; the table is unchanged.
        case rejected(NetworkError)
    }
}
