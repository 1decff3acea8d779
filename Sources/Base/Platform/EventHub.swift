import Synchronization

// Both types release their lock before they call a stream that a task may wait for, because holding it could deadlock.
// The runtime cancels a task under the task's lock, which ends its streams and takes a lock of these types. In the
// other direction, an element that is passed to a stream takes the lock of the task that waits for it.

/// Sends events to any number of readers. Each gets all events since it started, in order.
package final class EventHub<Event: Sendable>: Sendable {
    private struct State {
        var readers: [Int: AsyncStream<Event>.Continuation] = [:]
        var lastReader = 0
        /// The events that are not yet passed on, each with the newest reader that gets it. A `nil` event is the end.
        var waiting: [(event: Event?, lastReader: Int)] = []
        /// Whether a thread is passing on the waiting events.
        var isPassingOn = false
        var isOver = false

        /// Adds an event, or the end. Returns whether the caller must pass on the waiting events.
        mutating func add(_ event: Event?) -> Bool {
            guard !isOver, event == nil || !readers.isEmpty else { return false }
            isOver = event == nil
            waiting.append((event, lastReader))
            defer { isPassingOn = true }
            return !isPassingOn
        }

        /// The next event, or the end, with its readers; `nil` if there is none.
        mutating func next() -> (event: Event?, readers: [AsyncStream<Event>.Continuation])? {
            guard !waiting.isEmpty else {
                isPassingOn = false
                return nil
            }
            let (event, last) = waiting.removeFirst()
            defer { if event == nil { readers = [:] } }
            return (event, readers.filter { $0.key <= last }.map(\.value))
        }
    }

    private let limit: Int?
    private let state = Mutex(State())
    @usableFromInline let readerCount = Atomic(0)

    /// - Parameter limit: the largest number of events buffered for a reader; beyond it the oldest are dropped. Default
    ///   `nil`: no limit.
    package init(limit: Int? = nil) { self.limit = limit }

    /// Whether there are readers. Takes no lock.
    @inlinable package var isActive: Bool { readerCount.load(ordering: .relaxed) > 0 }

    package func events() -> AsyncStream<Event> {
        let (stream, reader) = AsyncStream<Event>.makeStream(
            bufferingPolicy: limit.map { .bufferingNewest($0) } ?? .unbounded)
        let number = change { state -> Int? in
            guard !state.isOver else { return nil }
            state.lastReader += 1
            state.readers[state.lastReader] = reader
            return state.lastReader
        }
        if let number {
            // The reader is released outside the lock.
            reader.onTermination = { [weak self] _ in _ = self?.change { $0.readers.removeValue(forKey: number) } }
        } else {
            reader.finish()
        }
        return stream
    }

    package func send(_ event: Event) { if change({ $0.add(event) }) { passOn() } }

    /// Ends the readers' streams after the events sent so far.
    package func finish() { if change({ $0.add(nil) }) { passOn() } }

    private func passOn() {
        while let (event, readers) = change({ $0.next() }) {
            for reader in readers {
                if let event { reader.yield(event) } else { reader.finish() }
            }
        }
    }

    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state in
            defer { readerCount.store(state.readers.count, ordering: .relaxed) }
            return body(&state)
        }
    }

    deinit { finish() }
}

/// A changing value with any number of readers. Each reader gets the current value at once and then the latest one
/// whenever it asks.
///
/// A reader that is slower than the changes misses intermediate values, but never the last one.
///
/// A caller that decides under its own lock which value comes next calls ``stage(_:)`` under the lock, which keeps the values
/// in order, and ``deliver()`` after it. Delivering under the lock can deadlock: the cancellation handler of a reader's
/// task may wait for the same lock.
package final class LatestValue<Value: Sendable>: Sendable {
    private struct Reader {
        let stream: AsyncStream<Value>.Continuation
        /// The number of the last change that it has received.
        var change: UInt64
    }

    private struct State {
        var current: Value
        var change: UInt64 = 0
        var readers: [Int: Reader] = [:]
        var lastReader = 0
        /// Whether a thread is delivering changes.
        var isDelivering = false
        var isOver = false

        mutating func set(_ value: Value?, isLast: Bool) {
            guard !isOver else { return }
            if let value {
                current = value
                change += 1
            }
            isOver = isLast
        }

        /// Returns whether the caller must deliver the changes.
        mutating func beginDelivery() -> Bool {
            guard !readers.isEmpty, !isDelivering else { return false }
            isDelivering = true
            return true
        }

        /// The value, with the readers that have not received it. The value is `nil` for the end. The result is `nil` when
        /// everything is delivered.
        mutating func next() -> (value: Value?, readers: [AsyncStream<Value>.Continuation])? {
            let late = readers.filter { $0.value.change < change }
            if !late.isEmpty {
                for number in late.keys { readers[number]?.change = change }
                return (current, late.values.map(\.stream))
            }
            if isOver, !readers.isEmpty {
                defer { readers = [:] }
                return (nil, readers.values.map(\.stream))
            }
            isDelivering = false
            return nil
        }
    }

    private let state: Mutex<State>
    private let idle: (@Sendable () -> Void)?

    /// - Parameter idle: called after the last reader has left, even if a new one comes at once. Default `nil`.
    package init(_ value: Value, idle: (@Sendable () -> Void)? = nil) {
        state = Mutex(State(current: value))
        self.idle = idle
    }

    package var hasReaders: Bool { state.withLock { !$0.readers.isEmpty } }

    package var current: Value { state.withLock(\.current) }

    /// Changes the value. Does nothing after ``finish(_:)``.
    package func send(_ value: Value) {
        stage(value)
        deliver()
    }

    /// Ends the readers' streams, after a last value if one is given.
    package func finish(_ value: Value? = nil) {
        state.withLock { $0.set(value, isLast: true) }
        deliver()
    }

    /// Changes the value. The readers get it with the next ``deliver()``. May be called under a lock.
    package func stage(_ value: Value) { state.withLock { $0.set(value, isLast: false) } }

    /// Passes staged changes on to the readers, unless another thread is already doing so.
    package func deliver() {
        guard state.withLock({ $0.beginDelivery() }) else { return }
        while let (value, readers) = state.withLock({ $0.next() }) {
            for reader in readers {
                if let value { reader.yield(value) } else { reader.finish() }
            }
        }
    }

    /// Returns a stream of the current value and the later ones.
    package func values() -> AsyncStream<Value> {
        let (stream, reader) = AsyncStream<Value>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state -> Int? in
            // Safe under the lock, because no task waits for the new stream yet.
            reader.yield(state.current)
            guard !state.isOver else { return nil }
            state.lastReader += 1
            state.readers[state.lastReader] = Reader(stream: reader, change: state.change)
            return state.lastReader
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
            let reader = state.readers.removeValue(forKey: number)
            return (reader, reader != nil && state.readers.isEmpty)
        }
        _ = reader  // Is released outside the lock.
        if isLast { idle?() }
    }
}
