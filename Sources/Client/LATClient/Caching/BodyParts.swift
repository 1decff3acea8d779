import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

extension ResponseBody {
    /// A part of the body; `nil` when a collected body is too short for it.
    ///
    /// - Parameter readsOn: Whether to read a stream to its end after the part, so that it is stored completely.
    func part(_ part: Range<Int64>, readsOn: Bool = false) -> ResponseBody? {
        guard let data else { return ResponseBody(BodyPart(self, part, readsOn: readsOn)) }
        guard Int64(data.count) >= part.upperBound else { return nil }
        return ResponseBody(Data(data.dropFirst(Int(part.lowerBound)).prefix(part.count)))
    }

    /// Joins bodies in order. The result is a stream if one of them is.
    ///
    /// - Parameters:
    ///   - byteCount: The expected number of bytes.
    ///   - mismatch: The error that a stream with another number of bytes throws.
    /// - Returns: `nil` if collected bodies have another number of bytes.
    static func joining(
        _ bodies: [ResponseBody], byteCount: Int64, else mismatch: NetworkError = partMismatch
    ) -> ResponseBody? {
        let collected = bodies.compactMap(\.data)
        guard collected.count == bodies.count else { return ResponseBody(JoinedBody(bodies, byteCount, mismatch)) }
        let data = collected.count == 1 ? collected[0] : collected.reduce(into: Data()) { $0.append($1) }
        return Int64(data.count) == byteCount ? ResponseBody(data) : nil
    }

    private static let partMismatch = NetworkError(
        .protocolViolation, message: "a part of the response is not as long as its Content-Range says")
}

/// A part of a body.
final class BodyPart: AbandonableBodySource {
    private struct State {
        var toSkip: Int64
        var left: Int64
    }

    private let body: ResponseBody
    private let readsOn: Bool
    private let state: Mutex<State>

    init(_ body: ResponseBody, _ part: Range<Int64>, readsOn: Bool) {
        self.body = body
        self.readsOn = readsOn
        state = Mutex(State(toSkip: part.lowerBound, left: Int64(part.count)))
    }

    func next() async throws -> Data? {
        // A stream's iterator has no state of its own.
        var iterator = body.makeAsyncIterator()
        while state.withLock({ $0.left }) > 0 {
            guard let chunk = try await iterator.next() else { return nil }
            let taken = state.withLock { state in
                let skipped = min(state.toSkip, Int64(chunk.count))
                state.toSkip -= skipped
                let taken = chunk.dropFirst(Int(skipped)).prefix(Int(clamping: state.left))
                state.left -= Int64(taken.count)
                return Data(taken)
            }
            if !taken.isEmpty { return taken }
        }
        // The part is complete, so an error in the rest is ignored.
        while readsOn, let _ = try? await iterator.next() {}
        return nil
    }

    func abandon() { body.abandon() }
}

/// Several bodies, one after the other.
private final class JoinedBody: AbandonableBodySource {
    private struct State {
        var rest: [ResponseBody]
        var left: Int64
    }

    private let bodies: [ResponseBody]
    private let mismatch: NetworkError
    private let state: Mutex<State>

    init(_ bodies: [ResponseBody], _ byteCount: Int64, _ mismatch: NetworkError) {
        self.bodies = bodies
        self.mismatch = mismatch
        state = Mutex(State(rest: bodies, left: byteCount))
    }

    func next() async throws -> Data? {
        while let body = state.withLock({ $0.rest.first }) {
            var iterator = body.makeAsyncIterator()
            let chunk = try await iterator.next()
            let left = state.withLock { state in
                // The iterator of a collected body always returns the whole body.
                if chunk == nil || !body.isStream { state.rest.removeFirst() }
                state.left -= Int64(chunk?.count ?? 0)
                return state.left
            }
            guard left >= 0 else { throw mismatch }
            if let chunk { return chunk }
        }
        guard state.withLock({ $0.left }) == 0 else { throw mismatch }
        return nil
    }

    func abandon() { for body in bodies { body.abandon() } }
}

/// A streamed body that is stored while it is read. It is kept only if it is read to its end.
final class StoringBody: AbandonableBodySource {
    private let response: HTTPResponse
    private var body: ResponseBody { response.body }
    private let keeper: StreamStoring
    private let method: HTTPMethod
    private let byteCount = Atomic<Int64>(0)

    /// - Parameter method: That of the request.
    init(_ response: HTTPResponse, to method: HTTPMethod, into keeper: StreamStoring) {
        self.response = response
        self.method = method
        self.keeper = keeper
    }

    func next() async throws -> Data? {
        do {
            var iterator = body.makeAsyncIterator()
            guard let chunk = try await iterator.next() else {
                let count = byteCount.load(ordering: .relaxed)
                let isComplete = StorageRule.isComplete(response, byteCount: count, method: method)
                keeper.end(isWhole: isComplete, .incomplete)
                return nil
            }
            byteCount.wrappingAdd(Int64(chunk.count), ordering: .relaxed)
            keeper.append(chunk)
            return chunk
        } catch {
            keeper.end(isWhole: false)
            throw error
        }
    }

    func abandon() { body.abandon() }

    // Discards a body that was not read to its end.
    deinit { keeper.end(isWhole: false) }
}
