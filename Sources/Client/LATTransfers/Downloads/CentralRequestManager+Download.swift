public import HTTPCore
import LATClient

extension CentralRequestManager {
    /// Starts the download of a URL to a file, and returns at once.
    ///
    /// ```swift
    /// let download = central.download(url, to: "/tmp/big.iso", segments: 4)
    /// for await progress in download.progress { print(progress.completed, progress.total ?? 0) }
    /// let file = try await download.value                          // path, byteCount, response
    /// ```
    ///
    /// Its requests pass through the manager's pipeline like all others: interceptors, headers, providers, redirects,
    /// retries. The download is one call, which ``cancelRequests(_:)`` finds by its ``Download/key``, URL or tag;
    /// received bytes are kept then. There is no total timeout, only the idle timeout. When a body breaks off, the
    /// download continues, as often as the manager's ``Configuration/retries`` allow. The resolver is asked about a failure
    /// as for all calls: after ``Resolution/replay`` the download continues with the missing bytes.
    ///
    /// - Parameters:
    ///   - url: An absolute URL, or a path below the base URL.
    ///   - path: The file, or a folder. In a folder, the file gets its name from the server (`Content-Disposition`) or
    ///     else from the URL.
    ///   - segments: The number of connections, if the server supports ranges and sends a strong validator; otherwise
    ///     one. The limit of connections per host is raised to it for the download. Default 1.
    ///   - headers: Override the manager's headers; `nil` values remove them. Default none.
    ///   - options: The expected digest, what to do about an existing file, and more. Default ``DownloadOptions/init()``.
    /// - Returns: The download. Its ``Download/value`` throws every error.
    @discardableResult
    public func download(
        _ url: some URLConvertible, to path: String, segments: Int = 1, headers: HTTPHeaders = HTTPHeaders(),
        options: DownloadOptions = DownloadOptions()
    ) -> Download {
        download(HTTPRequest("GET", url.urlText, headers: headers), to: path, segments: segments, options: options)
    }

    /// Downloads the response to a request, which may set method, body, credentials, retries and timeouts.
    ///
    /// ```swift
    /// var request = HTTPRequest("POST", "/reports", body: .json(order))
    /// request.idleTimeout = .seconds(300)
    /// let file = try await central.download(request, to: "/tmp/report.pdf").value
    /// ```
    ///
    /// Only a GET can be resumed. Any other request uses one connection, which a pause leaves open; nothing is kept when
    /// it breaks off. The same holds for a sealed reply, which is one message: it is opened when all of it has
    /// arrived. The download sets `Range` and `If-Range`, so the request must not.
    @discardableResult
    public func download(
        _ request: HTTPRequest, to path: String, segments: Int = 1, options: DownloadOptions = DownloadOptions()
    ) -> Download {
        download(to: path, segments: segments, options: options) { () throws(NetworkError) in
            try call(request, CallArguments(streams: request.streamsBody == true))
        }
    }

    /// The call of a transfer, or one that stands for it in its handle, and why it could not be made.
    static func made(
        _ method: String, _ make: () throws(NetworkError) -> Call
    ) -> (call: Call, failure: NetworkError?) {
        do throws(NetworkError) {
            return (try make(), nil)
        } catch {
            return (Call(error.request ?? HTTPRequest(method, "")), error)
        }
    }

    /// Starts the download of a call's response. An error of `make` is thrown by ``Download/value``.
    func download(
        to path: String, segments: Int, options: DownloadOptions, _ make: () throws(NetworkError) -> Call
    ) -> Download {
        let (call, failure) = Self.made("GET", make)
        let order = DownloadOrder(
            request: Self.downloaded(call), path: path, segments: segments, options: options, failure: failure,
            retries: configuration.retries, maxConnectionsPerHost: configuration.engine.maxConnectionsPerHost,
            isSealed: seals(call.request),
            isReplayed: { [self] in try await isReplayed($0, call, $1) },
            send: { [self] in try await sendPart($0, of: call) })
        let timer = enter(call)
        return Download(order, call) { [self] result in
            await notifyOutcomeObservers(result.map(\.response), call.request)
        } end: { [self] result in
            leave(call, timer)
            finish(call, result.map(\.response))
        }
    }

    private static func downloaded(_ call: Call) -> HTTPRequest {
        var request = call.request
        request.deadline = nil
        request.cachePartition = call.partition
        return request
    }

    /// Removes what earlier runs of a download left beside its target, unless another download writes to the same target.
    ///
    /// - Parameter identity: That of the last run; `nil` for the one that a run would have now.
    func discardDownload(
        _ url: String, to path: String, headers: HTTPHeaders, _ options: DownloadOptions, identity: String?
    ) {
        guard let call = try? self.call(HTTPRequest("GET", url, headers: headers)) else { return }
        let request = Self.downloaded(call)
        let identity = identity ?? DownloadOrder.identity(options, request)
        guard let target = try? DownloadTarget(path, url: request.url, identity: identity),
            let file = try? PartFile(path: target.part, target: path)
        else { return }
        if target.isOwn(file) { target.discard(file) }
        file.unlock()
    }

    /// Downloads the response of a route to a file, as ``download(_:to:segments:options:)``.
    @discardableResult
    public func download(
        _ route: Route, parameters: Parameters? = nil, to path: String, segments: Int = 1,
        headers: HTTPHeaders = HTTPHeaders(), options: DownloadOptions = DownloadOptions()
    ) -> Download {
        EntityCall(route, parameters: parameters, files: [], RequestOptions(headers: headers), as: JSONValue.self)
            .download(to: path, on: self, segments: segments, options: options)
    }
}

extension EntityRequest {
    /// Downloads the response to a file, as ``CentralRequestManager/download(_:to:segments:options:)`` does. A timeout of
    /// the call, the entity or its rows limits each request of the download.
    ///
    /// ```swift
    /// let file = try await FetchReport(year: 2026).download(to: "/tmp/report.pdf").value
    /// ```
    @discardableResult
    public func download(
        to path: String, on manager: CentralRequestManager = .shared, segments: Int = 1,
        options: DownloadOptions = DownloadOptions()
    ) -> Download {
        let call = call
        return manager.download(to: path, segments: segments, options: options) { () throws(NetworkError) in
            try manager.call(call.plan())
        }
    }
}
