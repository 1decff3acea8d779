internal import HTTPCore

/// The outgoing bytes of an upgraded connection, as the body of its request: libcurl sends them unchanged, because the
/// request has neither a length nor a transfer coding. There are none before the server has agreed (101).
final class UpgradeSource: BodySource {
    let output = ConnectionOutput()

    var length: Int64? { nil }

    /// Lines that keep libcurl from adding its fields for a body.
    static let headerLines = ["Transfer-Encoding:", "Content-Length:", "Expect:"]

    func start(wake: @escaping @Sendable () -> Void) { output.start(wake: wake) }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        switch output.read(into: buffer) {
        case .bytes(let count): .bytes(count)
        case .wait: .pause
        case .end: .end
        }
    }

    /// Possible as long as nothing has been sent, which is so until the handshake is complete.
    func rewind() -> Bool { output.takenCount == 0 }

    func stop() { output.end() }
}
