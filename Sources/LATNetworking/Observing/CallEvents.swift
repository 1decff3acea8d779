import HTTPCore
import Synchronization

/// What happens to a manager's calls, as it happens.
///
/// ```swift
/// for await event in manager.events {
///     if case .retrying(let wait) = event.kind { print(event.call.request.url, "again in", wait) }
/// }
/// ```
///
/// It begins with the first read. A reader who falls behind loses the oldest events, never holds a call up.
public struct CallEvents: AsyncSequence, Sendable {
    /// An event of one of the calls.
    public typealias Element = CallEvent

    private let hub: CallEventHub

    init(_ hub: CallEventHub) { self.hub = hub }

    /// Starts watching: calls that begin from now on, until the iterator is let go of or the manager is.
    public func makeAsyncIterator() -> Iterator { Iterator(hub.subscribe()) }

    /// Reads event by event.
    public struct Iterator: AsyncIteratorProtocol {
        private var events: AsyncStream<CallEvent>.Iterator

        init(_ events: AsyncStream<CallEvent>) { self.events = events.makeAsyncIterator() }

        /// The next event; `nil` when the manager is gone, or the task was cancelled.
        public mutating func next() async -> CallEvent? { await events.next() }
    }
}

/// Hands events on to all who read.
final class CallEventHub: Sendable {
    /// How many events wait for a reader at most.
    static let bufferSize = 4_096

    private struct State {
        var readers: [Int: AsyncStream<CallEvent>.Continuation] = [:]
        var tickets = 0
    }

    private let state = Mutex(State())
    private let readerCount = Atomic(0)

    /// Whether anybody reads; looked at without the lock by every call.
    var isActive: Bool { readerCount.load(ordering: .relaxed) > 0 }

    func subscribe() -> AsyncStream<CallEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CallEvent.self, bufferingPolicy: .bufferingNewest(Self.bufferSize))
        let ticket = state.withLock { state in
            state.tickets += 1
            state.readers[state.tickets] = continuation
            readerCount.store(state.readers.count, ordering: .relaxed)
            return state.tickets
        }
        continuation.onTermination = { [weak self] _ in self?.unsubscribe(ticket) }
        return stream
    }

    func send(_ event: CallEvent) {
        for reader in state.withLock({ Array($0.readers.values) }) { reader.yield(event) }
    }

    private func unsubscribe(_ ticket: Int) {
        let reader = state.withLock { state in
            let reader = state.readers.removeValue(forKey: ticket)
            readerCount.store(state.readers.count, ordering: .relaxed)
            return reader
        }
        _ = reader  // let go of outside the lock
    }

    deinit {
        for reader in state.withLock({ $0.readers }).values { reader.finish() }
    }
}
