import HTTPCore
import Platform

/// A download under way: tells how far it is, holds it, lets it go on, ends it.
///
/// ```swift
/// let download = central.download(url, to: "/tmp/big.iso", segments: 4)        // starts at once
/// for await progress in download.progress { print(progress.completed, progress.total ?? 0) }
/// let file = try await download.value
/// ```
///
/// What has come lies beside the target, in a `.part` file with a journal. When the same download is started again, after
/// a pause, an error, a crash or `kill -9`, it goes on from there, as soon as the server has confirmed by a strong
/// validator that the content is still the same. The target itself appears at once and whole.
///
/// It goes on when this value is let go of; a paused one, which nobody could resume any more, ends and keeps its progress.
public final class Download: Sendable {
    /// What a download does.
    public enum State: String, Hashable, Sendable {
        /// It goes on, or is about to.
        case running
        /// It stands still until ``Download/resume()``.
        case paused
        /// The file is there.
        case finished
        /// It ended with an error; what is there is kept where it can be gone on with.
        case failed
        /// It was cancelled.
        case cancelled
    }

    /// The URL it was asked for.
    public let url: String

    /// Names the download among all calls of the process.
    public var key: String { call.key }

    private let control: DownloadControl
    private let board = LatestValue(DownloadProgress())
    private let outcome = Outcome<DownloadedFile>()
    private let call: Call

    /// - Parameters:
    ///   - call: the call that the download is; its cancellation ends it and keeps what has come.
    ///   - end: told of the end, before those who wait are.
    init(
        _ order: DownloadOrder, _ call: Call,
        _ end: @escaping @Sendable (Result<DownloadedFile, NetworkError>) -> Void
    ) {
        url = order.request.url
        self.call = call
        let control = DownloadControl(startsPaused: order.options.startsPaused, isInterruptible: order.mayUseRanges)
        self.control = control
        let wait = CallWait(call) { standing in
            if standing.isCancelled { control.set(.cancel(keepsProgress: true)) }
        }
        Task.detached(executorPreference: TransferExecutor.shared) { [control, board, outcome] in
            await Self.run(order, control, board, outcome) { result in
                wait.end()
                end(result)
            }
        }
    }

    deinit {
        if control.wish == .pause { control.set(.cancel(keepsProgress: true)) }
    }

    // MARK: Looking

    /// How far it is, from now on: the current value first, then changes, last the final value. It ends with the download,
    /// however that ends. Any number of readers.
    public var progress: DownloadProgressUpdates { DownloadProgressUpdates(source: board) }

    /// How far it is now.
    public var currentProgress: DownloadProgress { board.current }

    /// What it does now.
    public var state: State {
        switch outcome.result {
        case .success: .finished
        case .failure(let error): (error as? NetworkError)?.kind == .cancelled ? .cancelled : .failed
        case nil: control.wish == .pause ? .paused : .running
        }
    }

    /// Whether what has come could be gone on with later: `false` for other methods than GET, and for servers without
    /// ranges or without a strong validator. `true` until the server has answered a GET.
    public var isResumable: Bool { control.isInterruptible }

    /// The file, once it is there. Any number of tasks may wait for it; it goes on when one of them is cancelled.
    ///
    /// - Throws: ``NetworkError``: ``NetworkError/Kind/httpStatus`` for any status but those that bring content,
    ///   ``NetworkError/Kind/storage``, ``NetworkError/Kind/integrity``, ``NetworkError/Kind/cancelled`` after
    ///   ``cancel(keepingProgress:)``, and what else a request ends with. `CancellationError` when the current task was
    ///   cancelled.
    public var value: DownloadedFile {
        get async throws {
            try await outcome.value()
        }
    }

    // MARK: Steering

    /// Holds it. Where it can be gone on with later its connections are closed and the journal is written; else the
    /// connection is kept and nothing is read from it, for as long as the server puts up with that.
    public func pause() { control.set(.pause) }

    /// Lets it go on.
    public func resume() { control.set(.run) }

    /// Ends it with ``NetworkError/Kind/cancelled``. Once it is over this does nothing.
    ///
    /// - Parameter keepingProgress: whether what has come stays beside the target, for a later download of the same URL
    ///   to the same place. Default `false`: it is removed.
    public func cancel(keepingProgress: Bool = false) { control.set(.cancel(keepsProgress: keepingProgress)) }

    // MARK: Inside

    private static func run(
        _ order: DownloadOrder, _ control: DownloadControl, _ board: LatestValue<DownloadProgress>,
        _ outcome: Outcome<DownloadedFile>, _ end: (Result<DownloadedFile, NetworkError>) -> Void
    ) async {
        var last: DownloadProgress?
        let result: Result<DownloadedFile, NetworkError>
        do {
            result = .success(try await file(order, control, board, &last))
        } catch let error as NetworkError {
            result = .failure(error.attaching(order.request))
        } catch {
            result = .failure(
                NetworkError(.other, message: "\(error)", request: order.request, underlying: error))
        }
        control.finish()
        outcome.settle(result.mapError { $0 }) {
            end(result)
            board.finish(last ?? board.current)
        }
    }

    private static func file(
        _ order: DownloadOrder, _ control: DownloadControl, _ board: LatestValue<DownloadProgress>,
        _ last: inout DownloadProgress?
    ) async throws -> DownloadedFile {
        try order.check()
        let target = try DownloadTarget(order.path, url: order.request.url, identity: order.identity)
        if target.name != nil, try ExistingFile.isKept(at: target.path(serverName: nil), order.options) {
            let file = DownloadJob.skipped(
                target.path(serverName: nil), target.shownPath(serverName: nil), order.request.url,
                digest: order.options.digest?.hexadecimal.lowercased())
            last = DownloadProgress(completed: file.byteCount, total: file.byteCount)
            return file
        }
        let job = try DownloadJob(order, target: target, control: control, progress: board)
        defer { last = job.finalProgress }
        return try await job.run()
    }
}
