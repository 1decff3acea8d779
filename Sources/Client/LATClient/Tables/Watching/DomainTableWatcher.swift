import DomainTables
import Glibc
package import HTTPCore
import Platform

/// A table that follows its file while the program runs.
///
/// ```swift
/// let watcher = try DomainTableWatcher(contentsOf: "Config/domains.json5") { event in
///     if case .rejected(let error) = event { print(error) }    // the previous table stays in use
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

    let state: WatchState
    private let over: WakeUp

    /// Reads the file and starts watching it.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - environment: as in ``DomainTable/init(contentsOf:environment:)``.
    ///   - onEvent: called for each change, one at a time, on the watcher's thread; must not block. Default `nil`.
    /// - Throws: as ``DomainTable/init(contentsOf:environment:)``; ``NetworkError/Kind/other`` when the system has no
    ///   more inotify instances or watches, descriptors or threads, and for a folder that the process may not read.
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
        try self.init(path, instead: table, onEvent: onEvent) { bytes throws(NetworkError) in
            var table = table
            try table.replaceFile(by: try DomainTable(bytes: bytes, path: path, environment: nil))
            return table
        }
    }

    /// - Parameter instead: The table until the file has a valid one; `nil` if it must have one now.
    private init(
        _ path: String, instead known: DomainTable? = nil, onEvent: (@Sendable (DomainTable.FileEvent) -> Void)?,
        _ makeTable: ([UInt8]) throws(NetworkError) -> DomainTable
    ) throws(NetworkError) {
        let watch: FileWatch
        do throws(SystemError) {
            watch = try FileWatch(path: path)
        } catch {
            let advice =
                switch error.code {
                case ENOSPC: "raise fs.inotify.max_user_watches"
                case EACCES: "permit the process to read the table's folder"
                default: "raise fs.inotify.max_user_instances"
                }
            throw Self.systemError(error.attempt, advice + ", or read the table without watching", error.code)
        }
        // Watched before it is read, so that no change is missed in between.
        var bytes: [UInt8] = []
        var isRefused = false
        /// Why the file cannot be read.
        var obstacle: String?
        let table: DomainTable
        do throws(NetworkError) {
            let content: [UInt8]
            do throws(NetworkError) {
                content = try DomainTable.bytes(of: path)
            } catch {
                obstacle = error.message
                throw error
            }
            table = try makeTable(content)
            bytes = content
        } catch {
            // The watch notices when the file is replaced, or reads it again.
            guard let known else { throw error }
            table = known
            isRefused = error.kind == .unknownName
            onEvent?(.rejected(error))
        }
        guard let over = WakeUp() else {
            throw Self.systemError("eventfd", "then read the table again")
        }
        let state = WatchState(table, onEvent: onEvent) { over.signal() }
        if isRefused { state.noteRefusal() }
        self.path = path
        self.state = state
        self.over = over
        let loop = WatchLoop(path: path, bytes: bytes, obstacle, watch: watch, over: over, state: state)
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
    public func stop() {
        state.stop()
        over.signal()
    }

    private static func systemError(_ call: String, _ advice: String, _ code: CInt = errno) -> NetworkError {
        NetworkError(
            .other, message: "the table cannot be watched: \(call) failed: \(SystemError(code: code).text); \(advice)")
    }
}

/// The work of the watcher's thread: waits, reads, checks, replaces the table.
///
/// `@unchecked Sendable`: created on one thread and handed to the watcher's thread, which alone uses it from then on.
final class WatchLoop: @unchecked Sendable {
    /// The path in messages. The file is that of `watch`, also when the process changes its current directory.
    private let path: String
    private let state: WatchState
    /// Wakes the thread when the watcher is gone, or when the app has changed a table whose newest file was refused.
    private let over: WakeUp
    private var watch: FileWatch
    private var schedule = ReloadSchedule()
    /// The bytes read last, so that touching the file without changing it reports nothing.
    private var bytes: [UInt8]
    private var reported = FileState.accepted

    private enum FileState: Equatable {
        case accepted
        case broken
        /// As the app has set the table.
        case refused(String)
        case unreadable(String)
    }

    /// - Parameter obstacle: why the file could not be read; `nil` if it was.
    init(
        path: String, bytes: [UInt8], _ obstacle: String? = nil, watch: FileWatch, over: WakeUp, state: WatchState
    ) {
        self.path = path
        self.bytes = bytes
        self.watch = watch
        self.over = over
        self.state = state
        guard let obstacle else { return }
        reported = .unreadable(obstacle)
        schedule.noteUnreadable(at: .now)
    }

    deinit { state.end() }

    func run() {
        while wait() {
            schedule.note(watch.takeChanges(), at: .now)
            if let due = schedule.due, due <= .now { reload() }
        }
    }

