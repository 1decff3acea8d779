import Glibc
import Synchronization

/// Tells when files in a folder change, whoever changes them: `inotify(7)` on a thread of its own, which sleeps until
/// something happens.
final class FolderWatch: Sendable {
    /// What to do about changes. Called on the watch's thread.
    ///
    /// - Returns: after how many milliseconds to be called again though nothing more has happened; `nil` for not at
    /// all.
    typealias Handler = @Sendable (_ names: Set<String>) -> Int32?

    /// Written to when the thread is to end; the thread closes both descriptors.
    private let lifeline: Int32
    private let isOver = Atomic<Bool>(false)

    private static let events =
        UInt32(IN_CREATE) | UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) | UInt32(IN_MOVED_TO) | UInt32(IN_MODIFY)
        | UInt32(IN_CLOSE_WRITE)

    /// `nil` when the system cannot watch the folder, or has no descriptors left.
    init?(folder: String, names: Set<String>, handler: @escaping Handler) {
        let descriptor = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        guard descriptor >= 0 else { return nil }
        // Both ends in one: what is written on one side ends the wait on the other.
        var ends: [Int32] = [-1, -1]
        guard inotify_add_watch(descriptor, folder, Self.events) >= 0, pipe(&ends) == 0 else {
            close(descriptor)
            return nil
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        lifeline = ends[1]
        let reading = ends[0]
        let hasStarted = WatchThread.start("lat-watch") {
            Self.run(descriptor, reading, names, handler)
            close(descriptor)
            close(reading)
        }
        guard hasStarted else {
            close(descriptor)
            close(reading)
            close(lifeline)
            return nil
        }
    }

    deinit { end() }

    /// Calls no more; a call that is under way is let finish.
    func end() {
        if !isOver.exchange(true, ordering: .acquiringAndReleasing) { close(lifeline) }
    }

    private static func run(_ descriptor: Int32, _ lifeline: Int32, _ names: Set<String>, _ handler: Handler) {
        var timeout: Int32 = -1
        while true {
            var descriptors = [
                pollfd(fd: lifeline, events: Int16(POLLIN), revents: 0),
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            ]
            let count = poll(&descriptors, 2, timeout)
            if count < 0, errno == EINTR { continue }
            // The other end is closed.
            if descriptors[0].revents != 0 { return }
            let changed = descriptors[1].revents == 0 ? [] : take(descriptor, names)
            if count == 0 || !changed.isEmpty { timeout = handler(changed) ?? -1 }
        }
    }

    /// The names among those that matter to which something has happened.
    private static func take(_ descriptor: Int32, _ names: Set<String>) -> Set<String> {
        var changed: Set<String> = []
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: MemoryLayout<inotify_event>.alignment) { buffer in
            while true {
                let count = read(descriptor, buffer.baseAddress, buffer.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return }
                var offset = 0
                while offset + MemoryLayout<inotify_event>.size <= count {
                    let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                    let start = offset + MemoryLayout<inotify_event>.size
                    let end = min(start + Int(event.len), count)
                    let name = String(decoding: buffer[start..<end].prefix { $0 != 0 }, as: UTF8.self)
                    if names.contains(name) { changed.insert(name) }
                    // Events were lost: any of them may have changed.
                    if event.mask & UInt32(IN_Q_OVERFLOW) != 0 { changed.formUnion(names) }
                    offset = end
                }
            }
        }
        return changed
    }
}

/// A detached thread with a name, deaf to the signals of the process.
enum WatchThread {
    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Runs `body` on a new thread. `false` when the system has none left.
    static func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
        // A thread begins with the signals of the one that makes it.
        var all = sigset_t()
        var previous = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &previous)
        defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
        let context = Unmanaged.passRetained(Start(name, body))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                if let argument { WatchThread.run(Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()) }
                return nil
            }, context.toOpaque())
        guard result == 0 else {
            context.release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    private static func run(_ start: Start) {
        let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        if descriptor >= 0 {
            _ = start.name.withCString { write(descriptor, $0, strlen($0)) }
            close(descriptor)
        }
        start.body()
    }
}

/// A path in its two parts.
struct PathParts {
    let folder: String
    let name: String

    init(_ path: String) {
        guard let slash = path.lastIndex(of: "/") else {
            (folder, name) = (".", path)
            return
        }
        folder = slash == path.startIndex ? "/" : String(path[..<slash])
        name = String(path[path.index(after: slash)...])
    }
}
