public import HTTPCore
import Synchronization

/// An upload under way: tells how far it is, gives its answer, and is held or cancelled.
///
/// ```swift
/// let upload = manager.upload(url, files: [UploadFile(name: "doc", path: "/tmp/report.pdf")])
/// for await progress in upload.progress { print(progress.fraction ?? 0, progress.bytesPerSecond ?? 0) }
/// let response = try await upload.value
/// ```
///
/// The upload goes on when the task is let go of.
public final class UploadTask<Value: Sendable>: Sendable {
    private let call: RequestTask
    private let monitor: UploadMonitor
    private let outcome: Outcome<Value>

    /// Starts an upload whose parts are metered by the monitor.
    ///
    /// - Parameter start: starts the call and says how it ended.
    init(
        _ monitor: UploadMonitor,
        _ start: (_ end: @escaping @Sendable (Result<Value, NetworkError>) -> Void) -> RequestTask
    ) {
        let outcome = Outcome<Value>()
        self.monitor = monitor
        self.outcome = outcome
        call = start { result in
            let isSuccess = if case .success = result { true } else { false }
            outcome.settle(result.mapError { $0 }) { monitor.finish(isSuccess: isSuccess) }
        }
    }

    /// Names the upload among all calls of the process.
    public var key: String { call.key }

    /// How far the upload is, as it goes on. The sequence ends with the upload.
    public var progress: UploadUpdates { UploadUpdates(monitor: monitor) }

    /// How far the upload is now.
    public var currentProgress: UploadProgress { monitor.snapshot.progress }

    /// The answer, once it is there. Any number of tasks may wait for it; the upload goes on when one of them is
    /// cancelled.
    ///
    /// - Throws: ``NetworkError``; of kind ``NetworkError/Kind/requestBody`` for a file that is missing, cannot be read
    ///   or is a directory (then nothing was sent), or that changes its size while it is sent;
    ///   ``NetworkError/Kind/cancelled`` after ``cancel()``. `CancellationError` when the current task was cancelled.
    public var value: Value {
        get async throws { try await outcome.value() }
    }

    /// Ends the upload and closes its transfer, wherever it is. Once it is over this does nothing.
    public func cancel() { call.cancel() }

    /// Holds the upload: what runs stands still with its connection, what waits does not start.
    public func suspend() { call.suspend() }

    /// Lets a suspended upload go on.
    public func resume() { call.resume() }

    /// Whether the upload was cancelled, by ``cancel()`` or ``CentralRequestManager/cancelRequests(_:)``.
    public var isCancelled: Bool { call.isCancelled }
}

extension CentralRequestManager {
    /// Uploads files as parts of one `multipart/form-data` body (RFC 7578), and tells how far each is.
    ///
    /// ```swift
    /// let upload = manager.upload(url, files: [
    ///     UploadFile(name: "img", fileName: "a.png", data: png), UploadFile(name: "doc", path: "/tmp/report.pdf"),
    /// ], parameters: ["title": "Holiday"])
    /// let response = try await upload.value
    /// ```
    ///
    /// Starts at once. Files are read while they are sent, in constant memory.
    ///
    /// - Parameters:
    ///   - url: an absolute URL, or a path for the base URL.
    ///   - method: `POST`, `PUT`, `PATCH` or another that carries a body. Default `POST`.
    ///   - files: the parts, in the order in which they are sent.
    ///   - parameters: form fields, sent before the files. Default none.
    ///   - timeout: the longest time from the start of the transfer to the answer; `nil`, the default, for none: the
    ///   idle timeout ends an upload that stands still.
    ///   - headers: laid over the manager's; `nil` values remove. Default none.
    @discardableResult
    public func upload(
        _ url: String, method: String = "POST", files: [UploadFile], parameters: Parameters? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders()
    ) -> UploadTask<HTTPResponse> {
        // An empty form is a form too.
        let parts = CallParts(
            parameters: parameters, files: files, body: files.isEmpty ? .multipart([]) : nil,
            timeout: timeout ?? UploadLimits.timeout)
        return upload(method, url, headers, parts, UploadMonitor(files))
    }

    /// Uploads one body as it is: a file, data or a stream.
    ///
    /// ```swift
    /// let upload = manager.upload(url, body: .file("/tmp/report.pdf"))
    /// ```
    ///
    /// - Parameters:
    ///   - url: an absolute URL, or a path for the base URL.
    ///   - method: `PUT`, `POST`, `PATCH` or another that carries a body. Default `PUT`.
    ///   - body: what is sent. Parts (`.multipart`) are told one by one, anything else as one file.
    ///   - parameters: for the query. Default none.
    ///   - timeout: as of ``upload(_:method:files:parameters:timeout:headers:)``.
    ///   - headers: laid over the manager's; `nil` values remove. Default none.
    @discardableResult
    public func upload(
        _ url: String, method: String = "PUT", body: HTTPBody, parameters: Parameters? = nil,
        timeout: Duration? = nil, headers: HTTPHeaders = HTTPHeaders()
    ) -> UploadTask<HTTPResponse> {
        if case .multipart(let files) = body.content {
            return upload(
                url, method: method, files: files, parameters: parameters, timeout: timeout, headers: headers)
        }
        let parts = CallParts(parameters: parameters, body: body, timeout: timeout ?? UploadLimits.timeout)
        return upload(method, url, headers, parts, UploadMonitor([UploadItem(body)]))
    }

    private func upload(
        _ method: String, _ url: String, _ headers: HTTPHeaders, _ parts: CallParts, _ monitor: UploadMonitor
    ) -> UploadTask<HTTPResponse> {
        var parts = parts
        parts.bodyHandler = monitor.handler
        return UploadTask(monitor) { [parts] outcome in
            start(on: .immediate) { () throws(NetworkError) in
                try call(method, url, headers, parts)
            } conclude: { response, call in
                try Verdict.check(response, to: call.request)
            } deliver: { _, result in
                outcome(result)
            }
        }
    }
}

extension EntityRequest {
    /// Sends the entity's request and tells how far each of its files is.
    ///
    /// ```swift
    /// let upload = SavePhotos(album: 7, files: photos).upload()
    /// for await progress in upload.progress { print(progress) }
    /// let reply = try await upload.value
    /// ```
    ///
    /// A timeout of the call, the entity or its rows counts; without any there is none but the idle timeout.
    @discardableResult
    public func upload(on manager: CentralRequestManager = .shared) -> UploadTask<Reply<Model>> {
        let call = call
        var plan = Result { () throws(NetworkError) in try call.plan() }
        let monitor = UploadMonitor((try? plan.get())?.content.files ?? [])
        plan = plan.map { plan in
            var plan = plan
            plan.bodyHandler = monitor.handler
            plan.standardTimeout = UploadLimits.timeout
            return plan
        }
        return UploadTask(monitor) { [plan] outcome in
            manager.start(plan, as: Model.self, on: .immediate) { _, result in outcome(result) }
        }
    }
}

enum UploadLimits {
    /// In place of no timeout, which a request cannot ask for: 23 days, the most that milliseconds in 31 bits hold.
    static let timeout = Duration.seconds(2_000_000)
}
