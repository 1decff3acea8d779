import Glibc
import Platform

/// Why a ``MockServer`` or another fixture could not be made, or what was waited for did not happen.
public struct MockServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    public enum Kind: Hashable, Sendable {
        /// A system call failed.
        case system(errno: Int32)
        /// The path of a unix socket is empty or too long.
        case invalidPath
        /// What was waited for did not happen in time.
        case timedOut
        /// The server was stopped, so that what was waited for cannot happen any more.
        case stopped
    }

    /// What kind of failure it is.
    public let kind: Kind
    /// What was tried, what was found instead, and what to do.
    public let description: String

    /// The failure of a system call that has just set `errno`.
    static func systemCall(_ call: String) -> MockServerError {
        let code = errno
        let hint =
            switch code {
            case EADDRINUSE: "; choose another port or path, or port 0 for any free one"
            case EMFILE, ENFILE: "; raise the limit of open files (ulimit -n) or stop servers that are done"
            default: ""
            }
        let reason = SystemError(code: code).text
        return MockServerError(kind: .system(errno: code), description: "\(call): \(reason)\(hint)")
    }

    static func unixSocketPath(_ path: String, limit: Int) -> MockServerError {
        MockServerError(
            kind: .invalidPath,
            description: "\"\(path)\" is no path for a unix socket: 1 to \(limit) bytes; use a shorter folder")
    }

    static func timedOut(after timeout: Duration, waitingFor what: String) -> MockServerError {
        MockServerError(kind: .timedOut, description: "waited \(timeout) for \(what)")
    }

    static func stopped(waitingFor what: String) -> MockServerError {
        MockServerError(kind: .stopped, description: "the server was stopped while waiting for \(what)")
    }
}
