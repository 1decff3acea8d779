import Cryptography
import Dispatch
import HTTPCore
import LATClient
import Synchronization

/// A download as it was requested, and the means to run it.
struct DownloadOrder: Sendable {
    /// The request without `Range` and `If-Range`.
    var request: HTTPRequest
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
    var send: @Sendable (HTTPRequest) async throws -> HTTPResponse

    /// The identity of the content in the journal, which keeps users apart.
    var identity: String { Self.identity(options, request) }

    static func identity(_ options: DownloadOptions, _ request: HTTPRequest) -> String {
        ([options.identity ?? request.url] + request.transferUser.filter { !$0.isEmpty }).joined(separator: "\n")
    }

    /// Whether parts of the content may be requested: only GET defines `Range` (RFC 9110 §14.2).
    var mayUseRanges: Bool { request.method == .get && !isSealed }

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

    /// Whether the file is compared with the digest that its response announces.
    var checksAnnouncedDigest: Bool { options.digest == nil && request.digests.checks != false }

    /// The digest of the whole content that a response announces (RFC 9530): `Repr-Digest`, or the `Content-Digest` of a whole
    /// response. A coded response announces that of the coded content, which is what is saved.
    func digest(announcedBy response: HTTPResponse, isPart: Bool) -> DownloadOptions.Digest? {
        guard checksAnnouncedDigest else { return nil }
        for name in isPart ? ["Repr-Digest"] : ["Repr-Digest", "Content-Digest"] {
            let digests = RequestOptions.Digests.digests(in: response.headers[values: name])
            let known = [(digests[.sha256], DownloadOptions.Digest.Algorithm.sha256), (digests[.sha512], .sha512)]
            for case (let bytes?, let function) in known {
                let digest = DownloadOptions.Digest(function, MessageDigest.hexadecimal(bytes))
                if (try? digest.check()) != nil { return digest }
            }
        }
        return nil
    }

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
        request.context.judgesParts = true
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
    private struct State {
        /// The URL, and the number of renewals before it.
        var link: (url: String, generation: Int)
        var renewal: Task<Void, any Error>?
        /// Whether bytes have been received since the last renewal.
        var hasReceivedBytes = true
    }

    private let state: Mutex<State>
    private let refresh: LinkRefresh?

    init(url: String, refresh: LinkRefresh?) {
        state = Mutex(State(link: (url, 0)))
        self.refresh = refresh
    }

    var link: (url: String, generation: Int) { state.withLock { $0.link } }

    func noteReceivedBytes() { state.withLock { $0.hasReceivedBytes = true } }

    static func mayHelp(_ status: Int) -> Bool { [401, 403, 404, 410].contains(status) }

    /// Replaces a URL that the server refused, unless it has been replaced already.
    ///
    /// - Returns: `false` if there is no other URL.
    /// - Throws: ``NetworkError/Kind/provider`` with the error of the hook; `CancellationError` if the download was
    ///   paused or cancelled during the renewal.
    func renew(_ generation: Int, _ refusal: NetworkError) async throws -> Bool {
        guard let refresh else { return false }
        let renewal = state.withLock { state -> Task<Void, any Error>? in
            if state.link.generation > generation { return Task {} }
            if let renewal = state.renewal { return renewal }
            guard state.hasReceivedBytes else { return nil }
            state.hasReceivedBytes = false
            // The hook is the app's code, so it does not run on the threads that write files.
            let renewal = Task.detached { [self] in
                do {
                    settle(try await refresh(refusal))
                } catch {
                    // A hook may throw anything when it is cancelled. The next session asks it again.
                    guard !Task.isCancelled else {
                        settle(nil, isCancelled: true)
                        throw CancellationError()
                    }
                    settle(nil)
                    throw NetworkError(
                        .provider, message: "refreshURL threw: \(error)",
                        request: refusal.request, response: refusal.response, underlying: error)
                }
            }
            state.renewal = renewal
            return renewal
        }
        guard let renewal else { return false }
        try await withTaskCancellationHandler {
            try await renewal.value
        } onCancel: {
            renewal.cancel()
        }
        return true
    }

    private func settle(_ url: String?, isCancelled: Bool = false) {
        state.withLock { state in
            if let url { state.link = (url, state.link.generation + 1) }
            if isCancelled { state.hasReceivedBytes = true }
            state.renewal = nil
        }
    }
}
