public import HTTPCore
import LATClient
import Platform

/// The handle of a download, with its progress and result, to pause, resume or cancel it.
///
/// ```swift
/// let download = central.download(url, to: "/tmp/big.iso", segments: 4)        // starts at once
/// for await progress in download.progress { print(progress.completed, progress.total ?? 0) }
/// let file = try await download.value
/// ```
///
/// Received bytes are kept beside the target, in a `.part` file with a journal. When the same download is started again
/// after a pause, an error, a crash or `kill -9`, it continues with the missing bytes, once the server has confirmed by
/// a strong validator that the content is unchanged. The target itself appears only when it is complete.
///
/// Releasing the handle does not stop a running download. It ends a paused one, whose progress is kept.
public final class Download: CallHandle {
    /// The requested URL.
    public let url: String

    /// A name that is unique among the calls of the process.
    public var key: String { call.key }

    /// The identity of the content, with which a later download finds the received bytes.
    let identity: String
    private let control: DownloadControl
    private let latest = LatestValue(TransferProgress(direction: .download))
    private let outcome = SharedResult<DownloadedFile>()
    private let call: Call

    /// - Parameters:
    ///   - call: The call of the download. Cancelling it ends the download and keeps the received bytes.
    ///   - observe: Called with the result.
    ///   - end: Called with the result after `observe` has returned, before any waiter gets it.
    init(
        _ order: DownloadOrder, _ call: Call,
        observe: @escaping @Sendable (Result<DownloadedFile, NetworkError>) async -> Void,
        end: @escaping @Sendable (Result<DownloadedFile, NetworkError>) -> Void
    ) {
        url = order.request.url
        identity = order.identity
        self.call = call
        let control = DownloadControl(startsPaused: order.options.startsPaused, isInterruptible: order.mayUseRanges)
        self.control = control
        let wait = CallWait(call) { state in
            if state.isCancelled { control.set(.cancel(keepsProgress: true)) }
        }
        Task.detached(executorPreference: TransferExecutor.shared) { [control, latest, outcome] in
            var last: TransferProgress?
            let result: Result<DownloadedFile, NetworkError>
            do {
                result = .success(try await Self.file(order, control, latest, &last))
            } catch let error as NetworkError {
                // The error of a call that missed its deadline says so.
                result = .failure(call.failure(error.attaching(order.request)))
            } catch {
                result = .failure(
                    NetworkError(.other, message: "\(error)", request: order.request, underlying: error))
            }
            control.finish()
            await observe(result)
            outcome.settle(result.mapError { $0 }) {
                wait.end()
                end(result)
                latest.finish(last ?? latest.current)
            }
        }
    }

    deinit {
        if control.intent == .pause { control.set(.cancel(keepsProgress: true)) }
    }

    // MARK: State

    /// The progress from now on: the current value, then changes, at most ten a second, and at last the final value. The
    /// sequence ends with the download. Any number of tasks may read it.
    ///
    /// After a download has started over, the number of bytes stays the same until as many have been received again.
    public var progress: some AsyncSequence<TransferProgress, Never> & Sendable { ProgressUpdates(latest) }

    /// The progress now.
    public var currentProgress: TransferProgress { latest.current }

    /// The state now.
    public var state: RequestTask.State { RequestTask.State(outcome.result, isPaused: control.intent == .pause) }

    /// Whether a later download could continue with the received bytes: `false` for other methods than GET, for sealed
    /// replies, and for servers without ranges or without a strong validator. Before the server has answered, it counts as
    /// one that has both.
    public var isResumable: Bool { control.isInterruptible }

    /// The complete file. Any number of tasks may wait for it; cancelling one of them ends only its waiting.
    ///
    /// - Throws: ``NetworkError``: ``NetworkError/Kind/httpStatus`` for a status without content to save,
    ///   ``NetworkError/Kind/storage``, ``NetworkError/Kind/integrity``, ``NetworkError/Kind/cancelled`` after
    ///   ``cancel(keepingProgress:)``, and any other error of a request. `CancellationError` if the current task is
    ///   cancelled.
    public var value: DownloadedFile {
        get async throws {
            try await outcome.value()
        }
    }

    // MARK: Control

    /// Pauses the download. If it is resumable, its connections are closed and the journal is written. Otherwise its
    /// connection stays open without being read, for as long as the server tolerates that.
    public func pause() { control.set(.pause) }

    /// Resumes the download.
    public func resume() { control.set(.run) }

    /// Ends the download and removes the received bytes. Has no effect once it has ended.
    public func cancel() { cancel(keepingProgress: false) }

    /// Ends the download with ``NetworkError/Kind/cancelled``. Has no effect once it has ended.
    ///
    /// - Parameter keepingProgress: Whether received bytes are kept beside the target, for a later download of the same
    ///   URL to the same path.
    public func cancel(keepingProgress: Bool) { control.set(.cancel(keepsProgress: keepingProgress)) }

    // MARK: Internal

    private static func file(
        _ order: DownloadOrder, _ control: DownloadControl, _ latest: LatestValue<TransferProgress>,
        _ last: inout TransferProgress?
    ) async throws -> DownloadedFile {
        try order.check()
        let target = try DownloadTarget(order.path, url: order.request.url, identity: order.identity)
        if target.name != nil, try target.isKept(order.options, serverName: nil) {
            let file = DownloadJob.skipped(
                target.path(serverName: nil), target.shownPath(serverName: nil), order)
            last = TransferProgress(direction: .download, completed: file.byteCount, total: file.byteCount)
            return file
        }
        let job = try DownloadJob(order, target: target, control: control, progress: latest)
        defer { last = job.finalProgress }
        return try await job.run()
    }
}
