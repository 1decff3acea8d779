import FoundationEssentials
internal import HTTPCore
import Platform
import Synchronization

/// A bounded buffer that carries a streamed body from the engine to one reader.
///
/// The engine appends bytes and pauses the transfer when the buffer reaches ``highWaterMark``. The reader takes the
/// whole buffer as one chunk, which resumes the transfer. So a slow reader costs few wake-ups.
final class BodyPipe: ResponseBody.Source {
    /// The number of unread bytes at which a transfer is paused.
    static let highWaterMark = 256 << 10

    private struct State {
        var buffer = Data()
        /// The size of the chunk that the reader took last, used to reserve space for the next one.
        var lastCount = 0
        var isPaused = false
        /// What the reader receives after the buffered bytes.
        var end: Result<Data?, NetworkError>?
        var reader: UnsafeContinuation<Data?, any Error>?
    }

    /// What the reader asks the engine to do.
    enum Demand: Sendable {
        case resume
        case cancel
    }

    private let state = Mutex(State())
    private let demand = HeldClosure<@Sendable (Demand) -> Void>()

    func connect(_ demand: @escaping @Sendable (Demand) -> Void) { self.demand.set(demand) }

    // MARK: The engine's side

    func append(_ bytes: UnsafeRawBufferPointer) {
        state.withLock { state in
            if state.buffer.isEmpty { state.buffer.reserveCapacity(max(bytes.count, state.lastCount)) }
            state.buffer.append(contentsOf: bytes)
        }
    }

    /// Marks the pipe as paused when it is full. Returns whether the transfer has to pause; the reader resumes it later.
    func pauseIfFull() -> Bool {
        state.withLock { state in
            if state.buffer.count >= Self.highWaterMark { state.isPaused = true }
            return state.isPaused
        }
    }

    /// Whether the transfer is paused until the reader takes the buffer.
    var isFull: Bool { state.withLock(\.isPaused) }

    /// Gives the buffered bytes to a waiting reader.
    func flush() {
        let delivery = state.withLock { state -> (UnsafeContinuation<Data?, any Error>, Data, Bool)? in
            guard !state.buffer.isEmpty, let reader = state.reader else { return nil }
            state.reader = nil
            let (chunk, resumes) = Self.takeAll(&state)
            return (reader, chunk, resumes)
        }
        guard let (reader, chunk, resumes) = delivery else { return }
        reader.resume(returning: chunk)
        if resumes { send(.resume) }
    }

    /// Ends the body, complete or failed. The reader still receives the buffered bytes first.
    func finish(_ end: Result<Void, NetworkError>) {
        flush()
        let end: Result<Data?, NetworkError> = end.map { _ in nil }
        let reader = state.withLock { state -> UnsafeContinuation<Data?, any Error>? in
            if state.end == nil { state.end = end }
            defer { state.reader = nil }
            return state.reader
        }
        demand.take()
        reader?.resume(with: end)
    }

    // MARK: The reader's side

    func next() async throws -> Data? {
        do {
            return try await withTaskCancellationHandler {
                try await withUnsafeThrowingContinuation { take($0) }
            } onCancel: {
                abandon()
            }
        } catch let error as NetworkError where error.kind == .cancelled && Task.isCancelled {
            throw CancellationError()
        }
    }

    /// Ends reading. Cancels the transfer unless it has ended.
    func abandon() {
        if state.withLock({ $0.end == nil }) { send(.cancel) }
    }

    private func take(_ reader: UnsafeContinuation<Data?, any Error>) {
        let (result, resumes) = state.withLock { state -> (Result<Data?, NetworkError>?, Bool) in
            if !state.buffer.isEmpty {
                let (chunk, resumes) = Self.takeAll(&state)
                return (.success(chunk), resumes)
            }
            if let end = state.end { return (end, false) }
            guard state.reader == nil else {
                return (.failure(.invalidRequest("two readers read a streamed body at once; use one")), false)
            }
            state.reader = reader
            return (nil, false)
        }
        if let result { reader.resume(with: result) }
        if resumes { send(.resume) }
    }

    private static func takeAll(_ state: inout State) -> (chunk: Data, resumes: Bool) {
        let chunk = state.buffer
        state.buffer = Data()
        state.lastCount = chunk.count
        defer { state.isPaused = false }
        return (chunk, state.isPaused)
    }

    private func send(_ demand: Demand) { self.demand.closure?(demand) }
}

/// The reader's end of a pipe, which a response and its iterators hold. Cancels the transfer when the last of them is
/// released, since the body can no longer be read.
final class BodyReader: AbandonableBodySource {
    private let pipe: BodyPipe
    /// Keeps the engine alive until the body is read to its end or abandoned.
    private let keepsAlive: Mutex<(any AnyObject & Sendable)?>

    init(_ pipe: BodyPipe, keepsAlive: (any AnyObject & Sendable)?) {
        self.pipe = pipe
        self.keepsAlive = Mutex(keepsAlive)
    }

    func next() async throws -> Data? {
        var isOver = true
        defer { if isOver { releaseEngine() } }
        let chunk = try await pipe.next()
        isOver = chunk == nil
        return chunk
    }

    func abandon() {
        pipe.abandon()
        releaseEngine()
    }

    private func releaseEngine() {
        // Returned, so that the engine is released outside the lock.
        _ = keepsAlive.withLock { engine in
            defer { engine = nil }
            return engine
        }
    }

    deinit { pipe.abandon() }
}
