import FoundationEssentials
public import HTTPCore
import LATClient
import Platform

/// The handle of an upload, with its progress and response, to pause, resume or cancel it.
///
/// ```swift
/// let upload = manager.upload(url, files: [UploadFile(name: "doc", path: "/tmp/report.pdf")])
/// for await progress in upload.progress { print(progress.fraction ?? 0, progress.bytesPerSecond ?? 0) }
/// let response = try await upload.value
/// ```
///
/// Releasing the handle does not stop the upload.
public final class UploadTask<Value: Sendable>: CallHandle {
    private let call: RequestTask
    private let monitor: UploadMonitor
    private let outcome: SharedResult<Value>
    /// Whether a cancelled upload that could go on is removed from the server.
    private let discards = Flag()

    /// Starts an upload that the monitor measures.
    ///
    /// - Parameter start: Starts the call and reports its result.
    init(
        _ monitor: UploadMonitor,
        _ start: (_ end: @escaping @Sendable (Result<Value, NetworkError>) -> Void) -> RequestTask
    ) {
        let outcome = SharedResult<Value>()
        self.monitor = monitor
        self.outcome = outcome
        call = start { result in
            let isSuccess = if case .success = result { true } else { false }
            outcome.settle(result.mapError { $0 }) { monitor.finish(isSuccess: isSuccess) }
        }
    }

    /// Starts an upload that can go on.
    ///
    /// - Parameters:
    ///   - conclude: Makes the value from the response, or throws.
    ///   - observe: Called with the result.
    ///   - end: Called with the result after `observe` has returned, before any waiter gets it.
    init(
        _ monitor: UploadMonitor, _ order: UploadOrder, _ whole: Call,
        conclude: @escaping @Sendable (HTTPResponse) throws -> Value,
        observe: @escaping @Sendable (Result<HTTPResponse, NetworkError>) async -> Void,
        end: @escaping @Sendable (Result<HTTPResponse, NetworkError>) -> Void
    ) {
        self.monitor = monitor
        outcome = SharedResult<Value>()
        monitor.resumption.withLock { $0 = ResumableUpload.Resumption() }
        call = RequestTask(whole)
        let work = Task.detached(executorPreference: TransferExecutor.shared) { [discards] in
            let response = try await UploadJob(order, monitor).run(discards: { discards.isSet })
            return (response, try conclude(response))
        }
        let wait = CallWait(whole) { if $0.isCancelled { work.cancel() } }
        Task.detached { [outcome] in
            let result = await work.result.mapError { error in
                let interruption = error as? UploadJob.Interruption
                let error = interruption?.error ?? error
                let failure = whole.failure((error as? NetworkError)?.attaching(order.request) ?? error)
                return interruption.map { failure.adding($0.fate) } ?? failure
            }
            await observe(result.map(\.0))
            outcome.settle(result.map(\.1).mapError { $0 }) {
                wait.end()
                end(result.map(\.0))
                let isSuccess = if case .success = result { true } else { false }
                monitor.finish(isSuccess: isSuccess)
            }
        }
    }

    /// A name that is unique among the calls of the process.
    public var key: String { call.key }

    /// The state now.
    public var state: RequestTask.State { RequestTask.State(outcome.result, isPaused: call.state == .paused) }

    /// The progress from now on, in total and for each file: the current value, then changes, at most twenty a second,
    /// and at last the final value. The sequence ends with the upload. Any number of tasks may read it.
    public var progress: some AsyncSequence<TransferProgress, Never> & Sendable { monitor.updates }

    /// The progress now.
    public var currentProgress: TransferProgress { monitor.progress }

    /// What has become of an earlier run of a ``ResumableUpload`` so far, and where the upload is on the server; `nil` for an
    /// upload in one request.
    public var resumption: ResumableUpload.Resumption? { monitor.resumption.withLock(\.self) }

    /// The response. Any number of tasks may wait for it; cancelling one of them ends only its waiting.
    ///
    /// - Throws: ``NetworkError``: ``NetworkError/Kind/requestBody`` for a file that is missing, unreadable or a
    ///   directory (before anything is sent), or whose size changes while it is sent; ``NetworkError/Kind/cancelled``
    ///   after ``cancel()``; and any other error of a request. `CancellationError` if the current task is cancelled.
    public var value: Value {
        get async throws { try await outcome.value() }
    }

    /// Ends the upload and its transfer. What the server has of a ``ResumableUpload`` is removed. Has no effect once the upload
    /// has ended.
    public func cancel() { cancel(keepingProgress: false) }

    /// Ends the upload with ``NetworkError/Kind/cancelled``. Has no effect once it has ended.
    ///
    /// - Parameter keepingProgress: Whether a ``ResumableUpload`` can be continued by the same call.
    ///   ``CentralRequestManager/cancelRequests(_:)`` keeps it, too.
    public func cancel(keepingProgress: Bool) {
        if !keepingProgress { discards.set() }
        call.cancel()
    }

    /// Pauses the upload: a running transfer keeps its connection but sends nothing, and a waiting one does not start.
    public func pause() { call.pause() }

    /// Resumes a paused upload.
    public func resume() { call.resume() }

    /// Whether the upload was cancelled, by ``cancel()`` or ``CentralRequestManager/cancelRequests(_:)``, or missed its
    /// deadline.
    public var isCancelled: Bool { call.isCancelled }
}

