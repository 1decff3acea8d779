import Synchronization

/// Passes events on to any number of readers; each gets all of them from when it began, in their order.
final class EventHub<Event: Sendable>: Sendable {
    private struct State {
        var readers: [Int: AsyncStream<Event>.Continuation] = [:]
        var count = 0
        var isOver = false
    }

    private let limit: Int?
    private let state = Mutex(State())
    private let readerCount = Atomic(0)

    /// - Parameter limit: how many events wait for a reader at most, the oldest are lost; `nil` for any number.
    init(limit: Int? = nil) { self.limit = limit }

    /// Whether anybody reads; costs no lock.
    var isActive: Bool { readerCount.load(ordering: .relaxed) > 0 }

    func events() -> AsyncStream<Event> {
        let (stream, reader) = AsyncStream<Event>.makeStream(
            bufferingPolicy: limit.map { .bufferingNewest($0) } ?? .unbounded)
        let number = state.withLock { state -> Int? in
            guard !state.isOver else { return nil }
            state.count += 1
            state.readers[state.count] = reader
            readerCount.store(state.readers.count, ordering: .relaxed)
            return state.count
        }
        guard let number else {
            reader.finish()
            return stream
        }
        reader.onTermination = { [weak self] _ in self?.forget(number) }
        return stream
    }

    func send(_ event: Event) {
        // Under the lock, so that readers get the events in their order; they take them elsewhere.
        state.withLock { state in
            for reader in state.readers.values { reader.yield(event) }
        }
    }

    /// Ends the readers, after what was sent.
    func finish() {
        let readers = state.withLock { state in
            state.isOver = true
            defer { state.readers = [:] }
            return Array(state.readers.values)
        }
        for reader in readers { reader.finish() }
    }

    private func forget(_ number: Int) {
        let reader = state.withLock { state in
            let reader = state.readers.removeValue(forKey: number)
            readerCount.store(state.readers.count, ordering: .relaxed)
            return reader
        }
        _ = reader  // let go of outside the lock
    }

    deinit { finish() }
}

/// A value that changes, for any number of readers: each gets the current one at once, then the newest whenever it is
/// ready for it, and last the final one.
///
/// A reader that is slower than the changes misses those in between, never the last.
final class LatestValue<Value: Sendable>: Sendable {
    private struct State {
        var current: Value
        var isOver = false
        var readers: [Int: AsyncStream<Value>.Continuation] = [:]
        var count = 0
    }

    private let state: Mutex<State>
    private let idle: (@Sendable () -> Void)?

    /// - Parameter idle: called when the last reader has left, which another may follow at once. Default `nil`.
    init(_ value: Value, idle: (@Sendable () -> Void)? = nil) {
        state = Mutex(State(current: value))
        self.idle = idle
    }

    /// Whether anybody reads.
    var hasReaders: Bool { state.withLock { !$0.readers.isEmpty } }

    var current: Value { state.withLock(\.current) }

    /// Changes the value; nothing happens after ``finish(_:)``.
    func send(_ value: Value) {
        // Under the lock, so that readers get the values in their order; they take them elsewhere.
        state.withLock { state in
            guard !state.isOver else { return }
            state.current = value
            for reader in state.readers.values { reader.yield(value) }
        }
    }

    /// The last value; readers end after it, `nil` for at once.
    func finish(_ value: Value? = nil) {
        let readers = state.withLock { state -> [AsyncStream<Value>.Continuation] in
            guard !state.isOver else { return [] }
            state.isOver = true
            if let value {
                state.current = value
                for reader in state.readers.values { reader.yield(value) }
            }
            defer { state.readers = [:] }
            return Array(state.readers.values)
        }
        for reader in readers { reader.finish() }
    }

    /// The values from now on, the current one first.
    func values() -> AsyncStream<Value> {
        let (stream, reader) = AsyncStream<Value>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state -> Int? in
            reader.yield(state.current)
            guard !state.isOver else { return nil }
            state.count += 1
            state.readers[state.count] = reader
            return state.count
        }
        guard let number else {
            reader.finish()
            return stream
        }
        reader.onTermination = { [weak self] _ in self?.forget(number) }
        return stream
    }

    private func forget(_ number: Int) {
        let (reader, isLast) = state.withLock { state in
            let reader = state.readers.removeValue(forKey: number)
            return (reader, reader != nil && state.readers.isEmpty)
        }
        _ = reader  // let go of outside the lock
        if isLast { idle?() }
    }
}
