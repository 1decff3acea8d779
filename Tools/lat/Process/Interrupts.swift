import Dispatch
import Glibc
import Synchronization

/// Turns the signals that ask a program to end into a cancellation.
enum Interrupts {
    private struct State {
        var signal: Int32?
        var cancel: (@Sendable () -> Void)?
        /// The files to delete when the process is ended at once.
        var temporaryFiles: Set<String> = []
        var watched: [Int32] = []
        /// Whether a pager has the terminal. Ctrl-C is then meant for it.
        var isPaging = false
    }

    private static let state = Mutex(State())
    /// How long the work may take to end after the first signal.
    private static let gracePeriod = DispatchTimeInterval.seconds(2)

    /// Runs the work. A signal cancels it. A second signal, or two seconds without an end, ends the process at once.
    static func run(_ work: @escaping @Sendable () async -> ExitCode) async -> ExitCode {
        var sources: [any DispatchSourceSignal] = []
        for number in [SIGINT, SIGTERM, SIGHUP] {
            if let source = await watch(number) { sources.append(source) }
        }
        let task = Task { await work() }
        let hasArrived = state.withLock { state in
            state.cancel = { task.cancel() }
            return state.signal != nil
        }
        if hasArrived { task.cancel() }
        let code = await task.value
        for source in sources { source.cancel() }
        return state.withLock { $0.signal }.map(ExitCode.signal) ?? code
    }

    /// The signals that were not ignored when this process started.
    static var watched: [Int32] { state.withLock(\.watched) }

    /// Registers a file to delete when the process is ended at once.
    static func register(_ path: String) { state.withLock { _ = $0.temporaryFiles.insert(path) } }

    /// Undoes ``register(_:)``.
    static func unregister(_ path: String) { state.withLock { _ = $0.temporaryFiles.remove(path) } }

    /// Sets whether Ctrl-C is left to a pager.
    static func setPaging(_ isPaging: Bool) { state.withLock { $0.isPaging = isPaging } }

    /// Returns once the signal is watched: the work may show a prompt at once, and Ctrl-C must work there.
    private static func watch(_ number: Int32) async -> (any DispatchSourceSignal)? {
        var action = sigaction()
        sigaction(number, nil, &action)
        // A signal that was ignored at the start of this process (nohup, a background job) stays ignored.
        if unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1 { return nil }
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
            guard number != SIGINT || !state.withLock(\.isPaging) else { return }
            let (isFirst, cancel) = state.withLock { state in
                defer { if state.signal == nil { state.signal = number } }
                return (state.signal == nil, state.cancel)
            }
            guard isFirst else { return endNow(number) }
            cancel?()
            DispatchQueue.global().asyncAfter(deadline: .now() + gracePeriod) { endNow(number) }
        }
        await withCheckedContinuation { watched in
            source.setRegistrationHandler { watched.resume() }
            source.resume()
        }
        state.withLock { $0.watched.append(number) }
        return source
    }

    private static func endNow(_ number: Int32) {
        for path in state.withLock(\.temporaryFiles) { unlink(path) }
        LinePrompt.restoreTerminal()
        _exit(ExitCode.signal(number).rawValue)
    }
}
