import Synchronization

/// Passes events on to any number of readers; each gets all of them from when it began, in their order.
final class EventHub<Event: Sendable>: Sendable {
    private struct State {
        var readers: [Int: AsyncStream<Event>.Continuation] = [:]
        var count = 0
        var isOver = false
    }

    private let state = Mutex(State())

    func events() -> AsyncStream<Event> {
        let (stream, reader) = AsyncStream<Event>.makeStream(bufferingPolicy: .unbounded)
        let number = state.withLock { state -> Int? in
            guard !state.isOver else { return nil }
            state.count += 1
            state.readers[state.count] = reader
            return state.count
        }
        guard let number else {
            reader.finish()
            return stream
        }
        reader.onTermination = { [weak self] _ in
            let reader = self?.state.withLock { $0.readers.removeValue(forKey: number) }
            _ = reader  // let go of outside the lock
        }
        return stream
    }

    func send(_ event: Event) {
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
}
