import Synchronization

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

    init(_ value: Value) { state = Mutex(State(current: value)) }

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

    /// The last value; readers end after it.
    func finish(_ value: Value) {
        let readers = state.withLock { state -> [AsyncStream<Value>.Continuation] in
            guard !state.isOver else { return [] }
            state.current = value
            state.isOver = true
            for reader in state.readers.values { reader.yield(value) }
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
        let reader = state.withLock { $0.readers.removeValue(forKey: number) }
        _ = reader  // let go of outside the lock
    }
}
