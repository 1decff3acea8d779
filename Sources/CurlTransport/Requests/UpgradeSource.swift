internal import HTTPCore

/// The outgoing bytes of an upgraded connection, as the body of its request: libcurl sends them unchanged, because the
/// request has neither a length nor a transfer coding. There are none before the server has agreed (101).
final class UpgradeSource: BodySource {
    let output = ConnectionOutput()

    var length: Int64? { nil }

    /// The fields that libcurl adds to a body, left out.
    static let headerLines = ["Transfer-Encoding:", "Content-Length:", "Expect:"]

    func start(wake: @escaping @Sendable () -> Void) { output.start(wake: wake) }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        switch output.read(into: buffer) {
        case .bytes(let count): .bytes(count)
        case .wait: .pause
        case .end: .end
        }
    }

    /// Nothing goes out before the last response of the handshake.
    func rewind() -> Bool { output.takenCount == 0 }

    func stop() { output.end() }
}
