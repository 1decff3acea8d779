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
    private let call = RequestTask()
    private let monitor: UploadMonitor
    private let work: Task<Value, any Error>

    /// Starts an upload whose parts are metered by the monitor.
    init(_ monitor: UploadMonitor, _ send: @escaping @Sendable (RequestTask) async throws -> Value) {
        self.monitor = monitor
        let work = Task { [call] in
            do {
                try Task.checkCancellation()
                let value = try await send(call)
                call.finish()
                monitor.finish(isSuccess: true)
                call.control.takeEnding()?()
                return value
            } catch {
                let error = NetworkError(ending: error, call.request)
                call.finish()
                monitor.finish(isSuccess: false)
                call.control.takeEnding()?()
                throw error
            }
        }
        self.work = work
        call.start {
            await withTaskCancellationHandler {
                _ = await work.result
            } onCancel: {
                work.cancel()
            }
        }
    }

    /// Names the upload among all calls of the process.
    public var key: String { call.key }

    /// How far the upload is, as it goes on. The sequence ends with the upload.
    public var progress: UploadUpdates { UploadUpdates(monitor: monitor) }

    /// How far the upload is now.
    public var currentProgress: UploadProgress { monitor.snapshot.progress }

    /// The answer, once it is there. A task that waits for it may be cancelled without harm to the upload.
    ///
    /// - Throws: ``NetworkError``; of kind ``NetworkError/Kind/requestBody`` for a file that is missing, cannot be read
    ///   or is a directory (then nothing was sent), or that changes its size while it is sent;
    ///   ``NetworkError/Kind/cancelled`` after ``cancel()``.
    public var value: Value {
        get async throws { try await work.value }
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
