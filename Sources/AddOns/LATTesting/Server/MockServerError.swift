import Glibc
import Platform

/// Why a ``MockServer`` or another fixture could not be made, or why a wait failed.
public struct MockServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure.
    public enum Kind: Hashable, Sendable {
        /// A system call failed.
        case system(errno: Int32)
        /// The path of a Unix domain socket is empty or too long.
        case invalidPath
        /// The awaited event did not happen in time.
        case timedOut
        /// The server was stopped, so the awaited event cannot happen any more.
        case stopped
    }

    /// The kind of failure.
    public let kind: Kind
    /// What was attempted, what happened instead, and the next step.
    public let description: String

    /// Makes the error of a system call that has just set `errno`.
    static func systemCall(_ call: String) -> MockServerError {
        let code = errno
        let hint =
            switch code {
            case EADDRINUSE: "; choose another port or path, or port 0 for any free one"
            case EDOM: "; a port is a number from 0 to 65535"
            case EMFILE, ENFILE: ", such as servers that are done"
            default: ""
            }
        let reason = SystemError(code: code).text
        return MockServerError(kind: .system(errno: code), description: "\(call): \(reason)\(hint)")
    }

    static func stopped(waitingFor what: String) -> MockServerError {
        MockServerError(kind: .stopped, description: "the server was stopped while waiting for \(what)")
    }
}
