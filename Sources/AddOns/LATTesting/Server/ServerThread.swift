import Dispatch
import Glibc
import Platform
import Synchronization

/// The thread that runs a ``ServerLoop``.
final class ServerThread: Sendable {
    private let thread: pthread_t
    private let end: DispatchSemaphore
    /// Whether the thread was joined. The lock is held during the join, so that a second caller waits as well.
    private let isJoined = Mutex(false)

    /// - Throws: ``MockServerError`` when the system cannot start a thread; the loop's descriptors are then still open.
    init(running loop: ServerLoop) throws {
        let end = DispatchSemaphore(value: 0)
        let work = Work(loop)
        let run: @Sendable () -> Void = {
            // Releases the loop before the end is signalled.
            work.runAndRelease()
            end.signal()
        }
        guard let thread = BackgroundThread.make("MockServer", run) else {
            throw MockServerError.systemCall("pthread_create")
        }
        self.end = end
        self.thread = thread
    }

    /// Whether the caller runs on this thread, as a handler does.
    var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Waits until the thread has ended. With a limit it detaches the thread after this many seconds, or if the caller runs
    /// on it; without one it must not be called on the thread itself.
    func join(orDetachAfter seconds: Int? = nil) {
        isJoined.withLock { isJoined in
            guard !isJoined else { return }
            let hasEnded = seconds.map { !isCurrent && end.wait(timeout: .now() + .seconds($0)) == .success } ?? true
            if hasEnded { pthread_join(thread, nil) } else { pthread_detach(thread) }
            isJoined = true
        }
    }

    /// `@unchecked Sendable`: made on one thread and handed to the new one, which alone uses it from then on.
    private final class Work: @unchecked Sendable {
        private var loop: ServerLoop?

        init(_ loop: ServerLoop) { self.loop = loop }

        func runAndRelease() {
            loop?.run()
            loop = nil
        }
    }
}
