import FoundationEssentials
import Glibc

/// A descriptor to write to.
struct Output: Sendable {
    /// Why something could not be written.
    struct Failure: Error {
        /// Whether the reader of a pipe went away.
        let isClosed: Bool
        let message: String
    }

    let descriptor: Int32
    /// What a failure calls it.
    let name: String

    func write(_ text: String) throws(Failure) {
        var text = text
        let code = text.withUTF8 { bytes in writeAll(UnsafeRawBufferPointer(bytes)) }
        if code != 0 { throw failure(code) }
    }

    func write(_ data: Data) throws(Failure) {
        let code = data.withUnsafeBytes { bytes in writeAll(bytes) }
        if code != 0 { throw failure(code) }
    }

    func failure(_ code: Int32) -> Failure {
        Failure(
            isClosed: code == EPIPE,
            message: "\(name) cannot be written: \(String(cString: strerror(code))); what came of it is not complete")
    }

    /// Returns 0, or the system's error.
    private func writeAll(_ bytes: UnsafeRawBufferPointer) -> Int32 {
        var rest = bytes
        while let address = rest.baseAddress, !rest.isEmpty {
            let count = Glibc.write(descriptor, address, rest.count)
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            } else if errno == EAGAIN {
                // Somebody else made the descriptor non-blocking.
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&entry, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}
