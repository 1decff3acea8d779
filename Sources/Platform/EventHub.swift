import Synchronization

/// The readers of a hub, protected by the hub's lock.
private struct Readers<Element: Sendable> {
    private var streams: [Int: AsyncStream<Element>.Continuation] = [:]
    private var next = 0
    private(set) var isOver = false

    var count: Int { streams.count }

    /// - Returns: the reader's number; `nil` when the hub has finished.
    mutating func add(_ stream: AsyncStream<Element>.Continuation) -> Int? {
        guard !isOver else { return nil }
        next += 1
        streams[next] = stream
        return next
    }

    /// - Returns: the reader, which the caller releases outside the lock.
    mutating func remove(_ number: Int) -> AsyncStream<Element>.Continuation? { streams.removeValue(forKey: number) }

    /// Called under the lock, so that all readers get the elements in the same order.
    func send(_ element: Element) {
        for stream in streams.values { stream.yield(element) }
    }

    /// - Returns: the readers, which the caller finishes outside the lock.
    mutating func end() -> [AsyncStream<Element>.Continuation] {
        isOver = true
        defer { streams = [:] }
        return Array(streams.values)
    }
}

/// Sends events to any number of readers. Each gets all events since it started, in order.
package final class EventHub<Event: Sendable>: Sendable {
    private let limit: Int?
    private let readers = Mutex(Readers<Event>())
    @usableFromInline let readerCount = Atomic(0)

    /// - Parameter limit: the largest number of events buffered for a reader; beyond it the oldest are dropped. Default
    ///   `nil`: no limit.
    package init(limit: Int? = nil) { self.limit = limit }

    /// Whether there are readers. Takes no lock.
    @inlinable package var isActive: Bool { readerCount.load(ordering: .relaxed) > 0 }

    package func events() -> AsyncStream<Event> {
        let (stream, reader) = AsyncStream<Event>.makeStream(
            bufferingPolicy: limit.map { .bufferingNewest($0) } ?? .unbounded)
        let number = change { $0.add(reader) }
        if let number {
            reader.onTermination = { [weak self] _ in _ = self?.change { $0.remove(number) } }
        } else {
            reader.finish()
        }
        return stream
    }

    package func send(_ event: Event) { readers.withLock { $0.send(event) } }

    /// Ends the readers' streams after the events sent so far.
    package func finish() {
        for reader in change({ $0.end() }) { reader.finish() }
    }

    private func change<Result: Sendable>(_ body: (inout Readers<Event>) -> Result) -> Result {
        readers.withLock { readers in
            defer { readerCount.store(readers.count, ordering: .relaxed) }
            return body(&readers)
        }
    }

    deinit { finish() }
}

/// A changing value with any number of readers. Each reader gets the current value at once and then the latest one
/// whenever it asks.
///
/// A reader that is slower than the changes misses intermediate values, but never the last one.
package final class LatestValue<Value: Sendable>: Sendable {
    private struct State {
        var current: Value
        var readers = Readers<Value>()
    }

    private let state: Mutex<State>
    private let idle: (@Sendable () -> Void)?

    /// - Parameter idle: called after the last reader has left, even if a new one comes at once. Default `nil`.
    package init(_ value: Value, idle: (@Sendable () -> Void)? = nil) {
        state = Mutex(State(current: value))
        self.idle = idle
    }

    package var hasReaders: Bool { state.withLock { $0.readers.count > 0 } }

    package var current: Value { state.withLock(\.current) }

    /// Changes the value. Does nothing after ``finish(_:)``.
    package func send(_ value: Value) {
        state.withLock { state in
            guard !state.readers.isOver else { return }
            state.current = value
            state.readers.send(value)
        }
    }

    /// Ends the readers' streams, after a last value if one is given.
    package func finish(_ value: Value? = nil) {
        if let value { send(value) }
        for reader in state.withLock({ $0.readers.end() }) { reader.finish() }
    }

    /// Returns a stream of the current value and the later ones.
    package func values() -> AsyncStream<Value> {
        let (stream, reader) = AsyncStream<Value>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            reader.yield(state.current)
            return state.readers.add(reader)
        }
        if let number {
            reader.onTermination = { [weak self] _ in self?.forget(number) }
        } else {
            reader.finish()
        }
        return stream
    }

    private func forget(_ number: Int) {
        let (reader, isLast) = state.withLock { state in
            let reader = state.readers.remove(number)
            return (reader, reader != nil && state.readers.count == 0)
        }
        _ = reader  // Released outside the lock.
        if isLast { idle?() }
    }
}
