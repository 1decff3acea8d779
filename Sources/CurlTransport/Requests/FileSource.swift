import Dispatch
import Glibc
internal import HTTPCore
import Platform
import Synchronization

/// The bytes of a file, read ahead on a queue of its own. The engine's thread only copies bytes that are in memory, and
/// the transfer pauses when there are none.
///
/// The size is announced before the file is sent, so size and content must not change until the end. The file is open
/// only while it is read.
final class FileSource: BodySource {
    private struct State {
        /// Chunks that are filled, in the order of the file.
        var ready: [Chunk] = []
        var spare: [Chunk] = []
        var sent: Int64 = 0
        /// The offset of the next read.
        var offset: Int64 = 0
        var isReading = false
        var failure: NetworkError?
        /// Whether libcurl pauses until there are bytes.
        var engineWaits = false
        /// The number of restarts. Reads of an earlier round are discarded.
        var round = 0
        var wake: (@Sendable () -> Void)?
    }

    typealias Read = @Sendable (CInt, UnsafeMutableRawPointer?, Int, off_t) -> Int

    private let size: Int64
    private let startsEarly: Bool
    private let reader: FileReader
    private let queue = DispatchQueue(label: "LATNetworking.upload", qos: .userInitiated)
    private let state = Mutex(State())

    /// Two chunks are read ahead: libcurl takes one while the next is read from the disk.
    private static let chunkSize = 512 << 10
    private static let chunkLimit = 2

    /// - Parameters:
    ///   - startsEarly: Whether reading begins with the transfer. If not, it begins when libcurl asks for the first
    ///     byte, so a form of a thousand files reads them one after the other.
    ///   - read: Reads from the disk, like `pread`; tests replace it.
    init(
        path: String, startsEarly: Bool = true, read: @escaping Read = { pread($0, $1, $2, $3) }
    ) throws(NetworkError) {
        size = try Self.size(ofFileAt: path)
        reader = FileReader(path: path, size: size, read: read)
        self.startsEarly = startsEarly
    }

    /// Returns the size of a readable regular file.
    static func size(ofFileAt path: String) throws(NetworkError) -> Int64 {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure(path, SystemError().text) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw failure(path, "it is not a regular file") }
        guard access(path, R_OK) == 0 else { throw failure(path, SystemError().text) }
        return Int64(status.st_size)
    }

    fileprivate static func failure(_ path: String, _ reason: String) -> NetworkError {
        NetworkError(.requestBody, message: "the file \"\(path)\" cannot be sent: \(reason)")
    }

    var length: Int64? { size }

    func start(wake: @escaping @Sendable () -> Void) {
        let round = state.withLock { state in
            state.wake = wake
            return startsEarly ? nextRead(&state) : nil
        }
        if let round { readAhead(round) }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let (result, round) = state.withLock { state -> (BodyRead, Int?) in
            guard state.sent < size, !buffer.isEmpty else { return (.end, nil) }
            guard let chunk = state.ready.first else {
                if let failure = state.failure { return (.failed(failure), nil) }
                state.engineWaits = true
                return (.pause, nextRead(&state))
            }
            let count = chunk.take(into: buffer)
            state.sent += Int64(count)
            if chunk.isEmpty { state.spare.append(state.ready.removeFirst()) }
            return (.bytes(count), nextRead(&state))
        }
        if let round { readAhead(round) }
        return result
    }

    func rewind() -> Bool {
        state.withLock { state in
            guard state.offset > 0 || state.isReading || state.failure != nil else { return }
            state = State(round: state.round + 1, wake: state.wake)
        }
        return true
    }

    func stop() {
        state.withLock { $0 = State(round: $0.round + 1) }
        queue.async { [reader] in reader.end() }
    }

    /// Marks the source as reading if more must be read ahead, and returns the current round; `nil` otherwise.
    private func nextRead(_ state: inout State) -> Int? {
        guard !state.isReading, state.failure == nil, state.offset < size, state.ready.count < Self.chunkLimit else {
            return nil
        }
        state.isReading = true
        return state.round
    }

    private func readAhead(_ round: Int) {
        queue.async { [self] in
            let (isCurrent, offset, spare) = state.withLock { state in
                let isCurrent = state.round == round
                return (isCurrent, state.offset, isCurrent ? state.spare.popLast() : nil)
            }
            guard isCurrent else { return }
            let chunk = spare ?? Chunk(capacity: Int(min(size, Int64(Self.chunkSize))))
            let result = Result { () throws(NetworkError) in try reader.read(into: chunk, at: offset) }
            let (wake, next) = state.withLock { state -> ((@Sendable () -> Void)?, Int?) in
                guard state.round == round else { return (nil, nil) }
                state.isReading = false
                switch result {
                case .failure(let error): state.failure = error
                case .success:
                    state.offset += Int64(chunk.count)
                    state.ready.append(chunk)
                }
                defer { state.engineWaits = false }
                return (state.engineWaits ? state.wake : nil, nextRead(&state))
            }
            wake?()
            if let next { readAhead(next) }
        }
    }
}

