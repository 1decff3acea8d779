import Synchronization

/// Who reads what a hub sends. Behind the lock of the hub.
private struct Readers<Element: Sendable> {
    private var streams: [Int: AsyncStream<Element>.Continuation] = [:]
    private var next = 0
    private(set) var isOver = false

    var count: Int { streams.count }

    /// - Returns: the number it is known by; `nil` when nothing comes any more.
    mutating func add(_ stream: AsyncStream<Element>.Continuation) -> Int? {
        guard !isOver else { return nil }
        next += 1
        streams[next] = stream
        return next
    }

    /// - Returns: the reader, to be let go of outside the lock.
    mutating func remove(_ number: Int) -> AsyncStream<Element>.Continuation? { streams.removeValue(forKey: number) }

    /// Called under the lock, so that all readers get the elements in one order; they take them elsewhere.
    func send(_ element: Element) {
        for stream in streams.values { stream.yield(element) }
    }

    /// - Returns: the readers, to be ended outside the lock.
    mutating func end() -> [AsyncStream<Element>.Continuation] {
        isOver = true
        defer { streams = [:] }
        return Array(streams.values)
    }
}

/// Passes events on to any number of readers; each gets all of them from when it began, in their order.
package final class EventHub<Event: Sendable>: Sendable {
    private let limit: Int?
    private let readers = Mutex(Readers<Event>())
    @usableFromInline let readerCount = Atomic(0)

    /// - Parameter limit: how many events wait for a reader at most, the oldest are lost; `nil` for any number.
    package init(limit: Int? = nil) { self.limit = limit }

    /// Whether anybody reads; costs no lock.
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

    /// Ends the readers, after what was sent.
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

/// A value that changes, for any number of readers: each gets the current one at once, then the newest whenever it is
/// ready for it, and last the final one.
///
/// A reader that is slower than the changes misses those in between, never the last.
package final class LatestValue<Value: Sendable>: Sendable {
    private struct State {
        var current: Value
        var readers = Readers<Value>()
    }

    private let state: Mutex<State>
    private let idle: (@Sendable () -> Void)?

    /// - Parameter idle: called when the last reader has left, which another may follow at once. Default `nil`.
    package init(_ value: Value, idle: (@Sendable () -> Void)? = nil) {
        state = Mutex(State(current: value))
        self.idle = idle
    }

    /// Whether anybody reads.
    package var hasReaders: Bool { state.withLock { $0.readers.count > 0 } }

    package var current: Value { state.withLock(\.current) }

    /// Changes the value; nothing happens after ``finish(_:)``.
    package func send(_ value: Value) {
        state.withLock { state in
            guard !state.readers.isOver else { return }
            state.current = value
            state.readers.send(value)
        }
    }

    /// The last value; readers end after it, `nil` for at once.
    package func finish(_ value: Value? = nil) {
        if let value { send(value) }
        for reader in state.withLock({ $0.readers.end() }) { reader.finish() }
    }

    /// The values from now on, the current one first.
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
        _ = reader  // let go of outside the lock
        if isLast { idle?() }
    }
}
