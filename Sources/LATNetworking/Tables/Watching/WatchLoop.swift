import DomainTableFormat
import Glibc
import HTTPCore
import Platform

/// The work of the watcher's thread: waits, reads, checks, replaces the table.
///
/// `@unchecked Sendable`: created on one thread and handed to the watcher's thread, which alone uses it from then on.
final class WatchLoop: @unchecked Sendable {
    private let path: String
    private let state: WatchState
    private let over: WakeUp
    private var watch: FileWatch
    private var schedule = ReloadSchedule()
    /// The bytes read last, so that touching the file without changing it reports nothing.
    private var bytes: [UInt8]
    /// What was reported last.
    private var standing = Standing.accepted

    private enum Standing: Equatable {
        case accepted
        case broken
        case unreadable(String)
    }

    init(path: String, bytes: [UInt8], watch: FileWatch, over: WakeUp, state: WatchState) {
        self.path = path
        self.bytes = bytes
        self.watch = watch
        self.over = over
        self.state = state
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
        var milliseconds: Int32 = -1
        if let due = schedule.due {
            let (seconds, attoseconds) = (due - .now).components
            milliseconds = Int32(max(0, seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
        }
        return watch.wait(until: over, milliseconds: milliseconds)
    }

    private func reload() {
        // Armed before the file is read, so that changes during the read are noticed.
        watch.arm()
        let outcome = Result<[UInt8], NetworkError> { () throws(NetworkError) in try DomainTable.bytes(of: path) }
        let changes = watch.takeChanges()
        guard !changes.contains(.written) else {
            // What was read may mix old and new bytes.
            schedule.note(changes, at: .now)
            return
        }
        switch outcome {
        case .failure(let error):
            if isMissing {
                guard schedule.noteInvalid(at: .now) else { break }
            } else {
                schedule.didRead()
            }
            // Reported once, however many events follow in the file's directory.
            guard standing != .unreadable(error.message) else { break }
            standing = .unreadable(error.message)
            state.report(.rejected(error))
        case .success(let read):
            var isBack = false
            if case .unreadable = standing { isBack = true }
            if read != bytes || isBack { take(read) } else { schedule.didRead() }
        }
        schedule.note(changes, at: .now)
    }

    private var isMissing: Bool {
        var status = stat()
        return stat(path, &status) != 0
    }

    private func take(_ read: [UInt8]) {
        do throws(NetworkError) {
            let file = try DomainTable(bytes: read, path: path, environment: nil)
            schedule.didRead()
            bytes = read
            let table = try state.update { table throws(NetworkError) in
                try table.replaceFile(by: file)
                return table
            }
            standing = .accepted
            state.report(.reloaded(table))
        } catch {
            // An invalid file may be incomplete, and is reported only if it stays so. A complete file that lacks the
            // environment is reported at once.
            guard bytes == read || schedule.noteInvalid(at: .now) else { return }
            bytes = read
            standing = .broken
            state.report(.rejected(error))
        }
    }
}

/// Decides when to read a changed file: soon after the last of a burst of changes, but not while it is written.
struct ReloadSchedule {
    /// The time without changes after which the file is read.
    static let quiet = Duration.milliseconds(10)
    /// The time after the first change when the file is read at the latest.
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
        guard let first, let last else { return invalidSince.map { $0 + Self.doubt } }
        if isBeingWritten { return last + Self.silentWriter }
        return min(last + Self.quiet, first + Self.patience)
    }

    /// Notes that the file has been read.
    mutating func didRead() { self = ReloadSchedule() }

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
