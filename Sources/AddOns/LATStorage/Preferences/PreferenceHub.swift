import HTTPCore
import Platform
import Synchronization

/// The observers of changes of preferences.
final class PreferenceHub: Sendable {
    private struct Observer {
        let name: String
        var last: JSONValue?
        let body: @Sendable () -> Void
        /// Called when no more values will come.
        let end: @Sendable () -> Void
        /// Whether the body runs, and whether there was a change since it began.
        var isRunning = false
        var hasChanged = false
    }

    private struct State {
        var next = 0
        var observers: [Int: Observer] = [:]
        var watch: FolderWatch?
        /// How many observers are about to be added.
        var coming = 0
    }

    private let state = Mutex(State())

    var needsWatch: Bool { state.withLock { $0.watch == nil } }

    /// Keeps the watch for the observer that the caller adds next.
    func prepare() { state.withLock { $0.coming += 1 } }

    func start(_ watch: FolderWatch?) {
        let surplus = state.withLock { state -> FolderWatch? in
            if state.watch != nil { return watch }
            state.watch = watch
            return nil
        }
        surplus?.end()
    }

    /// Adds an observer, after a call of ``prepare()``.
    func add(
        _ name: String, current: JSONValue?, end: @escaping @Sendable () -> Void, _ body: @escaping @Sendable () -> Void
    ) -> Int {
        state.withLock { state in
            state.coming -= 1
            state.next += 1
            state.observers[state.next] = Observer(name: name, last: current, body: body, end: end)
            return state.next
        }
    }

    func remove(_ number: Int) {
        let watch = state.withLock { state -> FolderWatch? in
            state.observers[number] = nil
            guard state.observers.isEmpty, state.coming == 0 else { return nil }
            defer { state.watch = nil }
            return state.watch
        }
        watch?.end()
    }

    /// Calls the observers whose value differs from the last one they received.
    ///
    /// - Parameter current: returns the values. It is called under the lock, so that reports do not overlap.
    func report(_ current: () -> [String: JSONValue]) {
        let numbers = state.withLock { state in
            let values = current()
            return state.observers.compactMap { number, observer -> Int? in
                guard observer.last != values[observer.name] else { return nil }
                state.observers[number]?.last = values[observer.name]
                return number
            }
        }
        for number in numbers { call(number) }
    }

    /// Calls an observer, which reads the value itself. Calls do not overlap, so that the last one has the newest value: a call
    /// that comes during another one is made after it, by the same thread.
    func call(_ number: Int) {
        while true {
            let body = state.withLock { state -> (@Sendable () -> Void)? in
                guard let observer = state.observers[number] else { return nil }
                state.observers[number]?.hasChanged = observer.isRunning
                state.observers[number]?.isRunning = true
                return observer.isRunning ? nil : observer.body
            }
            guard let body else { return }
            body()
            let hasChanged = state.withLock { state in
                state.observers[number]?.isRunning = false
                return state.observers[number]?.hasChanged ?? false
            }
            guard hasChanged else { return }
        }
    }

    func end() {
        let (watch, observers) = state.withLock { state in
            defer { (state.watch, state.observers) = (nil, [:]) }
            return (state.watch, state.observers)
        }
        watch?.end()
        for observer in observers.values { observer.end() }
    }
}

/// An observation of ``Preferences``. It ends when it is cancelled or released.
public final class PreferenceObservation: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    /// Ends the observation. A call that is under way runs to its end.
    public func cancel() { end() }
}
