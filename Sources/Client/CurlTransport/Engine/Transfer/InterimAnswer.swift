import CLibcurl
internal import HTTPCore

/// Lets a proxy send interim responses, such as 100 and 103, before its final response to `CONNECT` (RFC 9110 §15.2).
///
/// libcurl ends the head of the response to `CONNECT` at its first empty line, whatever the status, and fails. It passes
/// each line to the debug callback before it reads the line itself, in its own buffer. Two bytes are changed there: the
/// empty line after an interim head becomes a field with an empty name, so that the head goes on, and the status line
/// after it gets a colon in place of the space before its reason, so that it is a field, too.
enum InterimAnswer {
    /// The versions of libcurl for which this is tested. With libcurl 8 the call fails, as it does without this.
    private static let isKnown = GlobalCurl.Old.endsTunnelAtInterim

    /// Whether the log of a transfer must be on for this.
    static func isPossible(_ transfer: Transfer) -> Bool {
        guard let proxy = transfer.plan.proxy, !proxy.isSOCKS else { return false }
        return (transfer.target.isSecure || transfer.request.context.upgrades) && isKnown
    }

    /// Changes a line of the response to `CONNECT` if it belongs to an interim head or follows one.
    static func pass(_ line: UnsafeMutableBufferPointer<CChar>, _ handle: EasyHandle) {
        guard handle.opensTunnel, isKnown, let first = line.first else { return }
        if first == 0x0D || first == 0x0A {
            if handle.hasInterimAnswer { line[0] = colon }
        } else if line.count > 13, line.starts(with: "HTTP/1.".utf8.map { CChar($0) }) {
            if handle.hasInterimAnswer, line[12] < 0x30 { line[12] = colon }
            handle.hasInterimAnswer = line[9] == 0x31
        }
    }

    private static let colon = CChar(0x3A)
}
