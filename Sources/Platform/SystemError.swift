internal import Glibc

/// What the system answered instead of doing what it was asked.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The number in `errno`.
    package let code: Int32
    /// What was attempted, with the path; empty where the one who catches it says so.
    package let attempt: String

    /// Takes `errno` as it is now.
    package init(_ attempt: String = "", code: Int32 = errno) {
        self.code = code
        self.attempt = attempt
    }

    /// The system's text.
    package var text: String { String(cString: strerror(code)) }

    /// Whether the disk, or what the user may use of it, is full.
    package var isFull: Bool { code == ENOSPC || code == EDQUOT }

    /// Whether another process was waited for in vain.
    package var isBusy: Bool { code == EBUSY }

    /// The text, and what was attempted.
    package var description: String { attempt.isEmpty ? text : "\(text) while \(attempt)" }
}
