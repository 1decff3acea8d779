import Glibc
import Platform
import Synchronization

/// How the engine is talked to: commands for it, and the jobs of tasks that
/// run on its thread.
///
/// Other threads leave both in a locked list, with one ``WakeUp`` when
/// the engine sleeps: a burst wakes it once. The engine's own thread leaves
/// them in plain lists, without lock or system call.
final class Mailbox<Command: Sendable>: @unchecked Sendable {
    // Sendable: `ownCommands` and `ownJobs` are touched by the engine's thread only, which `owner` names; all else is
    // constant, atomic or locked.

    private struct State {
        var commands: [Command] = []
        var jobs: [UnownedJob] = []
        var isSleeping = false
        var isClosed = false
    }

    /// Watched by the engine, edge-triggered, so that it need not be cleared.
    let wakeUp: WakeUp
    private let state = Mutex(State())
    /// The engine's thread; 0 before it runs and once the mailbox is closed.
    private let owner = Atomic<UInt>(0)
    @exclusivity(unchecked) private var ownCommands: [Command] = []
    @exclusivity(unchecked) private var ownJobs: [UnownedJob] = []

    /// `nil` when the process has no descriptor left.
    init?() {
        guard let wakeUp = WakeUp() else { return nil }
        self.wakeUp = wakeUp
    }

    /// Leaves a command. Returns `false` when the engine has ended and nobody will read it.
    @discardableResult
    func post(_ command: Command) -> Bool {
        if isOwn {
            ownCommands.append(command)
            return true
        }
        return leave { $0.commands.append(command) }
    }

    /// Leaves a job. Returns `false` when the engine has ended and nobody will run it.
    func post(_ job: UnownedJob) -> Bool {
        if isOwn {
            ownJobs.append(job)
            return true
        }
        return leave { $0.jobs.append(job) }
    }

    /// Whether the caller is the engine's thread. Only that thread can find its own number here, so the order of memory
    /// does not matter.
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

    /// The calling thread is the engine's from now on.
    func open() { owner.store(UInt(pthread_self()), ordering: .relaxed) }

    /// Takes what other threads left: the commands into an empty list, the jobs among the own ones.
    func take(into commands: inout [Command]) {
        state.withLock { state in
            state.isSleeping = false
            swap(&state.commands, &commands)
            guard !state.jobs.isEmpty else { return }
            ownJobs.append(contentsOf: state.jobs)
            state.jobs.removeAll(keepingCapacity: true)
        }
    }

    /// Takes the thread's own commands into an empty list.
    func takeOwn(into commands: inout [Command]) { swap(&ownCommands, &commands) }

    /// Takes the jobs into an empty list.
    func takeJobs(into jobs: inout [UnownedJob]) { swap(&ownJobs, &jobs) }

    /// Whether there are jobs to run.
    var hasJobs: Bool { !ownJobs.isEmpty }

    /// Says that the engine is about to sleep; `false` when there is something to do first.
    func prepareToSleep() -> Bool {
        guard ownCommands.isEmpty, ownJobs.isEmpty else { return false }
        return state.withLock { state in
            state.isSleeping = state.commands.isEmpty && state.jobs.isEmpty
            return state.isSleeping
        }
    }

    /// Ends the mailbox and returns what was left in it. What is posted from now on is refused, on this thread too.
    func closeAndTakeRest() -> (commands: [Command], jobs: [UnownedJob]) {
        owner.store(0, ordering: .relaxed)
        defer {
            ownCommands = []
            ownJobs = []
        }
        return state.withLock { state in
            state.isClosed = true
            defer {
                state.commands = []
                state.jobs = []
            }
            return (state.commands + ownCommands, state.jobs + ownJobs)
        }
    }
}
