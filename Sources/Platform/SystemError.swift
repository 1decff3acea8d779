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

    /// The system's description of the code.
    package var text: String { String(cString: strerror(code)) }

    /// Whether the disk or the user's quota is full.
    package var isFull: Bool { code == ENOSPC || code == EDQUOT }

    /// Whether another process held a resource for too long.
    package var isBusy: Bool { code == EBUSY }

    package var description: String { attempt.isEmpty ? text : "\(text) while \(attempt)" }
}
