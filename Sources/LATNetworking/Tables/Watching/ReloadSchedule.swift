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
