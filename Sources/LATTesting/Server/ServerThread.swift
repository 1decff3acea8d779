import Dispatch
import Glibc
import Platform
import Synchronization

/// The thread that runs a ``ServerLoop``, and the two ways to wait for its end.
final class ServerThread: Sendable {
    private let thread: pthread_t
    private let end: DispatchSemaphore
    /// Whether the thread has been joined. The lock is held while that happens, so that who comes
    /// second waits as well.
    private let isJoined = Mutex(false)

    /// - Throws: ``MockServerError`` when the system gives no thread; the loop's descriptors are then still open.
    init(running loop: ServerLoop) throws {
        let end = DispatchSemaphore(value: 0)
        let work = Work(loop: loop, end: end)
        guard let thread = BackgroundThread.make("MockServer", { ServerThread.run(work) }) else {
            throw MockServerError.systemCall("pthread_create")
        }
        self.end = end
        self.thread = thread
    }

    /// Whether this is the code of that thread: a handler.
    var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Waits until the thread has ended. Not for the thread itself.
    func join() {
        isJoined.withLock { isJoined in
            guard !isJoined else { return }
            pthread_join(thread, nil)
            isJoined = true
        }
    }

    /// Waits until the thread has ended, but no longer than so many seconds, and lets it go.
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
        // The loop is gone, with all it holds, when the end is told.
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
