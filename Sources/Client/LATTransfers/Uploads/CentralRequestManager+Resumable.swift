import CurlTransport
public import HTTPCore
public import LATClient

extension CentralRequestManager {
    /// Uploads a file in several requests, so that the upload goes on after a lost connection, a crash or `kill -9`.
    ///
    /// ```swift
    /// let upload = central.upload(url, body: .file("/tmp/backup.tar"), resumable: .tus)
    /// for await progress in upload.progress { print(progress.fraction ?? 0) }
    /// let response = try await upload.value
    /// ```
    ///
    /// The same call continues where the last one ended, if the file is still the same. Its requests pass through the manager's
    /// pipeline like all others. The upload is one call, which ``cancelRequests(_:)`` finds by its ``UploadTask/key``, URL or
    /// tag, and which can then be continued. When a request fails, the server is asked how much it has, and the upload goes
    /// on, as often as the manager's ``Configuration/retries`` allow without any progress in between.
    ///
    /// - Parameters:
    ///   - url: An absolute URL, or a path below the base URL: where uploads are created, or the URL of the object of S3.
    ///   - method: The method of the request that the upload stands for; only ``ResumableUpload/standard`` sends it. Default
    ///     `PUT`.
    ///   - body: ``HTTPBody/file(_:contentType:)``. Any other body fails with ``NetworkError/Kind/invalidRequest``.
    ///   - resumable: The protocol and its settings.
    ///   - parameters: Parameters of the query. Default none.
    ///   - timeout: The maximum time of each request. Default `nil`: only the idle timeout applies.
    ///   - headers: Override the manager's headers; `nil` values remove them. Those that describe the content are sent with the
    ///     request that creates the upload, all others with each. Default none.
    ///   - refreshURL: Supplies another URL when the server refuses this one with 401 or 403, as it does for expired links. If the
    ///     new one is refused too, before any progress, the upload fails. Default `nil`.
    /// - Returns: The upload. Its ``UploadTask/value`` is the response to the request that completes it.
    @discardableResult
    public func upload(
        _ url: some URLConvertible, method: String = "PUT", body: HTTPBody, resumable: ResumableUpload,
        parameters: Parameters? = nil, timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders(),
        refreshURL: LinkRefresh? = nil
    ) -> UploadTask<HTTPResponse> {
        let parts = CallArguments(parameters: parameters, body: body, timeout: timeout ?? UploadLimits.timeout)
        return resume(HTTPRequest(method, url.urlText, headers: headers), parts, body, resumable, refreshURL)
    }

    /// Uploads the body of a request, which has to be a file, so that the upload can go on. The request may set credentials,
    /// retries and timeouts.
    @discardableResult
    public func upload(
        _ request: HTTPRequest, resumable: ResumableUpload, refreshURL: LinkRefresh? = nil
    ) -> UploadTask<HTTPResponse> {
        let parts = CallArguments(timeout: request.timeout ?? UploadLimits.timeout)
        return resume(request, parts, request.body, resumable, refreshURL)
    }

    /// Whether an earlier run of an upload has left a journal, so that this protocol is the one that it began with.
    package func hasEarlierRun(of request: HTTPRequest, parameters: Parameters?, by resumable: ResumableUpload) -> Bool
    {
        guard let call = try? call(request, CallArguments(parameters: parameters, body: request.body)) else {
            return false
        }
        return UploadFiles.journal(of: order(call, resumable)) != nil
    }

    private func resume(
        _ request: HTTPRequest, _ parts: CallArguments, _ body: HTTPBody?, _ resumable: ResumableUpload,
        _ refreshURL: LinkRefresh?
    ) -> UploadTask<HTTPResponse> {
        start(resumable, body, refreshURL) { () throws(NetworkError) in
            try call(request, parts)
        } conclude: { [self] response, call in
            try checked(response, of: call)
        }
    }

    /// Uploads the file of an entity as its row says.
    func resumable<Model: Decodable & Sendable>(
        _ entity: EntityPlan, _ uploads: ResumableUpload, as model: Model.Type
    ) -> UploadTask<Reply<Model>> {
        var (entity, uploads) = (entity, uploads)
        entity.standardTimeout = UploadLimits.timeout
        let plan = Result { () throws(NetworkError) -> EntityPlan in
            if let name = try entity.content.takeFileAsBody() { uploads.metadata["filename"] = name }
            return entity
        }
        return start(uploads, (try? plan.get())?.content.body) { () throws(NetworkError) in
            try call(plan.get())
        } conclude: { response, call in
            try call.reply(model, from: response)
        }
    }

    private func start<Value: Sendable>(
        _ resumable: ResumableUpload, _ body: HTTPBody?, _ refreshURL: LinkRefresh? = nil,
        _ make: () throws(NetworkError) -> Call,
        conclude: @escaping @Sendable (HTTPResponse, Call) throws -> Value
    ) -> UploadTask<Value> {
        let monitor = UploadMonitor(body.map { [UploadItem($0)] } ?? [])
        let (call, failure) = Self.made("PUT", make)
        // A simulated call gets its response to the one request that the upload stands for.
        if call.isSimulated, failure == nil {
            return UploadTask(monitor) { outcome in
                start(on: .immediate) { () throws(NetworkError) in
                    call
                } conclude: {
                    try conclude($0, $1)
                } deliver: {
                    outcome($1)
                }
            }
        }
        let timer = enter(call)
        return UploadTask(monitor, order(call, resumable, failure, refreshURL), call) { response in
            try conclude(response, call)
        } observe: { [self] result in
            await notifyOutcomeObservers(result, call.request)
        } end: { [self] result in
            leave(call, timer)
            finish(call, result)
        }
    }

    private func order(
        _ call: Call, _ resumable: ResumableUpload, _ failure: NetworkError? = nil, _ refreshURL: LinkRefresh? = nil
    ) -> UploadOrder {
        var request = call.request
        request.cachePartition = call.partition
        return UploadOrder(
            request: request, upload: resumable, failure: failure, policy: configuration.retryPolicy,
            budget: retryBudget, maxConnectionsPerHost: configuration.engine.maxConnectionsPerHost,
            isSealed: seals(call.request), refreshURL: refreshURL,
            isReplayed: { [self] in try await isReplayed($0, call, $1) },
            send: { [self] in try await sendPiece($0, of: call, body: $1, interim: $2) },
            sendAfter: { [self] in try await sendAfter(call, $0) })
    }
}
