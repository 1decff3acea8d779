import HTTPCore

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
    public func makeAsyncIterator() -> Iterator { Iterator(hub.events()) }

    /// Reads event by event.
    public struct Iterator: AsyncIteratorProtocol {
        private var events: AsyncStream<CallEvent>.Iterator

        init(_ events: AsyncStream<CallEvent>) { self.events = events.makeAsyncIterator() }

        /// The next event; `nil` when the manager is gone, or the task was cancelled.
        public mutating func next() async -> CallEvent? { await events.next() }
    }
}

/// Hands the events of a manager's calls on. A reader that falls behind loses the oldest.
typealias CallEventHub = EventHub<CallEvent>

extension EventHub<CallEvent> {
    /// How many events wait for a reader at most.
    static var bufferSize: Int { 4_096 }
}
