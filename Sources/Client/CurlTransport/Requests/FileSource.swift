import Dispatch
import Glibc
package import HTTPCore
import Platform
import Synchronization

/// The bytes of a file, read ahead on a queue of its own. The engine's thread only copies bytes that are in memory, and
/// the transfer pauses when there are none.
///
/// The size is announced before the file is sent, so size and content must not change until the end. A file of the kernel,
/// as in `/proc`, has content although its size is 0: it is read to its end, and sent without a length. The file is open only
/// while it is read.
final class FileSource: BodySource {
    private struct State {
        /// Chunks that are filled, in the order of the file.
        var ready: [Chunk] = []
        var spare: [Chunk] = []
        var sent: Int64 = 0
        /// The offset of the next read.
        var offset: Int64 = 0
        var isReading = false
        /// Whether a file of unknown size was read to its end.
        var isAtEnd = false
        var failure: NetworkError?
        /// Whether libcurl pauses until there are bytes.
        var engineWaits = false
        /// The number of restarts. Reads of an earlier round are discarded.
        var round = 0
        var wake: (@Sendable () -> Void)?
    }

    typealias Read = @Sendable (CInt, UnsafeMutableRawPointer?, Int, off_t) -> Int

    /// `nil` for a file that is read to its end.
    private let size: Int64?
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
        size = try UploadedFile.size(of: path)
        reader = FileReader(path: path, size: size, read: read)
        self.startsEarly = startsEarly
    }

    /// Reads a part of a file, which must have the version of the slice.
    init(_ slice: FileSlice) {
        size = Int64(slice.range.count)
        reader = FileReader(
            path: slice.path, size: size, start: slice.range.lowerBound, version: slice.version)
        startsEarly = true
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
            guard state.sent < size ?? .max, !buffer.isEmpty else { return (.end, nil) }
            guard let chunk = state.ready.first else {
                if let failure = state.failure { return (.failed(failure), nil) }
                if state.isAtEnd { return (.end, nil) }
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
        guard !state.isReading, !state.isAtEnd, state.failure == nil, state.offset < size ?? .max,
            state.ready.count < Self.chunkLimit
        else { return nil }
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
            let chunk = spare ?? Chunk(capacity: Int(min(size ?? .max, Int64(Self.chunkSize))))
            let result = Result { () throws(NetworkError) in try reader.read(into: chunk, at: offset) }
            let (wake, next) = state.withLock { state -> ((@Sendable () -> Void)?, Int?) in
                guard state.round == round else { return (nil, nil) }
                state.isReading = false
                switch result {
                case .failure(let error): state.failure = error
                case .success:
                    state.offset += Int64(chunk.count)
                    state.isAtEnd = chunk.count == 0
                    if !state.isAtEnd { state.ready.append(chunk) }
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
/// source's lock, and only the engine's thread touches it. A file that is coded is read by one task.
final class Chunk: @unchecked Sendable {
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
final class FileReader: @unchecked Sendable {
    // Sendable: mutable state is touched on the source's queue only, or by the one task that codes the file.
    private let path: String
    private let size: Int64?
    /// The offset in the file of the first byte that is sent.
    private let start: Int64
    /// The version that the file must have; `nil` for the one that it has when it is opened.
    private let version: FileVersion?
    private let read: FileSource.Read
    private var descriptor: CInt = -1
    /// The file's modification time when it was opened.
    private var written = timespec()

    init(
        path: String, size: Int64?, start: Int64 = 0, version: FileVersion? = nil,
        read: @escaping FileSource.Read = { pread($0, $1, $2, $3) }
    ) {
        self.path = path
        self.start = start
        self.version = version
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
            // Does not wait for the other end, if the file has become a pipe.
            descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
            guard descriptor >= 0 else { throw UploadedFile.failure(path, SystemError().text) }
            written = try checkedStatus().st_mtim
        }
        try chunk.fill { (buffer) throws(NetworkError) -> Int in
            let wanted = Int(min(Int64(buffer.count), (size ?? .max) - offset))
            var filled = 0
            while filled < wanted {
                let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<wanted])
                let count = read(descriptor, rest.baseAddress, rest.count, off_t(start + offset) + off_t(filled))
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw UploadedFile.failure(path, SystemError().text) }
                if count == 0 {
                    guard let size else { return filled }
                    _ = try checkedStatus()
                    // So do the files of `/sys`, whose size is that of a page.
                    throw UploadedFile.failure(
                        path,
                        "it ended after \(offset + Int64(filled)) of the \(size) bytes that the system reports; read it, "
                            + "and send its bytes as data")
                }
                filled += count
            }
            return filled
        }
        guard offset + Int64(chunk.count) == size else {
            if size == nil, chunk.count == 0 { end() }
            return
        }
        // Checked before the last bytes are sent: without them, the server does not accept the body as complete.
        defer { end() }
        let time = try checkedStatus().st_mtim
        guard (time.tv_sec, time.tv_nsec) == (written.tv_sec, written.tv_nsec) else {
            throw UploadedFile.failure(path, "it was written to while it was sent; send a copy of it, or a stream")
        }
    }

    /// Returns the status of the open file. Throws when its size differs from the announced one.
    private func checkedStatus() throws(NetworkError) -> stat {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw UploadedFile.failure(path, SystemError().text) }
        if let kind = UploadedFile.kind(of: status) { throw UploadedFile.failure(path, "it became \(kind)") }
        if let version {
            guard FileVersion(status) == version else {
                throw UploadedFile.failure(path, "it has changed since the upload of its parts began; upload it again")
            }
            return status
        }
        guard let size, status.st_size != size else { return status }
        let change = status.st_size < size ? "shorter" : "longer"
        throw UploadedFile.failure(
            path,
            "it became \(change) while it was sent (\(status.st_size) bytes instead of \(size)); send a copy of it, "
                + "or a stream")
    }
}

