import FoundationEssentials
package import HTTPCore
import Synchronization

/// The bytes of an asynchronous sequence, requested no faster than libcurl sends them: the next chunk is requested when
/// libcurl has taken all of the current one, and the first one when libcurl asks for it. So a request whose connection could
/// not be opened has not touched the sequence, and can be sent again.
final class StreamSource: BodySource {
    private struct State {
        var chunk = Data()
        var delivered: Int64 = 0
        var end: Result<Void, NetworkError>?
        /// Whether the last announced byte is held back until the stream has ended. libcurl reads no further than the
        /// announced length, so surplus bytes would otherwise go unnoticed.
        var holdsLastByte = false
        /// Whether libcurl pauses until there are bytes.
        var engineWaits = false
        /// The continuation of the pump, the task that reads the sequence. The pump waits until libcurl has taken the
        /// whole chunk.
        var pump: CheckedContinuation<Void, Never>?
        var task: Task<Void, Never>?
        var hasPump = false
        /// The number of restarts. A pump of an earlier round is ignored.
        var round = 0
        var wake: (@Sendable () -> Void)?
    }

    private let stream: BodyStream
    private let state = Mutex(State())

    init(_ stream: BodyStream) { self.stream = stream }

    var length: Int64? { stream.length }

    func start(wake: @escaping @Sendable () -> Void) {
        state.withLock { $0.wake = wake }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> BodyRead {
        let (result, pump) = state.withLock { state -> (BodyRead, CheckedContinuation<Void, Never>?) in
            if case .failure(let error) = state.end { return (.failed(error), nil) }
            guard !state.chunk.isEmpty else {
                if state.end != nil { return (completed(state), nil) }
                state.engineWaits = true
                if !state.hasPump { startPump(&state) }
                return (.pause, nil)
            }
            var count = min(buffer.count, state.chunk.count)
            if let length, state.end == nil, state.delivered + Int64(state.chunk.count) >= length {
                guard state.delivered + Int64(state.chunk.count) == length else { return (.failed(surplus), nil) }
                if state.chunk.count == 1 {
                    state.holdsLastByte = true
                    state.engineWaits = true
                    defer { state.pump = nil }
                    return (.pause, state.pump)
                }
                count = min(count, state.chunk.count - 1)
            }
            state.chunk.copyBytes(to: buffer, count: count)
            state.delivered += Int64(count)
            guard count == state.chunk.count else {
                state.chunk = state.chunk.dropFirst(count)
                return (.bytes(count), nil)
            }
            state.chunk = Data()
            defer { state.pump = nil }
            return (.bytes(count), state.pump)
        }
        pump?.resume()
        return result
    }

    func rewind() -> Bool {
        // What was read ahead, but not delivered, is still the beginning.
        guard state.withLock({ $0.delivered > 0 || $0.end != nil }) else { return true }
        guard stream.isReplayable else { return false }
        stop()
        return true
    }

    func stop() {
        let (task, pump) = state.withLock { state -> (Task<Void, Never>?, CheckedContinuation<Void, Never>?) in
            defer { state = State(round: state.round + 1, wake: state.wake) }
            return (state.task, state.pump)
        }
        task?.cancel()
        pump?.resume()
    }

    private func startPump(_ state: inout State) {
        state.hasPump = true
        let round = state.round
        state.task = Task { [self, stream] in
            let next = stream.makeIterator()
            do {
                while let chunk = try await next() {
                    if chunk.isEmpty { continue }
                    guard await deliver(chunk, round: round) else { return }
                }
                finish(.success(()), round: round)
            } catch let error as NetworkError {
                finish(.failure(error), round: round)
            } catch {
                finish(.failure(Self.failure("it threw: \(error)", underlying: error)), round: round)
            }
        }
    }

    /// Makes a chunk current and waits until libcurl has taken all of it. Returns `false` when the pump must stop.
    private func deliver(_ chunk: Data, round: Int) async -> Bool {
        await withCheckedContinuation { continuation in
            let (isCurrent, wake) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
                guard state.round == round else { return (false, nil) }
                if state.holdsLastByte {
                    state.end = .failure(surplus)
                    return (false, Self.takeWake(&state))
                }
                state.chunk = chunk
                state.pump = continuation
                return (true, Self.takeWake(&state))
            }
            if !isCurrent { continuation.resume() }
            wake?()
        }
        return state.withLock { $0.round == round && $0.end == nil }
    }

    private func finish(_ end: Result<Void, NetworkError>, round: Int) {
        let wake = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.round == round else { return nil }
            state.end = end
            state.holdsLastByte = false
            state.task = nil
            return Self.takeWake(&state)
        }
        wake?()
    }

    private static func takeWake(_ state: inout State) -> (@Sendable () -> Void)? {
        defer { state.engineWaits = false }
        return state.engineWaits ? state.wake : nil
    }

    private func completed(_ state: borrowing State) -> BodyRead {
        guard let length, state.delivered < length else { return .end }
        return .failed(.streamLength(state.delivered, of: length))
    }

    private var surplus: NetworkError { .streamLength(.max, of: length ?? 0) }

    fileprivate static func failure(_ reason: String, underlying: (any Error)? = nil) -> NetworkError {
        NetworkError(.requestBody, message: "the request's body stream failed: \(reason)", underlying: underlying)
    }
}

extension NetworkError {
    /// The error of a body stream that has not the length that was announced.
    package static func streamLength(_ count: Int64, of length: Int64) -> NetworkError {
        StreamSource.failure(
            count < length
                ? "it ended after \(count) of the \(length) bytes announced"
                : "it produced more than the \(length) bytes announced")
    }
}
