import FoundationEssentials
import HTTPCore
import Synchronization

/// A body that reports its end once: when it was read completely, failed or was released.
final class CallBody: ResponseBody.Source {
    private let body: ResponseBody
    private let call: Call
    private let end: Mutex<(@Sendable (NetworkError?) -> Void)?>

    init(_ body: ResponseBody, _ call: Call, _ end: @escaping @Sendable (NetworkError?) -> Void) {
        self.body = body
        self.call = call
        self.end = Mutex(end)
    }

    func next() async throws -> Data? {
        // All iterators of a stream share one position.
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

    deinit { tell(NetworkError(.cancelled, message: "the body was released before its end", request: call.request)) }
}