/// The facts of a file that is sent.
package enum UploadedFile {
    /// The size of a readable file; `nil` for one that the system reports as empty although it has content, as in `/proc`.
    package static func size(of path: String) throws(NetworkError) -> Int64? {
        let status = try status(of: path)
        return status.st_size > 0 ? Int64(status.st_size) : try sizeOfSeeminglyEmpty(path)
    }

    /// The version of a regular, readable file.
    package static func version(of path: String) throws(NetworkError) -> FileVersion {
        FileVersion(try status(of: path))
    }

    private static func status(of path: String) throws(NetworkError) -> stat {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure(path, SystemError().text) }
        if let kind = kind(of: status) { throw failure(path, "it is \(kind)") }
        guard access(path, R_OK) == 0 else { throw failure(path, SystemError().text) }
        return status
    }

    private static func sizeOfSeeminglyEmpty(_ path: String) throws(NetworkError) -> Int64? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(path, SystemError().text) }
        defer { close(descriptor) }
        // Some files of the kernel refuse to be read in pieces smaller than their records.
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { throw failure(path, SystemError().text) }
        var status = stat()
        guard count > 0, fstat(descriptor, &status) == 0 else { return 0 }
        // The file may have been written since its size was asked for.
        return status.st_size > 0 ? Int64(status.st_size) : nil
    }

    /// What a file is that cannot be sent, with the next step; `nil` for a regular file.
    static func kind(of status: stat) -> String? {
        switch status.st_mode & S_IFMT {
        case S_IFREG: nil
        case S_IFDIR: "a folder; name a file in it"
        case S_IFIFO: "a pipe, which can be read only once; write its bytes to a file, or send them as a stream"
        case S_IFSOCK: "a socket, not a file; read from it, and send the bytes as a stream"
        default: "a device, which has no length; write its bytes to a file, or send them as a stream"
        }
    }

    static func failure(_ path: String, _ reason: String) -> NetworkError {
        NetworkError(.requestBody, message: "the file \"\(path)\" cannot be sent: \(reason)")
    }
}

extension FileVersion {
    fileprivate init(_ status: stat) {
        self.init(
            size: Int64(status.st_size), seconds: Int64(status.st_mtim.tv_sec),
            nanoseconds: Int64(status.st_mtim.tv_nsec), changeSeconds: Int64(status.st_ctim.tv_sec),
            changeNanoseconds: Int64(status.st_ctim.tv_nsec), inode: UInt64(status.st_ino))
    }
}
