import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

/// A streamed body that is stored while it is read. It is kept only if it is read to its end.
final class StoringBody: AbandonableBodySource {
    private let body: ResponseBody
    private let keeper: StreamStoring
    private let announced: Int64?
    private let byteCount = Atomic<Int64>(0)

    /// - Parameter announced: The expected number of bytes, if known.
    init(_ body: ResponseBody, into keeper: StreamStoring, announced: Int64?) {
        self.body = body
        self.announced = announced
        self.keeper = keeper
    }

    func next() async throws -> Data? {
        do {
            // A stream's iterator has no state of its own.
            var iterator = body.makeAsyncIterator()
            guard let chunk = try await iterator.next() else {
                let isWhole = announced == nil || announced == byteCount.load(ordering: .relaxed)
                keeper.end(isWhole: isWhole, .incomplete)
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
