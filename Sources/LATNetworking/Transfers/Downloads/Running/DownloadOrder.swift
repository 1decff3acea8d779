import Dispatch
import HTTPCore
import Synchronization

/// What a download is asked to do, and what it does it with.
struct DownloadOrder: Sendable {
    /// What is sent, without `Range` and the like.
    var request: HTTPRequest
    /// A file, or a folder.
    var path: String
    var segments: Int
    var options: DownloadOptions
    /// How often a body that breaks off is gone on with, when the request does not say.
    var retries: Int
    /// The connections to one host that ordinary requests may have.
    var maxConnectionsPerHost: Int
    /// The way to the server: the manager's corridor.
    var send: @Sendable (HTTPRequest) async throws -> HTTPResponse

    /// What names the content in the journal.
    var identity: String { options.identity ?? request.url }

    /// Whether parts of the content may be asked for: only GET has `Range` (RFC 9110 §14.2).
    var mayUseRanges: Bool { request.method == .get }

    /// - Throws: ``NetworkError/Kind/invalidRequest``.
    func check() throws(NetworkError) {
        try options.digest?.check()
        guard segments >= 1 else {
            throw .invalidRequest("a download of \(segments) segments has no connection; ask for 1 or more")
        }
        for name in ["Range", "If-Range"] where request.headers.contains(name) {
            throw .invalidRequest("a download sets \(name) itself; leave it out, or use stream() for a part")
        }
        guard request.method != .head else {
            throw .invalidRequest("HEAD has no content to download; use GET")
        }
    }

    /// The request for an ask.
    func request(for ask: ContentAsk, url: String) -> HTTPRequest {
        var request = request
        request.url = url
        request.streamsBody = true
        request.cachePolicy = .networkOnly
        // Parts of a coded body cannot be put together, nor its length be told beforehand.
        request.decompresses = false
        if request.headers["Accept-Encoding"] == nil { request.headers["Accept-Encoding"] = "identity" }
        if segments > 1 {
            request.maxConnectionsPerHost = max(request.maxConnectionsPerHost ?? maxConnectionsPerHost, segments)
        }
        ask.apply(to: &request.headers)
        return request
    }
}

/// Runs the tasks that write files on threads of their own, so that a slow disk holds up neither the engine nor the
/// program's other tasks.
final class TransferExecutor: TaskExecutor {
    static let shared = TransferExecutor()

    private let queue = DispatchQueue(label: "LATNetworking.transfers", attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// The present URL of a download, and the one request for another that all its connections share.
final class LinkKeeper: Sendable {
    /// A URL, and which one in a row it is.
    struct Link: Sendable {
        let url: String
        let generation: Int
    }

    private struct State {
        var link: Link
        var renewal: Task<Link, any Error>?
        /// Whether bytes have come since the last renewal.
        var hasProven = true
    }

    private let state: Mutex<State>
    private let refresh: LinkRefresh?

    init(url: String, refresh: LinkRefresh?) {
        state = Mutex(State(link: Link(url: url, generation: 0)))
        self.refresh = refresh
    }

    var link: Link { state.withLock(\.link) }

    /// Bytes have come: another URL may be asked for when this one is refused.
    func prove() {
        state.withLock { state in
            if !state.hasProven { state.hasProven = true }
        }
    }

    /// Whether a refusal may be helped by another URL.
    static func mayHelp(_ status: Int) -> Bool { [401, 403, 404, 410].contains(status) }

    /// Another URL in place of one that was refused.
    ///
    /// - Returns: `nil` when there is none to be had.
    /// - Throws: ``NetworkError/Kind/provider`` with what the hook threw.
    func renew(_ refused: Link, _ refusal: NetworkError) async throws -> Link? {
        guard let refresh else { return nil }
        let renewal = state.withLock { state -> Task<Link, any Error>? in
            if state.link.generation > refused.generation {
                let link = state.link
                return Task { link }
            }
            if let renewal = state.renewal { return renewal }
            guard state.hasProven else { return nil }
            state.hasProven = false
            // Not on the threads that write files: it is the app's code.
            let renewal = Task.detached { [self] in
                do {
                    let link = Link(url: try await refresh(refusal), generation: refused.generation + 1)
                    settle(link)
                    return link
                } catch {
                    settle(nil)
                    throw NetworkError(
                        .provider, message: "the hook for a new link threw: \(error); what is there is kept",
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

    private func settle(_ link: Link?) {
        state.withLock { state in
            if let link { state.link = link }
            state.renewal = nil
        }
    }
}
