import HTTPCore
import Synchronization

/// How a download ends, and who waits for that.
final class DownloadOutcome: Sendable {
    private struct State {
        var result: Result<DownloadedFile, NetworkError>?
        var waiters: [Int: CheckedContinuation<DownloadedFile, any Error>] = [:]
        var count = 0
    }

    private let state = Mutex(State())

    /// `nil` while it goes on.
    var result: Result<DownloadedFile, NetworkError>? { state.withLock(\.result) }

    /// The download is over: `finish` is done before anybody hears of it who waits.
    func settle(_ result: Result<DownloadedFile, NetworkError>, finish: () -> Void) {
        let waiters = state.withLock { state in
            state.result = result
            defer { state.waiters = [:] }
            return state.waiters.values
        }
        finish()
        for waiter in waiters { waiter.resume(with: result.mapError { $0 }) }
    }

    /// - Throws: what the download ends with; `CancellationError` when the current task was cancelled.
    func wait() async throws -> DownloadedFile {
        let number = state.withLock { state in
            state.count += 1
            return state.count
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<DownloadedFile, any Error>? in
                    if let result = state.result { return result.mapError { $0 } }
                    if Task.isCancelled { return .failure(CancellationError()) }
                    state.waiters[number] = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
            waiter?.resume(throwing: CancellationError())
        }
    }
}