/// A piece of a file in memory.
///
/// `@unchecked Sendable`: only the source's queue touches a chunk until it is filled. It is then handed over under the
/// source's lock, and only the engine's thread touches it.
private final class Chunk: @unchecked Sendable {
    private let bytes: UnsafeMutableRawBufferPointer
    private var taken = 0
    private(set) var count = 0

    init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 16) }

    deinit { bytes.deallocate() }

    var isEmpty: Bool { taken == count }

    /// Lets `body` fill the buffer. `body` returns the number of bytes.
    func fill(_ body: (UnsafeMutableRawBufferPointer) throws(NetworkError) -> Int) throws(NetworkError) {
        taken = 0
        count = try body(bytes)
    }

    func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let size = min(buffer.count, count - taken)
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[taken..<(taken + size)]))
        taken += size
        return size
    }
}

/// Reads a file sequentially and fails when it changes between the first byte and the last.
private final class FileReader: @unchecked Sendable {
    // Sendable: mutable state is touched on the source's queue only.
    private let path: String
    private let size: Int64
    private let read: FileSource.Read
    private var descriptor: CInt = -1
    /// The file's modification time when it was opened.
    private var written = timespec()

    init(path: String, size: Int64, read: @escaping FileSource.Read) {
        self.path = path
        self.read = read
        self.size = size
    }

    deinit { end() }

    func end() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    /// Fills a chunk from an offset, up to the end of the file.
    func read(into chunk: Chunk, at offset: Int64) throws(NetworkError) {
        if offset == 0 || descriptor < 0 {
            end()
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw FileSource.failure(path, SystemError().text) }
            written = try checkedStatus().st_mtim
        }
        try chunk.fill { (buffer) throws(NetworkError) -> Int in
            let wanted = Int(min(Int64(buffer.count), size - offset))
            var filled = 0
            while filled < wanted {
                let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<wanted])
                let count = read(descriptor, rest.baseAddress, rest.count, off_t(offset) + off_t(filled))
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw FileSource.failure(path, SystemError().text) }
                if count == 0 {
                    _ = try checkedStatus()
                    throw FileSource.failure(path, "it ended after \(offset + Int64(filled)) bytes")
                }
                filled += count
            }
            return filled
        }
        guard offset + Int64(chunk.count) == size else { return }
        // Checked before the last bytes are sent: without them, the server does not accept the body as complete.
        defer { end() }
        let time = try checkedStatus().st_mtim
        guard (time.tv_sec, time.tv_nsec) == (written.tv_sec, written.tv_nsec) else {
            throw FileSource.failure(path, "it was written to while it was sent; send a copy of it, or a stream")
        }
    }

    /// Returns the status of the open file. Throws when its size differs from the announced one.
    private func checkedStatus() throws(NetworkError) -> stat {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw FileSource.failure(path, SystemError().text) }
        guard status.st_size != size else { return status }
        let change = status.st_size < size ? "shorter" : "longer"
        throw FileSource.failure(
            path,
            "it became \(change) while it was sent (\(status.st_size) bytes instead of \(size)); send a copy of it, "
                + "or a stream")
    }
}
