import HTTPCore
import Synchronization

/// An upload under way: tells how far it is, gives its answer, and is held or cancelled.
///
/// ```swift
/// let upload = manager.upload(url, files: [UploadFile(name: "doc", path: "/tmp/report.pdf")])
/// for await progress in upload.progress { print(progress.fraction ?? 0, progress.bytesPerSecond ?? 0) }
/// let response = try await upload.value
/// ```
///
/// The upload goes on when the task is let go of.
public final class UploadTask<Value: Sendable>: Sendable {
    private let call: RequestTask
    private let monitor: UploadMonitor
    private let outcome: Outcome<Value>

    /// Starts an upload whose parts are metered by the monitor.
    ///
    /// - Parameter start: starts the call and says how it ended.
    init(
        _ monitor: UploadMonitor,
        _ start: (_ end: @escaping @Sendable (Result<Value, NetworkError>) -> Void) -> RequestTask
    ) {
        let outcome = Outcome<Value>()
        self.monitor = monitor
        self.outcome = outcome
        call = start { result in
            let isSuccess = if case .success = result { true } else { false }
            outcome.settle(result.mapError { $0 }) { monitor.finish(isSuccess: isSuccess) }
        }
    }

    /// Names the upload among all calls of the process.
    public var key: String { call.key }

    /// How far the upload is, as it goes on. The sequence ends with the upload.
    public var progress: UploadUpdates { UploadUpdates(monitor: monitor) }

    /// How far the upload is now.
    public var currentProgress: UploadProgress { monitor.snapshot.progress }

    /// The answer, once it is there. Any number of tasks may wait for it; the upload goes on when one of them is
    /// cancelled.
    ///
    /// - Throws: ``NetworkError``; of kind ``NetworkError/Kind/requestBody`` for a file that is missing, cannot be read
    ///   or is a directory (then nothing was sent), or that changes its size while it is sent;
    ///   ``NetworkError/Kind/cancelled`` after ``cancel()``. `CancellationError` when the current task was cancelled.
    public var value: Value {
        get async throws { try await outcome.value() }
    }

    /// Ends the upload and closes its transfer, wherever it is. Once it is over this does nothing.
    public func cancel() { call.cancel() }

    /// Holds the upload: what runs stands still with its connection, what waits does not start.
    public func suspend() { call.suspend() }

    /// Lets a suspended upload go on.
    public func resume() { call.resume() }

    /// Whether ``cancel()`` was called.
    public var isCancelled: Bool { call.isCancelled }
}