extension CentralRequestManager {
    /// Uploads files as parts of one `multipart/form-data` body (RFC 7578), and reports the progress of each.
    ///
    /// ```swift
    /// let upload = manager.upload(url, files: [
    ///     UploadFile(name: "img", fileName: "a.png", data: png), UploadFile(name: "doc", path: "/tmp/report.pdf"),
    /// ], parameters: ["title": "Holiday"])
    /// let response = try await upload.value
    /// ```
    ///
    /// The upload starts at once. Files are read while they are sent, in constant memory.
    ///
    /// - Parameters:
    ///   - url: An absolute URL, or a path below the base URL.
    ///   - method: `POST`, `PUT`, `PATCH` or another method with a body. Default `POST`.
    ///   - files: The parts, in the order in which they are sent.
    ///   - parameters: Form fields, sent before the files. Default none.
    ///   - timeout: The maximum time from the start of the transfer to the response. Default `nil`: only the idle
    ///     timeout applies.
    ///   - headers: Override the manager's headers; `nil` values remove them. Default none.
    @discardableResult
    public func upload(
        _ url: some URLConvertible, method: String = "POST", files: [UploadFile], parameters: Parameters? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders()
    ) -> UploadTask<HTTPResponse> {
        // Without fields and files, the body is still a form.
        let parts = CallArguments(
            parameters: parameters, files: files, body: files.isEmpty ? .multipart([]) : nil,
            timeout: timeout ?? UploadLimits.timeout)
        return upload(HTTPRequest(method, url.urlText, headers: headers), parts, UploadMonitor(files))
    }

    /// Uploads one body: a file, data or a stream.
    ///
    /// ```swift
    /// let upload = manager.upload(url, body: .file("/tmp/report.pdf"))
    /// ```
    ///
    /// - Parameters:
    ///   - url: An absolute URL, or a path below the base URL.
    ///   - method: `PUT`, `POST`, `PATCH` or another method with a body. Default `PUT`.
    ///   - body: The content. The progress lists the parts of a `.multipart` body; any other body counts as one file.
    ///   - parameters: Parameters of the query, or, for a `.multipart` body, form fields before its files. Default none.
    ///   - timeout: See ``upload(_:method:files:parameters:timeout:headers:)``.
    ///   - headers: Override the manager's headers; `nil` values remove them. Default none.
    @discardableResult
    public func upload(
        _ url: some URLConvertible, method: String = "PUT", body: HTTPBody, parameters: Parameters? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders()
    ) -> UploadTask<HTTPResponse> {
        if case .multipart(let files) = body.content {
            return upload(
                url, method: method, files: files, parameters: parameters, timeout: timeout, headers: headers)
        }
        let parts = CallArguments(parameters: parameters, body: body, timeout: timeout ?? UploadLimits.timeout)
        return upload(HTTPRequest(method, url.urlText, headers: headers), parts, UploadMonitor([UploadItem(body)]))
    }

    /// Uploads the body of a request, which may set method, credentials, retries and timeouts.
    ///
    /// - Parameter request: The request. The progress lists the parts of a `.multipart` body; any other body counts as
    ///   one file. Without a ``RequestOptions/Values/timeout`` only the idle timeout applies.
    @discardableResult
    public func upload(_ request: HTTPRequest) -> UploadTask<HTTPResponse> {
        let parts = CallArguments(timeout: request.timeout ?? UploadLimits.timeout)
        guard let body = request.body else { return upload(request, parts, UploadMonitor([UploadItem]())) }
        if case .multipart(let files) = body.content { return upload(request, parts, UploadMonitor(files)) }
        return upload(request, parts, UploadMonitor([UploadItem(body)]))
    }

    /// Uploads files to a route and reports the progress of each, as ``EntityRequest/upload(on:)``.
    @discardableResult
    public func upload<Model: Decodable & Sendable>(
        _ route: Route, files: [UploadFile], parameters: Parameters? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), as model: Model.Type = JSONValue.self
    ) -> UploadTask<Reply<Model>> {
        let options = RequestOptions(timeout: timeout, headers: headers)
        return EntityCall(route, parameters: parameters, files: files, options, as: model).upload(on: self)
    }

    private func upload(
        _ request: HTTPRequest, _ parts: CallArguments, _ monitor: UploadMonitor
    ) -> UploadTask<HTTPResponse> {
        var parts = parts
        parts.bodyHandler = monitor.handler
        return UploadTask(monitor) { [parts] outcome in
            start(on: .immediate) { () throws(NetworkError) in
                try call(request, parts)
            } conclude: { [self] response, call in
                try checked(response, of: call)
            } deliver: { _, result in
                outcome(result)
            }
        }
    }
}

extension EntityRequest {
    /// Sends the entity's request and reports the progress of each of its files.
    ///
    /// ```swift
    /// let upload = SavePhotos(files: photos).upload()
    /// for await progress in upload.progress { print(progress) }
    /// let reply = try await upload.value
    /// ```
    ///
    /// A timeout of the call, the entity or its rows applies. Without one there is only the idle timeout.
    @discardableResult
    public func upload(on manager: CentralRequestManager = .shared) -> UploadTask<Reply<Model>> {
        let call = call
        var plan = Result { () throws(NetworkError) in try call.plan() }
        if let entity = try? plan.get(), let uploads = manager.uploads(of: entity) {
            return manager.resumable(entity, uploads, as: Model.self)
        }
        let monitor = UploadMonitor((try? plan.get())?.content.files ?? [])
        plan = plan.map { plan in
            var plan = plan
            plan.bodyHandler = monitor.handler
            plan.standardTimeout = UploadLimits.timeout
            return plan
        }
        return UploadTask(monitor) { [plan] outcome in
            // The result of an upload is the server's response, not a cached one before it.
            manager.start(
                plan, as: Model.self, progress: call.progressHandler, on: .immediate, deliversCached: false
            ) { _, result in
                outcome(result)
            }
        }
    }
}

enum UploadLimits {
    /// Stands for no timeout, which a request cannot express: 23 days, nearly the maximum of milliseconds in 31 bits.
    static let timeout = Duration.seconds(2_000_000)
}
