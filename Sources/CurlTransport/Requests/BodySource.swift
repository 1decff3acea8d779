import FoundationEssentials
import HTTPCore

/// Gives libcurl the bytes of a request body, when it asks for them.
///
/// Used by the engine's thread only, from one transfer.
protocol BodySource: AnyObject, Sendable {
    /// The number of bytes, `nil` when unknown.
    var length: Int64? { get }

    /// Fills a buffer as far as there is something.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead

    /// Goes back to the first byte. `false` when that cannot be done.
    func rewind() -> Bool

    /// Called before the first read. `wake` may be called from any thread when there is something to read again
    /// after ``BodyRead/pause``.
    func start(wake: @escaping @Sendable () -> Void)

    /// Nothing will be read any more.
    func stop()
}

extension BodySource {
    func start(wake: @escaping @Sendable () -> Void) {}
    func stop() {}
}

/// What a read brought.
enum BodyRead {
    case bytes(Int)
    case end
    case pause
    case failed(NetworkError)
}

/// Bytes from memory.
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
