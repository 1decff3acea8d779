import Dispatch
import HTTPCore
import Synchronization

/// A download as it was requested, and the means to run it.
struct DownloadOrder: Sendable {
    /// The request without `Range` and `If-Range`.
    var request: HTTPRequest
    /// The target: a file or a folder.
    var path: String
    var segments: Int
    var options: DownloadOptions
    /// Why the request could not be made; the download fails with it.
    var failure: NetworkError?
    /// The number of retries after a body that breaks off, if the request sets none.
    var retries: Int
    /// The limit of connections per host for other requests.
    var maxConnectionsPerHost: Int
    /// Whether the content is sealed. A sealed reply is one message, bound to its request, which is opened as a whole.
    var isSealed = false
    /// Whether the resolver wants the download to continue after a failure, given how often it already did.
    var isReplayed: @Sendable (NetworkError, Int) async throws -> Bool
    /// Sends a request through the manager's corridor.
    var send: @Sendable (HTTPRequest) async throws -> HTTPResponse

    /// The identity of the content in the journal.
    var identity: String { options.identity ?? request.url }

    /// Whether parts of the content may be requested: only GET defines `Range` (RFC 9110 §14.2).
    var mayUseRanges: Bool { request.method == .get && !isSealed }

    /// - Throws: ``NetworkError/Kind/invalidRequest``.
    func check() throws(NetworkError) {
        if let failure { throw failure }
        try options.digest?.check()
        guard segments >= 1 else {
            throw .invalidRequest("a download needs at least 1 segment, not \(segments); set segments to 1 or more")
        }
        for name in ["Range", "If-Range"] where request.headers.contains(name) {
            throw .invalidRequest("a download sets \(name) itself; leave it out, or use stream() for a part")
        }
        guard request.method != .head else {
            throw .invalidRequest("HEAD has no content to download; use GET")
        }
    }

    /// The request for a part or the whole.
    func request(for ask: ContentRequest, url: String) -> HTTPRequest {
        var request = request
        request.url = url
        request.streamsBody = true
        request.cachePolicy = .networkOnly
        // Parts of an encoded body cannot be joined, and its decoded length is unknown in advance.
        request.decompresses = false
        if request.headers["Accept-Encoding"] == nil { request.headers["Accept-Encoding"] = "identity" }
        if segments > 1 {
            request.maxConnectionsPerHost = max(request.maxConnectionsPerHost ?? maxConnectionsPerHost, segments)
        }
        ask.apply(to: &request.headers)
        return request
    }
}

/// Runs the tasks that write files on threads of their own, so that a slow disk blocks neither the engine nor other
/// tasks of the process.
final class TransferExecutor: TaskExecutor {
    static let shared = TransferExecutor()

    private let queue = DispatchQueue(label: "LATNetworking.transfers", attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// The current URL of a download, and the one renewal that all its connections share.
final class URLRenewal: Sendable {
    /// A URL and the number of renewals before it.
    struct Link: Sendable {
        let url: String
        let generation: Int
    }

    private struct State {
        var link: Link
        var renewal: Task<Link, any Error>?
        /// Whether bytes have been received since the last renewal.
        var hasReceivedBytes = true
    }

    private let state: Mutex<State>
    private let refresh: LinkRefresh?

    init(url: String, refresh: LinkRefresh?) {
        state = Mutex(State(link: Link(url: url, generation: 0)))
        self.refresh = refresh
    }

    var link: Link { state.withLock(\.link) }

    /// Records that bytes were received, so that the URL may be renewed again.
    func noteReceivedBytes() {
        state.withLock { state in
            if !state.hasReceivedBytes { state.hasReceivedBytes = true }
        }
    }

    /// Whether another URL may help after this status.
    static func mayHelp(_ status: Int) -> Bool { [401, 403, 404, 410].contains(status) }

    /// Returns another URL in place of one that was refused.
    ///
    /// - Returns: `nil` if there is none.
    /// - Throws: ``NetworkError/Kind/provider`` with the error of the hook; `CancellationError` if the download was
    ///   paused or cancelled during the renewal.
    func renew(_ refused: Link, _ refusal: NetworkError) async throws -> Link? {
        guard let refresh else { return nil }
        let renewal = state.withLock { state -> Task<Link, any Error>? in
            if state.link.generation > refused.generation {
                let link = state.link
                return Task { link }
            }
            if let renewal = state.renewal { return renewal }
            guard state.hasReceivedBytes else { return nil }
            state.hasReceivedBytes = false
            // The hook is the app's code, so it does not run on the threads that write files.
            let renewal = Task.detached { [self] in
                do {
                    let link = Link(url: try await refresh(refusal), generation: refused.generation + 1)
                    settle(link)
                    return link
                } catch {
                    // A hook may throw anything when it is cancelled. The next session asks it again.
                    guard !Task.isCancelled else {
                        settle(nil, isCancelled: true)
                        throw CancellationError()
                    }
                    settle(nil)
                    throw NetworkError(
                        .provider, message: "refreshURL threw: \(error); received bytes are kept",
                        request: refusal.request, response: refusal.response, underlying: error)
                }
            }
            state.renewal = renewal
            return renewal
        }
        guard let renewal else { return nil }
        return try await withTaskCancellationHandler {
            try await renewal.value
        } onCancel: {
            renewal.cancel()
        }
    }

    private func settle(_ link: Link?, isCancelled: Bool = false) {
        state.withLock { state in
            if let link { state.link = link }
            if isCancelled { state.hasReceivedBytes = true }
            state.renewal = nil
        }
    }
}
