import HTTPCore
import Platform
import Synchronization

/// What the caller wants of a download, and the work that has to hear of it.
///
/// The work comes in sessions: a pause ends the session, with its connections, and the next one goes on from the journal.
/// A download that cannot be gone on with later is held instead, its connection open.
final class DownloadControl: Sendable {
    enum Wish: Hashable {
        case run
        case pause
        case cancel(keepsProgress: Bool)
    }

    fileprivate struct State {
        var wish: Wish
        /// Whether the present session may be ended and another one go on.
        var isInterruptible: Bool
        var session: Task<Void, any Error>?
        var waiters: [Waiter<Void>] = []
        var isOver = false
    }

    private let state: Mutex<State>

    init(startsPaused: Bool, isInterruptible: Bool) {
        state = Mutex(State(wish: startsPaused ? .pause : .run, isInterruptible: isInterruptible))
    }

    var wish: Wish { state.withLock(\.wish) }

    /// Whether a session may be ended and another one go on where it was.
    var isInterruptible: Bool { state.withLock(\.isInterruptible) }

    // MARK: The caller's side

    /// - Returns: Whether that changed anything.
    @discardableResult
    func set(_ wish: Wish) -> Bool {
        let effect = state.withLock { $0.set(wish) }
        effect?.session?.cancel()
        for waiter in effect?.waiters ?? [] { waiter.end(.success(())) }
        return effect != nil
    }

    // MARK: The work's side

    /// The caller wants something else than that the session goes on.
    struct Interruption: Error {}

    /// Runs a session; ends it when the caller wants that.
    ///
    /// - Throws: ``Interruption`` then, else what the work throws.
    func run(_ work: @escaping @Sendable () async throws -> Void) async throws {
        let session = Task(executorPreference: TransferExecutor.shared) { try await work() }
        let isUnwanted = state.withLock { state in
            state.session = session
            return state.wish != .run && (state.isInterruptible || state.wish != .pause)
        }
        if isUnwanted { session.cancel() }
        let result = await session.result
        state.withLock { $0.session = nil }
        do {
            try result.get()
        } catch {
            let isCancellation = error is CancellationError || (error as? NetworkError)?.kind == .cancelled
            throw session.isCancelled && isCancellation ? Interruption() : error
        }
        if session.isCancelled { throw Interruption() }
    }

    /// Says whether the session may be ended and gone on with; a pause that waits for that happens now.
    func setInterruptible(_ isInterruptible: Bool) {
        let effect = state.withLock { state -> State.Effect? in
            state.isInterruptible = isInterruptible
            guard isInterruptible, state.wish == .pause else { return nil }
            return (state.session, state.takeWaiters())
        }
        effect?.session?.cancel()
        for waiter in effect?.waiters ?? [] { waiter.end(.success(())) }
    }

    /// Returns when the caller wants the download to run, or to end.
    func waitWhilePaused() async { await wait { _ in true } }

    /// The same for a session that cannot be ended by a pause; one that can does not wait for its end.
    func holdWhilePaused() async { await wait { !$0.isInterruptible } }

    private func wait(_ waits: @Sendable (borrowing State) -> Bool) async {
        // Asked before every chunk; hardly ever is there anything to wait for.
        guard wish == .pause else { return }
        let waiter = Waiter<Void>()
        let isWaiting = state.withLock { state in
            guard state.wish == .pause, waits(state) else { return false }
            state.waiters.append(waiter)
            return true
        }
        // A session that is cancelled meanwhile sees that at its next step.
        if isWaiting { try? await waiter.value() }
    }

    /// The download is over; nothing the caller wants changes that.
    func finish() { state.withLock { $0.isOver = true } }
}

extension DownloadControl.State {
    /// What has to be ended and woken.
    fileprivate typealias Effect = (session: Task<Void, any Error>?, waiters: [Waiter<Void>])

    /// What a new wish has to end and to wake; `nil` when it is none.
    fileprivate mutating func set(_ wish: DownloadControl.Wish) -> Effect? {
        guard !isOver, self.wish != wish else { return nil }
        // A cancellation is final.
        if case .cancel = self.wish { return nil }
        self.wish = wish
        if wish == .pause { return (isInterruptible ? session : nil, []) }
        return (wish == .run ? nil : session, takeWaiters())
    }

    fileprivate mutating func takeWaiters() -> [Waiter<Void>] {
        defer { waiters = [] }
        return waiters
    }
}
