import HTTPCore
import LATClient
import Platform
import Synchronization

/// What the caller wants a download to do, and the session that has to do it.
///
/// A download runs in sessions. A pause ends the session and its connections, and the next session continues from the
/// journal. If the download is not resumable, its session is suspended instead, with the connection open.
final class DownloadControl: Sendable {
    enum Intent: Hashable {
        case run
        case pause
        case cancel(keepsProgress: Bool)
    }

    private struct State {
        var intent: Intent
        /// Whether the session may be ended and continued by another one.
        var isInterruptible: Bool
        var session: Task<Void, any Error>?
        var waiters: [Waiter<Void>] = []
        var isOver = false

        typealias Effect = (session: Task<Void, any Error>?, waiters: [Waiter<Void>])

        /// The effect of a new intent; `nil` if it changes nothing.
        mutating func set(_ intent: Intent) -> Effect? {
            guard !isOver, self.intent != intent else { return nil }
            // A cancellation is final.
            if case .cancel = self.intent { return nil }
            self.intent = intent
            if intent == .pause { return (isInterruptible ? session : nil, []) }
            return (intent == .run ? nil : session, takeWaiters())
        }

        mutating func takeWaiters() -> [Waiter<Void>] {
            defer { waiters = [] }
            return waiters
        }
    }

    private let state: Mutex<State>

    init(startsPaused: Bool, isInterruptible: Bool) {
        state = Mutex(State(intent: startsPaused ? .pause : .run, isInterruptible: isInterruptible))
    }

    var intent: Intent { state.withLock(\.intent) }

    var isCancelled: Bool {
        if case .cancel = intent { true } else { false }
    }

    var isInterruptible: Bool { state.withLock(\.isInterruptible) }

    // MARK: For the caller

    func set(_ intent: Intent) { change { $0.set(intent) } }

    // MARK: For the session

    /// The error of a session that the caller has paused or cancelled.
    struct Interruption: Error {}

    /// Runs a session, and ends it when the caller pauses or cancels the download.
    ///
    /// - Throws: ``Interruption`` if the caller ended it, else what the work throws.
    func run(_ work: @escaping @Sendable () async throws -> Void) async throws {
        let session = Task(executorPreference: TransferExecutor.shared) { try await work() }
        let isUnwanted = state.withLock { state in
            state.session = session
            return state.intent != .run && (state.isInterruptible || state.intent != .pause)
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

    /// Sets whether the session may be ended and continued by another one. If it may, a pending pause ends it now.
    func setInterruptible(_ isInterruptible: Bool) {
        change { state in
            state.isInterruptible = isInterruptible
            guard isInterruptible, state.intent == .pause else { return nil }
            return (state.session, state.takeWaiters())
        }
    }

    private func change(_ change: (inout State) -> State.Effect?) {
        guard let effect = state.withLock({ change(&$0) }) else { return }
        effect.session?.cancel()
        for waiter in effect.waiters { waiter.end(.success(())) }
    }

    /// Returns when the download is to run or to end.
    func waitWhilePaused() async { await wait { _ in true } }

    /// Waits while the download is paused, if a pause cannot end the session. Otherwise returns at once.
    func holdWhilePaused() async { await wait { !$0.isInterruptible } }

    private func wait(_ waits: @Sendable (borrowing State) -> Bool) async {
        // Called before every chunk, so the usual case returns early.
        guard intent == .pause else { return }
        let waiter = Waiter<Void>()
        let isWaiting = state.withLock { state in
            guard state.intent == .pause, waits(state) else { return false }
            state.waiters.append(waiter)
            return true
        }
        // If the session is cancelled during the wait, its next step throws.
        if isWaiting { try? await waiter.value() }
    }

    /// Records the end of the download. Later intents have no effect.
    func finish() { state.withLock { $0.isOver = true } }
}
