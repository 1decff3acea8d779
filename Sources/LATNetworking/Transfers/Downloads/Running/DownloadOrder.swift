import HTTPCore

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
