package import CurlTransport
public import FoundationEssentials
internal import Glibc
internal import HTTPCore
public import LATNetworking
internal import Platform
internal import Synchronization

/// Records calls as a HAR 1.2 file, which the network panels of browsers can open.
///
/// ```swift
/// let recorder = HARRecorder()
/// configuration.accessories = [recorder]
/// // …
/// try recorder.write(to: "calls.har")
/// ```
///
/// Secrets are removed before anything is kept. At most 4 MiB are in memory; the rest is in an unnamed file, which is deleted
/// when the process ends. Every attempt and every hop of a redirect is its own entry.
public final class HARRecorder: RequestAccessory, SentHeadObserver {
    /// What is kept at most.
    public struct Limits: Sendable {
        /// The bytes of all entries. Default 256 MiB. Entries beyond that are only counted.
        public var size: Int64 = 256 << 20
        /// The bytes of entries in memory. Default 4 MiB.
        public var memory = 4 << 20

        /// Keeps 256 MiB, 4 MiB of it in memory.
        public init() {}
    }

    fileprivate struct State {
        /// Entries that are not in the file yet, each with a comma and a line feed before it.
        var buffer: [UInt8] = []
        /// -1 until there is one.
        var file: Int32 = -1
        var fileSize = 0
        /// How many entries the buffer holds.
        var buffered = 0
        var count = 0
        var droppedCount = 0
    }

    private let recorder: CallRecorder
    private let core: Core

    /// The state that the closure of the inner recorder keeps alive.
    fileprivate final class Core: Sendable {
        let state = Mutex(State())
        let limits: Limits

        init(_ limits: Limits) { self.limits = limits }

        deinit { state.withLock { if $0.file >= 0 { close($0.file) } } }
    }

    /// Makes a recorder.
    ///
    /// - Parameters:
    ///   - bodies: which bodies are kept. Default: the first 256 KiB of most types.
    ///   - limits: how much is kept. Default: 256 MiB, 4 MiB of it in memory.
    public init(bodies: BodyCapture = BodyCapture(), limits: Limits = Limits()) {
        let core = Core(limits)
        self.core = core
        recorder = CallRecorder(bodies: bodies) { core.add($0) }
    }

    /// How many entries there are.
    public var count: Int { core.state.withLock(\.count) }
    /// How many entries were not kept, because there was no room for them.
    public var droppedCount: Int { core.state.withLock(\.droppedCount) }

    /// Begins the record of a call.
    public func willStart(_ call: ObservedCall) { recorder.willStart(call) }
    /// Notes an event.
    public func handle(_ event: CallEvent) { recorder.handle(event) }
    /// Keeps the beginning of a stream.
    public func didRead(_ chunk: Data, of call: ObservedCall) { recorder.didRead(chunk, of: call) }

    package func didSend(_ head: SentHead, for call: ObservedCall) { recorder.didSend(head, for: call) }

    /// The file as bytes.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when the temporary file cannot be read.
    public func data() throws -> Data {
        try core.read { state in
            var bytes = Data(capacity: state.fileSize + state.buffer.count + 1024)
            try Self.pieces(of: state, recorder.runningCount) { bytes.append(contentsOf: $0) }
            return bytes
        }
    }

    /// Writes the file, whole or not at all, readable by its owner only. Calls that still run are not in it; a comment says
    /// how many they are.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when it cannot be written.
    public func write(to path: String) throws {
        do {
            try core.read { state in
                try AtomicFile.write(to: path) { write in try Self.pieces(of: state, recorder.runningCount, write) }
            }
        } catch let error as SystemError {
            throw NetworkError(
                .storage, message: "the HAR file \(path) cannot be written: \(error); choose another path")
        }
    }

    /// Forgets all entries.
    public func clear() {
        core.state.withLock { state in
            if state.file >= 0 { close(state.file) }
            state = State()
        }
    }

    // MARK: The format

    /// The file, piece by piece.
    private static func pieces(
        of state: State, _ running: Int, _ use: (ArraySlice<UInt8>) throws -> Void
    ) throws {
        try use(Array(head(state.droppedCount, running).utf8)[...])
        // Each entry begins with a comma.
        var isFirst = true
        func next(_ bytes: ArraySlice<UInt8>) throws {
            try use(isFirst ? bytes.dropFirst() : bytes)
            if !bytes.isEmpty { isFirst = false }
        }
        try Core.read(state, next)
        try next(state.buffer[...])
        try use(Array("\n]}}\n".utf8)[...])
    }

    private static func head(_ dropped: Int, _ running: Int) -> String {
        let words = [
            dropped > 0 ? "\(dropped) entries were not kept: the limit of the recorder was reached" : nil,
            running > 0 ? "\(running) calls were still running, and are not in this file" : nil,
        ].compactMap(\.self)
        let comment = words.isEmpty ? "" : ",\"comment\":\"\(words.joined(separator: "; "))\""
        return """
            {"log":{"version":"1.2","creator":{"name":"LATNetworking","version":"\(CurlTransport.version)"}\(comment),\
            "pages":[],"entries":[
            """
    }
}

extension HARRecorder.Core {
    /// Reads what was recorded so far, with a second descriptor, while recording continues.
    fileprivate func read<Result>(_ body: (HARRecorder.State) throws -> Result) throws -> Result {
        let copy = try state.withLock { state in
            var copy = state
            guard state.file >= 0 else { return copy }
            copy.file = fcntl(state.file, F_DUPFD_CLOEXEC, 0)
            guard copy.file >= 0 else {
                throw NetworkError(.storage, message: "what was recorded cannot be read: \(SystemError().text)")
            }
            return copy
        }
        defer { if copy.file >= 0 { close(copy.file) } }
        return try body(copy)
    }

    fileprivate func add(_ record: CallRecord) {
        for entry in HAREntry(record: record).entries {
            guard let data = try? entry.data() else { continue }
            state.withLock { state in
                guard Int64(state.fileSize + state.buffer.count + data.count) <= limits.size else {
                    state.droppedCount += 1
                    return
                }
                state.buffer += [UInt8(ascii: ","), UInt8(ascii: "\n")]
                state.buffer += data
                state.buffered += 1
                state.count += 1
                if state.buffer.count > limits.memory { spill(&state) }
            }
        }
    }

    /// Moves the buffer to the file. On a full disk it is dropped.
    private func spill(_ state: inout HARRecorder.State) {
        if state.file < 0 {
            let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
            let path = "\(folder)/lat-har-\(getpid())-\(UInt64.random(in: 0 ... .max))"
            state.file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            // A file without a name is deleted when the process ends, even by a crash.
            if state.file >= 0 { unlink(path) }
        }
        var written = 0
        while state.file >= 0, written < state.buffer.count {
            let count = state.buffer.withUnsafeBytes {
                pwrite(
                    state.file, $0.baseAddress.map { $0 + written }, $0.count - written, state.fileSize + written
                )
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            written += count
        }
        if written == state.buffer.count {
            state.fileSize += written
        } else {
            state.droppedCount += state.buffered
            state.count -= state.buffered
        }
        state.buffer = []
        state.buffered = 0
    }

    fileprivate static func read(_ state: HARRecorder.State, _ use: (ArraySlice<UInt8>) throws -> Void) throws {
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        var position = 0
        while position < state.fileSize {
            let count = pread(state.file, &buffer, min(buffer.count, state.fileSize - position), position)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw NetworkError(.storage, message: "what was recorded cannot be read: \(SystemError().text)")
            }
            try use(buffer[..<count])
            position += count
        }
    }
}
