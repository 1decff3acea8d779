import FoundationEssentials
import Glibc
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

/// Bytes from a file, which must keep its size until it is sent: the size has been announced. It is open only while it
/// is read.
final class FileSource: BodySource, @unchecked Sendable {
    // Sendable: everything that changes belongs to the engine's thread.
    private let path: String
    private let size: Int64
    private var descriptor: CInt = -1
    private var offset: Int64 = 0

    /// - Throws: ``NetworkError/Kind/requestBody`` when the file cannot be read.
    init(path: String) throws(NetworkError) {
        self.path = path
        size = try Self.size(ofFileAt: path)
    }

    deinit { stop() }

    var length: Int64? { size }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let wanted = Int(min(Int64(buffer.count), size - offset))
        guard wanted > 0 else {
            stop()
            return .end
        }
        if descriptor < 0 {
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return .failed(Self.failure(path, String(cString: strerror(errno)))) }
            if let failure = changeOfSize() { return .failed(failure) }
        }
        var count: Int
        repeat {
            count = pread(descriptor, buffer.baseAddress, wanted, off_t(offset))
        } while count < 0 && errno == EINTR
        if count < 0 { return .failed(Self.failure(path, String(cString: strerror(errno)))) }
        if count == 0 { return .failed(changeOfSize() ?? Self.failure(path, "it ended after \(offset) bytes")) }
        offset += Int64(count)
        if offset == size {
            // Before the last bytes go out: without them the server does not take the rest for the whole.
            if let failure = changeOfSize() { return .failed(failure) }
            stop()
        }
        return .bytes(count)
    }

    /// What is wrong when the open file has another size than was announced.
    private func changeOfSize() -> NetworkError? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return Self.failure(path, String(cString: strerror(errno))) }
        guard status.st_size != size else { return nil }
        let change = status.st_size < size ? "shorter" : "longer"
        return Self.failure(
            path,
            "it became \(change) while it was sent (\(status.st_size) bytes instead of \(size)); send a copy of it, "
                + "or a stream")
    }

    func rewind() -> Bool {
        offset = 0
        return true
    }

    func stop() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    /// The size of a regular file that may be read.
    static func size(ofFileAt path: String) throws(NetworkError) -> Int64 {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure(path, String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw failure(path, "it is not a regular file") }
        guard access(path, R_OK) == 0 else { throw failure(path, String(cString: strerror(errno))) }
        return Int64(status.st_size)
    }

    private static func failure(_ path: String, _ reason: String) -> NetworkError {
        NetworkError(.requestBody, message: "the file \"\(path)\" cannot be sent: \(reason)")
    }
}
