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
    private let primary: String
    private let state: Mutex<State>

    /// - Parameters:
    ///   - announced: how many bytes there have to be, when that is known.
    ///   - primary: the key under which it is noted why the body was not kept.
    init(
        _ body: ResponseBody, into writer: any CacheWriter, announced: Int64?, storage: CacheStorage, primary: String
    ) {
        self.primary = primary
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
            await give(up: takeWriter(), .notReadToEnd)
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
            await give(up: takeWriter(), CacheRefusal(writing: error))
        }
    }

    private func commit() async {
        guard let writer = takeWriter() else { return }
        let byteCount = state.withLock { $0.byteCount }
        guard announced == nil || announced == byteCount else { return await give(up: writer, .incomplete) }
        do {
            try await writer.commit()
            storage.counters.countStored(Int(byteCount))
        } catch {
            storage.report(error, "write")
            storage.refuse(primary, CacheRefusal(writing: error))
        }
    }

    private func give(up writer: (any CacheWriter)?, _ refusal: CacheRefusal) async {
        guard let writer else { return }
        storage.refuse(primary, refusal)
        await writer.discard()
    }

    deinit {
        // A writer that is let go of leaves nothing behind.
        if takeWriter() != nil { storage.refuse(primary, .notReadToEnd) }
    }

    private func takeWriter() -> (any CacheWriter)? {
        state.withLock { state in
            defer { state.writer = nil }
            return state.writer
        }
    }
}

/// A part of a body.
final class BodyPart: ResponseBodySource {
    private struct State {
        var toSkip: Int64
        var left: Int64
    }

    private let body: ResponseBody
    private let state: Mutex<State>

    init(_ body: ResponseBody, _ part: Range<Int64>) {
        self.body = body
        state = Mutex(State(toSkip: part.lowerBound, left: Int64(part.count)))
    }

    func next() async throws -> Data? {
        while state.withLock({ $0.left }) > 0 {
            var iterator = body.makeAsyncIterator()
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
        return nil
    }
}
