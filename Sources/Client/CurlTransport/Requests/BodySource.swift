import FoundationEssentials
internal import HTTPCore

/// The bytes of a request body, which libcurl reads on demand.
///
/// Used on the engine's thread only, by one transfer.
protocol BodySource: AnyObject, Sendable {
    /// The number of bytes; `nil` when it is unknown.
    var length: Int64? { get }

    /// Copies available bytes into a buffer.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead

    /// Goes back to the first byte. Returns `false` when that is impossible.
    func rewind() -> Bool

    /// Called before the first read. After a read has returned ``BodyRead/pause``, `wake` reports from any thread that
    /// bytes are available.
    func start(wake: @escaping @Sendable () -> Void)

    /// Called after the last read.
    func stop()
}

extension BodySource {
    func start(wake: @escaping @Sendable () -> Void) {}
    func stop() {}
}

enum BodyRead {
    case bytes(Int)
    case end
    case pause
    case failed(NetworkError)
}

final class DataSource: BodySource, @unchecked Sendable {
    // Sendable: `offset` belongs to the engine's thread.
    let data: Data
    private var offset = 0

    init(_ data: Data) { self.data = data }

    var length: Int64? { Int64(data.count) }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let count = min(buffer.count, data.count - offset)
        guard count > 0 else { return .end }
        let start = data.startIndex + offset
        data.copyBytes(to: buffer, from: start..<(start + count))
        offset += count
        return .bytes(count)
    }

    func rewind() -> Bool {
        offset = 0
        return true
    }
}

/// A source that reports each read to a handler.
final class MeteredSource: BodySource {
    let source: any BodySource
    private let handler: BodyHandler
    private let file: Int?

    /// Wraps a source; returns the source itself without a handler.
    static func of(_ source: any BodySource, _ handler: BodyHandler?, file: Int? = nil) -> any BodySource {
        handler.map { MeteredSource(source, $0, file) } ?? source
    }

    private init(_ source: any BodySource, _ handler: @escaping BodyHandler, _ file: Int?) {
        self.source = source
        self.handler = handler
        self.file = file
    }

    var length: Int64? { source.length }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let result = source.read(into: buffer)
        switch result {
        case .bytes(let count): handler(.read(count), file)
        case .end: handler(.end, file)
        case .pause, .failed: break
        }
        return result
    }

    func rewind() -> Bool {
        guard source.rewind() else { return false }
        handler(.rewound, file)
        return true
    }

    func start(wake: @escaping @Sendable () -> Void) {
        // Each redirect or retry is a new transfer, with a new source for the same file.
        handler(.rewound, file)
        source.start(wake: wake)
    }

    func stop() { source.stop() }
}

/// The outgoing bytes of an upgraded connection, as the body of its request: libcurl sends them unchanged, because the
/// request has neither a length nor a transfer coding. None are sent before the server has agreed (101).
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
