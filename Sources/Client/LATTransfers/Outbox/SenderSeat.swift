import Glibc
import HTTPCore
import Platform

/// The lock of the one process that sends the entries of a folder, and the bell by which others tell it that there are new
/// ones. The lock (flock(2)) ends with its process, and another one takes it over.
final class SenderSeat: Sendable {
    private let folder: String
    private let descriptor: Int32
    private let end: WakeUp
    private let isHeld = Flag()

    private static let name = "sender.lock"
    private static let bell = "bell"
    private static let urgentBell = "bell.urgent"

    /// - Parameters:
    ///   - isWanted: whether to listen to others. A process that only adds looks at the folder once a second.
    ///   - quiet: the time in milliseconds after which the sender looks for entries although nobody has rung: a ring may be
    ///     lost, as when the disk has no room for the bell. Default a minute.
    ///   - notice: called, on a thread of the seat, when the seat may have become free or another process has rung.
    init(
        _ folder: String, isWanted: Bool, quiet: Int32 = 60_000,
        notice: @escaping @Sendable (_ isUrgent: Bool) -> Void
    ) throws(NetworkError) {
        self.folder = folder
        descriptor = open("\(folder)/\(Self.name)", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw NetworkError.outboxFile("opened", "\(folder)/\(Self.name)", errno) }
        guard let end = WakeUp() else { throw NetworkError.outboxFile("watched", folder, errno) }
        self.end = end
        // Without it, as when the user has too many, the folder is looked at every second.
        let inotify = isWanted ? Inotify().flatMap { $0.add(folder, UInt32(IN_CLOSE_WRITE)) == nil ? nil : $0 } : nil
        let isHeld = isHeld
        _ = BackgroundThread.start("lat-outbox") {
            while true {
                // A killed process's lock may end after its event, so who wants the seat also tries every second.
                let isQuiet = inotify != nil && isHeld.isSet
                if let inotify {
                    guard inotify.wait(until: end, milliseconds: isQuiet ? quiet : 1_000) else { return }
                } else {
                    var wakeUp = pollfd(fd: end.descriptor, events: Int16(POLLIN), revents: 0)
                    guard poll(&wakeUp, 1, 1_000) <= 0 || wakeUp.revents == 0 else { return }
                }
                var (concerns, isUrgent, isSilent) = (!isQuiet, false, true)
                inotify?.forEachEvent {
                    isSilent = false
                    concerns = concerns || $0.isOverflow || [Self.name, Self.bell, Self.urgentBell].contains($0.name)
                    isUrgent = isUrgent || $0.name == Self.urgentBell
                }
                if concerns || isSilent { notice(isUrgent) }
            }
        }
    }

    deinit {
        leave()
        close(descriptor)
        end.signal()
    }

    /// Takes the seat if it is free. Nobody rings for a sender whose number is not in the file, so that has to be there.
    ///
    /// - Parameter makingRoom: makes room on a full disk.
    func take(makingRoom: () -> Void) -> Bool {
        guard !isHeld.isSet else { return true }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { return false }
        let text = "\(getpid())\n"
        func hasWritten() -> Bool { text.withCString { pwrite(descriptor, $0, strlen($0), 0) } == text.utf8.count }
        if !hasWritten() {
            makingRoom()
            guard hasWritten() else {
                flock(descriptor, LOCK_UN)
                return false
            }
        }
        ftruncate(descriptor, off_t(text.utf8.count))
        isHeld.set()
        return true
    }

    func leave() {
        guard isHeld.clear() else { return }
        ftruncate(descriptor, 0)
        flock(descriptor, LOCK_UN)
        ring(Self.name)
    }

    /// Tells the sender that there is something new. A process that becomes the sender writes its number into the file before it
    /// looks for entries, so if there is none, nobody has to be told.
    ///
    /// - Parameter isUrgent: whether it is to send everything now. Default `false`.
    func ring(isUrgent: Bool = false) {
        var status = stat()
        guard !isHeld.isSet, fstat(descriptor, &status) != 0 || status.st_size > 0 else { return }
        ring(isUrgent ? Self.urgentBell : Self.bell)
    }

    private func ring(_ name: String) {
        // Closing a file that could be written is an event, whether or not it was.
        for _ in 0..<2 {
            let file = open("\(folder)/\(name)", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            if file >= 0 { close(file) }
            // Another user, such as root, may have made it.
            guard file < 0, errno == EACCES, unlink("\(folder)/\(name)") == 0 else { return }
        }
    }

    /// The process that sends the entries of a folder; `nil` if none does.
    static func holder(of folder: String) -> Int? {
        let file = open("\(folder)/\(name)", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard file >= 0 else { return nil }
        defer { close(file) }
        guard flock(file, LOCK_SH | LOCK_NB) != 0 else { return nil }
        return SystemFiles(root: folder).line(name).flatMap { Int($0) }
    }
}
