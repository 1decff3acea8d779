public import HTTPCore

extension CentralRequestManager {
    /// Downloads a URL to a file; starts at once and returns.
    ///
    /// ```swift
    /// let download = central.download(url, to: "/tmp/big.iso", segments: 4)
    /// for await progress in download.progress { print(progress.completed, progress.total ?? 0) }
    /// let file = try await download.value                          // path, byteCount, response
    /// ```
    ///
    /// The requests go down the manager's corridor like all others: interceptors, headers, providers, redirects, retries.
    /// It is one call, which ``cancelRequests(_:)`` finds by its ``Download/key``, URL or tag; what has come is kept then.
    /// There is no total timeout; the idle timeout rules. A body that breaks off is gone on with as often as the manager's
    /// ``Configuration/retries`` allow.
    ///
    /// - Parameters:
    ///   - url: an absolute URL, or a path for the base URL.
    ///   - path: the file, or a folder in which it gets the name that the server (`Content-Disposition`) or else the
    ///     URL gives it.
    ///   - segments: how many connections fetch it at once, where the server has ranges and a strong validator; else it is
    ///     one. The limit of connections per host is raised to this for it. Default 1.
    ///   - headers: laid over the manager's; `nil` values remove.
    ///   - options: the expected digest, what to do about an existing file, and more.
    /// - Returns: The download. Whatever is wrong is told by its ``Download/value``.
    @discardableResult
    public func download(
        _ url: String, to path: String, segments: Int = 1, headers: HTTPHeaders = HTTPHeaders(),
        options: DownloadOptions = DownloadOptions()
    ) -> Download {
        download(HTTPRequest("GET", url, headers: headers), to: path, segments: segments, options: options)
    }

    /// Downloads what a request brings, with all that can be set on one: method, body, credentials, retries, timeouts.
    ///
    /// ```swift
    /// var request = HTTPRequest("POST", "/reports", body: .json(query))
    /// request.idleTimeout = .seconds(300)
    /// let file = try await central.download(request, to: "/tmp/report.pdf").value
    /// ```
    ///
    /// Only a GET can be gone on with: anything else is sent once, on one connection, a pause holds its connection open,
    /// and when it breaks off nothing is kept. `Range` and `If-Range` are the download's own and may not be set.
    @discardableResult
    public func download(
        _ request: HTTPRequest, to path: String, segments: Int = 1, options: DownloadOptions = DownloadOptions()
    ) -> Download {
        let call = makeCall(located(request))
        var order = DownloadOrder(
            request: call.request, path: path, segments: segments, options: options, retries: configuration.retries,
            maxConnectionsPerHost: configuration.engine.maxConnectionsPerHost,
            send: { [self] in try await sendPart($0, of: call) })
        order.request.deadline = nil
        let alarm = enter(call)
        return Download(order, call) { [self] result in
            leave(call, alarm)
            finish(call, result.map(\.response))
        }
    }
}
