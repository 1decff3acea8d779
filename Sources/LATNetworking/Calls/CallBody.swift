import FoundationEssentials
import HTTPCore
import Synchronization

/// A body that tells once when it is over: read to its end, broken off, or let go of.
final class CallBody: ResponseBodySource {
    private let body: ResponseBody
    private let call: Call
    private let end: Mutex<(@Sendable (NetworkError?) -> Void)?>

    init(_ body: ResponseBody, _ call: Call, _ end: @escaping @Sendable (NetworkError?) -> Void) {
        self.body = body
        self.call = call
        self.end = Mutex(end)
    }

    func next() async throws -> Data? {
        // A stream's iterators all read on at the same place.
        var chunks = body.makeAsyncIterator()
        do {
            guard let chunk = try await chunks.next() else {
                tell(nil)
                return nil
            }
            return chunk
        } catch {
            let failure = call.failure(error)
            tell(failure)
            if error is CancellationError, !call.isCancelled { throw error }
            throw failure
        }
    }

    private func tell(_ failure: NetworkError?) {
        let end = end.withLock { end in
            defer { end = nil }
            return end
        }
        end?(failure)
    }

    deinit { tell(NetworkError(.cancelled, message: "the body was let go of before its end", request: call.request)) }
}
