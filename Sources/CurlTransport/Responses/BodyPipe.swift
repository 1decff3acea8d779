import FoundationEssentials
import HTTPCore
import Synchronization

/// Carries the bytes of a streamed body from the engine to one reader, a
/// bounded number at a time.
///
/// The engine appends; when more than the high mark lies here it pauses the
/// transfer, and the reader who takes the lot has it go on. The reader always
/// gets all there is as one chunk, so a slow reader costs few wake-ups.
final class BodyPipe: ResponseBodySource {
    /// A transfer is paused when this many bytes wait for the reader.
    static let highMark = 256 << 10

    private struct State {
        var buffer = Data()
        /// How much the reader took last: the next chunk will be like it.
        var lastCount = 0
        var isPaused = false
        var end: Result<Void, NetworkError>?
        var reader: UnsafeContinuation<Data?, any Error>?
        /// The reader left before the end.
        var isAbandoned = false
    }

    /// What the reader asks of the engine.
    enum Demand: Sendable {
        case goOn
        case cancel
    }

    private let state = Mutex(State())
    private let demand: Mutex<(@Sendable (Demand) -> Void)?> = Mutex(nil)

    /// Tells the engine from now on what the reader wants.
    func connect(_ demand: @escaping @Sendable (Demand) -> Void) {
        self.demand.withLock { $0 = demand }
    }

    // MARK: The engine's end

    /// Takes bytes in.
    func append(_ bytes: UnsafeRawBufferPointer) {
        state.withLock { state in
            if state.buffer.isEmpty { state.buffer.reserveCapacity(max(bytes.count, state.lastCount)) }
            state.buffer.append(contentsOf: bytes)
        }
    }

    /// Whether so much lies here that the transfer has to pause; the reader who takes it then says so.
    func pauseIfFull() -> Bool {
        state.withLock { state in
            if state.buffer.count >= Self.highMark { state.isPaused = true }
            return state.isPaused
        }
    }

    /// How many bytes lie here.
    var unreadCount: Int { state.withLock(\.buffer.count) }

    /// Whether the transfer was paused and the reader has not taken what lies here.
    var isFull: Bool { state.withLock(\.isPaused) }

    /// Hands what has come to a reader who waits.
    func flush() {
        let delivery = state.withLock { state -> (UnsafeContinuation<Data?, any Error>, Data, Bool)? in
            guard !state.buffer.isEmpty, let reader = state.reader else { return nil }
            state.reader = nil
            let (chunk, resumes) = Self.takeAll(&state)
            return (reader, chunk, resumes)
        }
        guard let (reader, chunk, resumes) = delivery else { return }
        reader.resume(returning: chunk)
        if resumes { send(.goOn) }
    }

    /// The body is over, whole or not. What lies here is still delivered first.
    func finish(_ end: Result<Void, NetworkError>) {
        flush()
        let reader = state.withLock { state -> UnsafeContinuation<Data?, any Error>? in
            if state.end == nil { state.end = end }
            defer { state.reader = nil }
            return state.reader
        }
        demand.withLock { $0 = nil }
        guard let reader else { return }
        switch end {
        case .success: reader.resume(returning: nil)
        case .failure(let error): reader.resume(throwing: error)
        }
    }

    // MARK: The reader's end

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

    /// The reader will not come back: the transfer is cancelled when it is still going on.
    func abandon() {
        let isOver = state.withLock { state in
            state.isAbandoned = true
            return state.end != nil
        }
        if !isOver { send(.cancel) }
    }

    private enum Step {
        case chunk(Data, resumes: Bool)
        case end(Result<Void, NetworkError>)
        case wait
        case misuse
    }

    private func take(_ reader: UnsafeContinuation<Data?, any Error>) {
        let step = state.withLock { state -> Step in
            if !state.buffer.isEmpty {
                let (chunk, resumes) = Self.takeAll(&state)
                return .chunk(chunk, resumes: resumes)
            }
            if let end = state.end { return .end(end) }
            guard state.reader == nil else { return .misuse }
            state.reader = reader
            return .wait
        }
        switch step {
        case .chunk(let chunk, let resumes):
            reader.resume(returning: chunk)
            if resumes { send(.goOn) }
        case .end(.success): reader.resume(returning: nil)
        case .end(.failure(let error)): reader.resume(throwing: error)
        case .misuse:
            reader.resume(throwing: NetworkError.invalidRequest("a streamed body has one reader; two read at once"))
        case .wait: break
        }
    }

    private static func takeAll(_ state: inout State) -> (chunk: Data, resumes: Bool) {
        let chunk = state.buffer
        state.buffer = Data()
        state.lastCount = chunk.count
        defer { state.isPaused = false }
        return (chunk, state.isPaused)
    }

    private func send(_ demand: Demand) {
        self.demand.withLock { $0 }?(demand)
    }
}

/// What a response holds of a pipe: when the last copy of the response and its
/// iterators is gone, nobody can read any more and the transfer is cancelled.
final class ReaderEnd: AbandonableBodySource {
    private let pipe: BodyPipe
    /// The engine, which must not end while the body is read, and may when it was read to its end.
    private let keepsAlive: Mutex<(any AnyObject & Sendable)?>

    init(_ pipe: BodyPipe, keepsAlive: (any AnyObject & Sendable)?) {
        self.pipe = pipe
        self.keepsAlive = Mutex(keepsAlive)
    }

    func next() async throws -> Data? {
        do {
            if let chunk = try await pipe.next() { return chunk }
        } catch {
            letEngineGo()
            throw error
        }
        letEngineGo()
        return nil
    }

    func abandon() {
        pipe.abandon()
        letEngineGo()
    }

    private func letEngineGo() {
        let engine = keepsAlive.withLock { engine in
            defer { engine = nil }
            return engine
        }
        _ = engine  // let go of outside the lock
    }

    deinit { pipe.abandon() }
}
