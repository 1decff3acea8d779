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

/// The result of a read.
enum BodyRead {
    case bytes(Int)
    case end
    case pause
    case failed(NetworkError)
}

/// The bytes of a `Data` value.
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
