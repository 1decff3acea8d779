import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

/// A streamed body that is stored while it is read. What was not read to its end is not kept.
final class StoringBody: AbandonableBodySource {
    private struct State {
        var writer: (any CacheWriter)?
        var byteCount: Int64 = 0
    }

    private let body: ResponseBody
    private let announced: Int64?
    private let storage: CacheStorage
    private let state: Mutex<State>

    /// - Parameter announced: how many bytes there have to be, when that is known.
    init(_ body: ResponseBody, into writer: any CacheWriter, announced: Int64?, storage: CacheStorage) {
        self.body = body
        self.announced = announced
        self.storage = storage
        state = Mutex(State(writer: writer))
    }

    func next() async throws -> Data? {
        let chunk: Data?
        do {
            // The iterator of a stream holds nothing of its own.
            var iterator = body.makeAsyncIterator()
            chunk = try await iterator.next()
        } catch {
            await give(up: takeWriter())
            throw error
        }
        if let chunk { await append(chunk) } else { await commit() }
        return chunk
    }

    func abandon() { body.abandon() }

    private func append(_ chunk: Data) async {
        guard let writer = state.withLock({ $0.writer }) else { return }
        state.withLock { $0.byteCount += Int64(chunk.count) }
        do {
            try await writer.append(chunk)
        } catch {
            storage.report(error, "write")
            await give(up: takeWriter())
        }
    }

    private func commit() async {
        guard let writer = takeWriter() else { return }
        let byteCount = state.withLock { $0.byteCount }
        guard announced == nil || announced == byteCount else { return await give(up: writer) }
        do {
            try await writer.commit()
        } catch {
            storage.report(error, "write")
        }
    }

    private func give(up writer: (any CacheWriter)?) async { await writer?.discard() }

    private func takeWriter() -> (any CacheWriter)? {
        state.withLock { state in
            defer { state.writer = nil }
            return state.writer
        }
    }
}
