import Platform
import Synchronization

@testable import LATClient

/// A clock that stands still until a test advances it.
final class VirtualClock: Sendable {
    private struct Sleeper {
        let id: Int
        let end: Duration
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Duration.zero
        var sleepers: [Sleeper] = []
        var cancelled: Set<Int> = []
        var ids = 0
        var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    var now: Duration { state.withLock(\.now) }

    var sleeperCount: Int { state.withLock(\.sleepers.count) }

    /// The clock in the form that interceptors and stages take.
    var callClock: CallClock { CallClock(now: { self.now }, sleep: { try await self.sleep($0) }) }

    func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.now += duration
            let due = state.sleepers.filter { $0.end <= state.now }
            state.sleepers.removeAll { $0.end <= state.now }
            return due
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    /// Returns when `count` tasks are sleeping.
    func waitForSleepers(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.sleepers.count < count { state.watchers.append((count, continuation)) }
                return state.sleepers.count >= count
            }
            if isThere { continuation.resume() }
        }
    }

    private func sleep(_ duration: Duration) async throws {
        let id = state.withLock { state in
            state.ids += 1
            return state.ids
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in add(id, duration, continuation) }
        } onCancel: {
            cancel(id)
        }
    }

    private func add(_ id: Int, _ duration: Duration, _ continuation: CheckedContinuation<Void, any Error>) {
        let (isCancelled, watchers) = state.withLock { state in
            if state.cancelled.remove(id) != nil { return (true, [CheckedContinuation<Void, Never>]()) }
            state.sleepers.append(Sleeper(id: id, end: state.now + duration, continuation: continuation))
            let count = state.sleepers.count
            let due = state.watchers.filter { $0.count <= count }.map(\.continuation)
            state.watchers.removeAll { $0.count <= count }
            return (false, due)
        }
        if isCancelled { continuation.resume(throwing: CancellationError()) }
        for watcher in watchers { watcher.resume() }
    }

    private func cancel(_ id: Int) {
        let sleeper = state.withLock { state -> Sleeper? in
            guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else {
                state.cancelled.insert(id)
                return nil
            }
            return state.sleepers.remove(at: index)
        }
        sleeper?.continuation.resume(throwing: CancellationError())
    }
}
