import DomainTableFormat
import Glibc
import HTTPCore
import Platform

/// What the watcher's thread does: wait, read, check, swap.
///
/// `@unchecked Sendable`: made on one thread and handed to the watcher's own, which alone uses it from then on.
final class WatchLoop: @unchecked Sendable {
    private let path: String
    private let state: WatchState
    private let over: WakeUp
    private var watch: FileWatch
    private var schedule = ReloadSchedule()
    /// What was read last, so that a file that is touched but not changed makes no noise.
    private var bytes: [UInt8]
    /// What the last report was about.
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

    /// Waits for a change or for the time to read. `false` when the watcher is gone.
    private func wait() -> Bool {
        var milliseconds: Int32 = -1
        if let due = schedule.due {
            let (seconds, attoseconds) = (due - .now).components
            milliseconds = Int32(max(0, seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
        }
        return watch.wait(until: over, milliseconds: milliseconds)
    }

    private func reload() {
        // From here on changes of what is on the way now are told.
        watch.arm()
        let outcome = Result<[UInt8], NetworkError> { () throws(NetworkError) in try DomainTable.bytes(of: path) }
        let changes = watch.takeChanges()
        guard !changes.contains(.written) else {
            // What was read may be half old and half new.
            schedule.note(changes, at: .now)
            return
        }
        switch outcome {
        case .failure(let error):
            if isMissing {
                guard schedule.didDoubt(at: .now) else { break }
            } else {
                schedule.didRead()
            }
            // Said once, however often something happens around the place where the file was.
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
            // Half a file is wrong; a whole one that does not fit the environment is past doubt.
            guard bytes == read || schedule.didDoubt(at: .now) else { return }
            bytes = read
            standing = .broken
            state.report(.rejected(error))
        }
    }
}

/// When a file that changes is to be read: soon after the last of a burst of changes, not while it is being written.
struct ReloadSchedule {
    /// So long nothing may happen before the file is read…
    static let quiet = Duration.milliseconds(10)
    /// …but after so long it is read all the same.
    static let patience = Duration.milliseconds(100)
    /// Who has written and has not closed the file for so long is taken to be done.
    static let silentWriter = Duration.milliseconds(500)
    /// So long a file must have been away or wrong before that is reported: editors take a file away and write it anew,
    /// and what a writer has just done can be seen a moment before the system tells of it.
    static let doubt = Duration.milliseconds(150)

    private var first: ContinuousClock.Instant?
    private var last: ContinuousClock.Instant?
    private var isBeingWritten = false
    private var doubtfulSince: ContinuousClock.Instant?

    mutating func note(_ changes: FileWatch.Changes, at now: ContinuousClock.Instant) {
        guard !changes.isEmpty else { return }
        first = first ?? now
        last = now
        // A state that something has changed since has not lasted.
        doubtfulSince = nil
        isBeingWritten = changes.contains(.unfinished)
    }

    /// When to read the file; `nil` for not until something happens.
    var due: ContinuousClock.Instant? {
        guard let first, let last else { return doubtfulSince.map { $0 + Self.doubt } }
        if isBeingWritten { return last + Self.silentWriter }
        return min(last + Self.quiet, first + Self.patience)
    }

    /// The file has been read.
    mutating func didRead() { self = ReloadSchedule() }

    /// The file is away or wrong.
    ///
    /// - Returns: Whether it has been so, and nothing has happened, for so long that it is to be reported.
    mutating func didDoubt(at now: ContinuousClock.Instant) -> Bool {
        let since = doubtfulSince ?? now
        self = ReloadSchedule()
        if now - since >= Self.doubt { return true }
        doubtfulSince = since
        return false
    }
}