    /// Waits for a change, or until it is time to read the file. Returns `false` when the watcher is gone.
    private func wait() -> Bool {
        let milliseconds = schedule.due.map { Int32(max(0, ($0 - .now).roundedUpMilliseconds)) }
        if watch.wait(until: over, milliseconds: milliseconds ?? -1) { return true }
        over.clear()
        guard !state.isStopped else { return false }
        reload()
        return true
    }

    private func reload() {
        // Armed before the file is read, so that changes during the read are noticed.
        watch.arm()
        let outcome = Result<[UInt8], NetworkError> { () throws(NetworkError) in try DomainTable.bytes(of: watch.path) }
        let changes = watch.takeChanges()
        guard !changes.contains(.written) else {
            // The bytes that were read may be a mix of old and new ones.
            schedule.note(changes, at: .now)
            return
        }
        switch outcome {
        case .failure(let error):
            if isMissing {
                guard schedule.noteInvalid(at: .now) else { break }
            } else {
                schedule.noteUnreadable(at: .now)
            }
            // Reported once, however many events follow in the file's directory.
            guard reported != .unreadable(error.message) else { break }
            reported = .unreadable(error.message)
            state.report(.rejected(error))
        case .success(let read):
            var isOpen = false
            switch reported {
            case .unreadable, .refused: isOpen = true
            case .accepted, .broken: break
            }
            if read != bytes || isOpen { take(read) } else { schedule.didRead() }
        }
        schedule.note(changes, at: .now)
    }

    private var isMissing: Bool { access(watch.path, F_OK) != 0 }

    private func take(_ read: [UInt8]) {
        let isSame = read == bytes
        var isValid = false
        do throws(NetworkError) {
            let file = try DomainTable(bytes: read, path: path, environment: nil)
            schedule.didRead()
            (bytes, isValid) = (read, true)
            let table = try state.replaceFile(by: file)
            reported = .accepted
            state.report(.reloaded(table))
        } catch {
            // An invalid file may be incomplete, and is reported only if it stays so. A complete file that lacks the
            // environment is reported at once.
            guard bytes == read || schedule.noteInvalid(at: .now) else { return }
            bytes = read
            let known = reported
            reported = isValid ? .refused(error.message) : .broken
            // For the same reason, a file is refused once.
            guard !isSame || reported != known else { return }
            state.report(.rejected(error))
        }
    }
}

/// Decides when to read a changed file: soon after the last of a burst of changes, but not while it is written.
struct ReloadSchedule {
    /// The time without changes after which the file is read.
    static let quiet = Duration.milliseconds(10)
    /// The file is read at the latest this long after the first change, unless it is still being written.
    static let patience = Duration.milliseconds(100)
    /// A writer that has neither written nor closed the file for this long is considered done.
    static let silentWriter = Duration.milliseconds(500)
    /// The time a file must be missing or invalid before that is reported. Editors delete a file and write it anew, and
    /// a change can be visible shortly before its inotify event arrives.
    static let doubt = Duration.milliseconds(150)

    private var first: ContinuousClock.Instant?
    private var last: ContinuousClock.Instant?
    private var isBeingWritten = false
    private var invalidSince: ContinuousClock.Instant?
    /// When to read a file again that is there and could not be read.
    private var again: ContinuousClock.Instant?
    private var pauses = Backoff(first: .seconds(1), longest: .seconds(60))

    mutating func note(_ changes: FileWatch.Changes, at now: ContinuousClock.Instant) {
        guard !changes.isEmpty else { return }
        first = first ?? now
        last = now
        // A change restarts the wait before a missing or invalid file is reported.
        invalidSince = nil
        isBeingWritten = changes.contains(.unfinished)
    }

    /// When to read the file; `nil` until the next change.
    var due: ContinuousClock.Instant? {
        guard let first, let last else { return invalidSince.map { $0 + Self.doubt } ?? again }
        if isBeingWritten { return last + Self.silentWriter }
        return min(last + Self.quiet, first + Self.patience)
    }

    mutating func didRead() { self = ReloadSchedule() }

    /// Notes that the file is there and cannot be read. There may be no event when it can, as when the process has had no
    /// descriptor left, so it is read again after a while.
    mutating func noteUnreadable(at now: ContinuousClock.Instant) {
        var pauses = pauses
        let pause = pauses.next()
        self = ReloadSchedule()
        (again, self.pauses) = (now + pause, pauses)
    }

    /// Notes that the file is missing or invalid.
    ///
    /// - Returns: whether to report it, because it has stayed so for ``doubt`` without a change.
    mutating func noteInvalid(at now: ContinuousClock.Instant) -> Bool {
        let since = invalidSince ?? now
        self = ReloadSchedule()
        if now - since >= Self.doubt { return true }
        invalidSince = since
        return false
    }
}
