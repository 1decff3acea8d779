import Dispatch
import Glibc
import Platform
import Synchronization

/// The thread that runs a ``ServerLoop``, with two ways to wait for its end.
final class ServerThread: Sendable {
    private let thread: pthread_t
    private let end: DispatchSemaphore
    /// Whether the thread was joined. The lock is held during the join, so that a second caller waits as well.
    private let isJoined = Mutex(false)

    /// - Throws: ``MockServerError`` when the system cannot start a thread; the loop's descriptors are then still open.
    init(running loop: ServerLoop) throws {
        let end = DispatchSemaphore(value: 0)
        let work = Work(loop: loop, end: end)
        guard let thread = BackgroundThread.make("MockServer", { ServerThread.run(work) }) else {
            throw MockServerError.systemCall("pthread_create")
        }
        self.end = end
        self.thread = thread
    }

    /// Whether the caller runs on this thread, as a handler does.
    var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Waits until the thread has ended. Must not be called on the thread itself.
    func join() {
        isJoined.withLock { isJoined in
            guard !isJoined else { return }
            pthread_join(thread, nil)
            isJoined = true
        }
    }

    /// Waits at most this many seconds until the thread has ended, else detaches it.
    func joinOrDetach(seconds: Int) {
        isJoined.withLock { isJoined in
            guard !isJoined else { return }
            let hasEnded = !isCurrent && end.wait(timeout: .now() + .seconds(seconds)) == .success
            if hasEnded { pthread_join(thread, nil) } else { pthread_detach(thread) }
            isJoined = true
        }
    }

    private static func run(_ work: Work) {
        let end = work.end
        // Releases the loop before the end is signalled.
        work.runAndRelease()
        end.signal()
    }

    /// `@unchecked Sendable`: made on one thread and handed to the new one, which alone uses it from then on.
    private final class Work: @unchecked Sendable {
        private var loop: ServerLoop?
        let end: DispatchSemaphore

        init(loop: ServerLoop, end: DispatchSemaphore) {
            self.loop = loop
            self.end = end
        }

        func runAndRelease() {
            loop?.run()
            loop = nil
        }
    }
}
