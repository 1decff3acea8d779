import HTTPCore

extension CentralRequestManager {
    /// Cancels the calls that are under way now and meant by a selection, in whatever form they were started: with
    /// closures or `await`, as streams, entities, uploads or downloads.
    ///
    /// ```swift
    /// manager.cancelRequests(.tag("feed"))
    /// ```
    ///
    /// A call ends at once, wherever it waits: for a connection, the transfer, its repetition, the network, a token, a
    /// provider, a barrier, a limit, the answer to an equal request, or the queue of callbacks. Calls in closure form get
    /// their failure of kind ``NetworkError/Kind/cancelled``, asynchronous ones throw it; `CancellationError` is thrown
    /// only where the Swift task was cancelled. A streamed body ends with it; a download keeps what has come. A call that
    /// stands in an interceptor of the app ends when that returns. Calls that begin later are not touched. Returns at
    /// once.
    ///
    /// - Returns: how many calls were told.
    @discardableResult
    public func cancelRequests(_ selection: RequestSelection) -> Int { calls.cancel(kind(of: selection)) }

    /// How many calls are under way that are meant by a selection.
    public func runningRequests(_ selection: RequestSelection = .all) -> Int { calls.count(kind(of: selection)) }

    /// What happens to this manager's calls, as it happens.
    public var events: CallEvents { CallEvents(hub) }

    private func kind(of selection: RequestSelection) -> RequestSelection.Kind {
        guard case .url(let url) = selection.kind else { return selection.kind }
        return .url(RequestBuilder.absoluteURL(url, base: baseURL))
    }
}
