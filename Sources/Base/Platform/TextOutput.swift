internal import Glibc

/// Writes text to a terminal or a pipe, for people to read.
package enum TextOutput {
    /// Writes the whole text, with as few calls as the system needs, so that lines of several threads do not mix. A pipe that
    /// nobody empties for a second loses the rest; failures are ignored, since standard error may be closed.
    package static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                bytes = bytes.dropFirst(count)
            } else if errno == EAGAIN {
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard poll(&wait, 1, 1_000) > 0 else { return }
            } else if errno != EINTR {
                return
            }
        }
    }
}
