/// Runs Swift tasks on an engine's thread, so that a request and the code that awaits it stay on one thread.
///
/// ```swift
/// try await withTaskExecutorPreference(manager.executor) {
///     for id in ids { print(try await FetchPrice(id: id).startRequest(on: manager).cents) }
/// }
/// ```
///
/// Use it for loops of many small requests: passing a request to another thread
/// and its response back takes over half the time of a small request. Tasks that
/// prefer the executor, and their child tasks, run between the engine's turns,
/// in the order in which they become ready and regardless of priority. Actors
/// with an executor of their own, such as the main actor, stay on it.
///
/// **Never block there.** All requests of the manager wait while a task
/// computes or decodes a body on the engine's thread, so move work that takes
/// more than a few milliseconds to
/// `withTaskExecutorPreference(globalConcurrentExecutor) { … }` or a detached
/// task. A semaphore, a lock or `DispatchQueue.sync` that waits for a request
/// of the same manager never returns.
///
/// After the engine has ended, the tasks that prefer it run on Swift's global
/// executor.
package final class EngineExecutor: TaskExecutor {
    private let mailbox: Mailbox<Engine.Command>

    init(mailbox: Mailbox<Engine.Command>) { self.mailbox = mailbox }

    /// Accepts a job; called by the Swift runtime.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if !mailbox.post(job) { globalConcurrentExecutor.enqueue(job) }
    }
}
