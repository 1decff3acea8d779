/// Runs Swift tasks on an engine's thread, so that a request and the code that waits for it never change threads.
///
/// ```swift
/// await withTaskExecutorPreference(manager.executor) {
///     for id in ids { try await load(id) }
/// }
/// ```
///
/// For loops of many small requests: handing a request to another thread and
/// its answer back costs more than half of a small one. Tasks that prefer the
/// executor, and their child tasks, run between the engine's turns, in the
/// order in which they became ready and without regard to their priority.
/// Actors with an executor of their own, the main actor among them, stay where
/// they are.
///
/// **Never block there.** All requests of the manager stand still while a task
/// computes: bodies are then decoded on the engine's thread too, so work that
/// takes longer than a few milliseconds belongs elsewhere:
/// `withTaskExecutorPreference(globalConcurrentExecutor) { … }`, or a detached
/// task. A semaphore, a lock or `DispatchQueue.sync` that waits for a request
/// of the same manager never returns.
///
/// When the engine has ended, the tasks that still prefer it go on with Swift's
/// global executor; they need not know.
public final class EngineExecutor: TaskExecutor {
    private let mailbox: Mailbox<Engine.Command>

    init(mailbox: Mailbox<Engine.Command>) { self.mailbox = mailbox }

    /// Takes in a job; called by the Swift runtime.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if !mailbox.post(job) { globalConcurrentExecutor.enqueue(job) }
    }
}
