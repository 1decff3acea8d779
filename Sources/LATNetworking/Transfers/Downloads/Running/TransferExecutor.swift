import Dispatch

/// Runs the tasks that write files on threads of their own, so that a slow disk holds up neither the engine nor the
/// program's other tasks.
final class TransferExecutor: TaskExecutor {
    static let shared = TransferExecutor()

    private let queue = DispatchQueue(label: "LATNetworking.transfers", attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
