internal import Glibc

/// The failure of a system call.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The value of `errno`.
    package let code: Int32
    /// What was attempted, or the system call that failed; empty when the code that catches the error adds it.
    package let attempt: String

    /// Makes an error from the current `errno`.
    package init(_ attempt: String = "", code: Int32 = errno) {
        self.code = code
        self.attempt = attempt
    }

    /// The system's description of the code. When no more files can be open, it also says which limit is reached and how to
    /// raise it.
    package var text: String {
        switch code {
        case EMFILE:
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            return "\(name): this process may have \(limit.rlim_cur) files and sockets open; raise that limit with "
                + "ulimit -n (systemd: LimitNOFILE=), or close some"
        case ENFILE: return "\(name), on the whole system; raise the limit fs.file-max, or close some"
        default: return name
        }
    }

    private var name: String { String(cString: strerror(code)) }

    /// Whether no more files and sockets can be open.
    package var isFileLimit: Bool { code == EMFILE || code == ENFILE }

    /// The error that opening a file has now because too many are open; `nil` when one can be opened.
    package static var fileLimit: SystemError? {
        let descriptor = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor < 0 else {
            close(descriptor)
            return nil
        }
        let error = SystemError()
        return error.isFileLimit ? error : nil
    }

    /// Whether the disk or the user's quota is full.
    package var isFull: Bool { code == ENOSPC || code == EDQUOT }

    /// Whether another process held a resource for too long.
    package var isBusy: Bool { code == EBUSY }

    package var description: String {
        attempt.isEmpty ? text : isFileLimit ? "\(attempt): \(text)" : "\(name) while \(attempt)"
    }
}
