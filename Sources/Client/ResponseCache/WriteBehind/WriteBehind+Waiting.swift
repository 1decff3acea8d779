import Dispatch
import HTTPCore

// Waits for changes and refreshes, also when the process ends.
extension WriteBehind {
    /// Returns when the store has tried all changes requested so far.
    package func settle() async {
        if state.withLock({ $0.pending.hasFailedRemovals }) { retryFailedRemovals() }
        await settle(nil)
    }

    /// Returns when these changes have ended; with `nil`, all that are unfinished now.
    func settle(_ numbers: Set<UInt64>?) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                let unfinished =
                    numbers?.intersection(state.pending.unfinished.union(state.pending.refreshes))
                    ?? state.pending.unfinished
                if !unfinished.isEmpty { state.waiters.append((unfinished, continuation)) }
                return unfinished.isEmpty
            }
            if isDone { continuation.resume() }
        }
    }

    /// Returns when the store has tried all changes requested so far, or at the limit.
    package func settle(within limit: Duration) async {
        _ = try? await limiter.run(within: limit) { await self.settle() }
    }

    /// Waits up to a second for refreshes and writes, so that a program that makes one request and exits has its response
    /// stored.
    package func processWillExit() {
        let refreshes = state.withLock(\.pending.refreshes)
        guard !isIdle.load(ordering: .acquiring) || !refreshes.isEmpty else { return }
        let isSettled = DispatchSemaphore(value: 0)
        Task {
            await settle(refreshes)
            await settle()
            isSettled.signal()
        }
        guard isSettled.wait(timeout: .now() + 1) == .timedOut, state.withLock(\.pending.hasRemovals) else { return }
        let message = "the process ended before the store had removed responses that are not valid any more"
        report(NetworkError(.cache, message: message), "remove in time")
    }

    // MARK: Refreshes

    /// Notes that a stored response is being refreshed. The process waits for it when it ends.
    package func beginRefresh() -> UInt64 { state.withLock { $0.pending.beginRefresh() } }

    package func endRefresh(_ number: UInt64) { end { $0.pending.endRefresh(number) } }
}
