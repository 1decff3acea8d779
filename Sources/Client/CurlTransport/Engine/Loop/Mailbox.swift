import Glibc
import Platform
import Synchronization

/// The engine's queue of commands, and of jobs for the tasks that run on its
/// thread.
///
/// Other threads append to locked lists and wake the engine if it sleeps, once
/// for a whole burst. The engine's own thread appends to plain lists, without a
/// lock or a system call.
final class Mailbox<Command: Sendable>: @unchecked Sendable {
    // Sendable: only the engine's thread, which `owner` identifies, touches `ownCommands` and `ownJobs`. Everything
    // else is constant, atomic or locked.

    private struct State {
        var commands: [Command] = []
        var jobs: [UnownedJob] = []
        var isSleeping = false
        var isClosed = false
    }

    /// Watched by the engine. The watch is edge-triggered, so the signal need not be cleared.
    let wakeUp: WakeUp
    private let state = Mutex(State())
    /// The engine's thread; 0 before it runs and after the mailbox is closed.
    private let owner = Atomic<UInt>(0)
    @exclusivity(unchecked) private var ownCommands: [Command] = []
    @exclusivity(unchecked) private var ownJobs: [UnownedJob] = []

    /// Makes an open mailbox; `nil` when the process has no descriptor left.
    init?() {
        guard let wakeUp = WakeUp() else { return nil }
        self.wakeUp = wakeUp
    }

    /// Posts a command. Returns `false` when the engine has ended and will not perform it.
    @discardableResult
    func post(_ command: Command) -> Bool {
        if isOwn {
            ownCommands.append(command)
            return true
        }
        return leave { $0.commands.append(command) }
    }

    /// Posts a job. Returns `false` when the engine has ended and will not run it.
    func post(_ job: UnownedJob) -> Bool {
        if isOwn {
            ownJobs.append(job)
            return true
        }
        return leave { $0.jobs.append(job) }
    }

    /// Whether the caller is the engine's thread. No other thread can find its own identifier here, so relaxed ordering
    /// is enough.
    private var isOwn: Bool { owner.load(ordering: .relaxed) == UInt(pthread_self()) }

    private func leave(_ change: (inout State) -> Void) -> Bool {
        let (isOpen, wakes) = state.withLock { state in
            guard !state.isClosed else { return (false, false) }
            change(&state)
            defer { state.isSleeping = false }
            return (true, state.isSleeping)
        }
        if wakes { wakeUp.signal() }
        return isOpen
    }

    // MARK: For the engine's thread

    /// Makes the calling thread the engine's thread.
    func open() { owner.store(UInt(pthread_self()), ordering: .relaxed) }

    /// Moves the commands of other threads into an empty list, and their jobs to the engine's own jobs.
    func take(into commands: inout [Command]) {
        state.withLock { state in
            state.isSleeping = false
            swap(&state.commands, &commands)
            guard !state.jobs.isEmpty else { return }
            ownJobs.append(contentsOf: state.jobs)
            state.jobs.removeAll(keepingCapacity: true)
        }
    }

    /// Moves the commands of the engine's own thread into an empty list.
    func takeOwn(into commands: inout [Command]) { swap(&ownCommands, &commands) }

    /// Moves the jobs into an empty list.
    func takeJobs(into jobs: inout [UnownedJob]) { swap(&ownJobs, &jobs) }

    var hasJobs: Bool { !ownJobs.isEmpty }

    /// Records that the engine is about to sleep. Returns `false` when there is work to do first.
    func prepareToSleep() -> Bool {
        guard ownCommands.isEmpty, ownJobs.isEmpty else { return false }
        return state.withLock { state in
            state.isSleeping = state.commands.isEmpty && state.jobs.isEmpty
            return state.isSleeping
        }
    }

    /// Closes the mailbox and returns what was left in it. Later posts are refused, also on the engine's thread.
    func closeAndTakeRest() -> (commands: [Command], jobs: [UnownedJob]) {
        owner.store(0, ordering: .relaxed)
        defer { (ownCommands, ownJobs) = ([], []) }
        return state.withLock { state in
            defer { state = State(isClosed: true) }
            return (state.commands + ownCommands, state.jobs + ownJobs)
        }
    }
}
