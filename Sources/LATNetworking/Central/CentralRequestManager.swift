public import CurlTransport
import FoundationEssentials
public import HTTPCore
import Synchronization

/// Sends centralized calls: a method as text, an address, and what goes with it.
///
/// ```swift
/// let manager = CentralRequestManager.shared
/// let response = try await manager.startRequest("GET", "http://127.0.0.1:8080/get", parameters: ["q": "swift"])
/// print(response.status, try response.json()["args"]["q"].string)
/// ```
///
/// A manager has its own engine, connections and settings; any number of them may live in a process. It never has to be
/// shut down: the engine ends when the manager is let go of and its last call is over. Every method may be called from
/// any thread.
public final class CentralRequestManager: Sendable {
    /// The settings it was made with.
    public let configuration: Configuration
    /// Whether servers can be connected to, by trying; see ``Reachability``.
    public let reachability: Reachability

    let corridor: Corridor
    let engine: CurlTransport?
    private let callbacks: CallbackExecutor
    private let currentBaseURL: Mutex<String?>
    let tables: TableSource
    let storage: CacheStorage
    let calls = CallRegistry()
    let hub = CallEventHub()

    /// Makes a manager and starts its engine.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` or
    ///   ``NetworkError/Kind/unsupported`` for a configuration that cannot work.
    public convenience init(configuration: Configuration = Configuration()) throws {
        if let transport = configuration.transport {
            self.init(configuration, transport: transport, engine: nil)
        } else {
            let engine = try CurlTransport(configuration: configuration.engine)
            self.init(configuration, transport: engine, engine: engine)
        }
    }

    init(_ configuration: Configuration, transport: any Transport, engine: CurlTransport?) {
        self.configuration = configuration
        self.engine = engine
        storage = CacheStorage(configuration)
        callbacks = configuration.callbackExecutor ?? .serial()
        currentBaseURL = Mutex(configuration.baseURL)
        tables = TableSource(configuration.domains, observer: configuration.domainsObserver)
        reachability = Reachability(
            configuration.reachability,
            engines: LazyEngine(engine) { try CurlTransport(configuration: configuration.engine) },
            table: { [tables] in tables.current }, deliver: { [callbacks] in callbacks.run($0) })
        // One that is not the engine knows nothing of the handle a call is cancelled by.
        corridor = Corridor(
            configuration, storage: storage, reachability: reachability,
            transport: engine ?? InterruptibleTransport(transport))
    }

    /// What paths are joined to. A change counts from the next call on.
    public var baseURL: String? {
        get { currentBaseURL.withLock { $0 } }
        set { currentBaseURL.withLock { $0 = newValue } }
    }

    /// Ends all transfers, closes every connection and returns when the engine's thread is over. Later calls fail with
    /// ``NetworkError/Kind/shutDown``. Never required.
    public func shutdown() async {
        await reachability.shutdown()
        await engine?.shutdown()
    }

    /// What is alive in the engine; `nil` with a transport of the app's own.
    public var gauges: CurlTransport.Gauges? {
        get async { await engine?.gauges }
    }

    // MARK: Calls

    /// Sends a call and collects its answer.
    ///
    /// ```swift
    /// let created = try await manager.startRequest("POST", "/orders", body: .json(order))
    /// ```
    ///
    /// - Parameters:
    ///   - method: a method, the known ones in any case, others as given.
    ///   - url: an absolute URL, or a path for the base URL.
    ///   - parameters: in the query for `GET`, `HEAD`, `DELETE` and when a body is given; fields of a multipart body
    ///     when files are; else the body.
    ///   - files: parts of a multipart body.
    ///   - body: the body itself.
    ///   - cache: the cache policy; `nil` for the manager's.
    ///   - timeout: the total timeout; `nil` for the manager's.
    ///   - headers: laid over the manager's; `nil` values remove.
    ///   - tag: names a group of calls for ``cancelRequests(_:)``.
    ///   - progress: called where the manager's callbacks run, never after the call is over.
    /// - Returns: a response of status 2xx, or 304.
    /// - Throws: ``NetworkError``, of kind ``NetworkError/Kind/httpStatus`` for any other status;
    ///   `CancellationError` when the current task was cancelled.
    public func startRequest(
        _ method: String, _ url: String, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, cache: CachePolicy? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, progress: ProgressHandler? = nil
    ) async throws -> HTTPResponse {
        var request = try await checked(method, url) {
            try self.request(
                method, url, parameters: parameters, files: files, body: body, timeout: timeout, headers: headers)
        }
        if let cache { request.cachePolicy = cache }
        if let tag { request.tag = tag }
        return try await reporting(progress, &request) { try await judged($0) }
    }

    /// Sends a call and calls back: exactly one of `success` and `failure`, once, always later.
    ///
    /// With ``CachePolicy/cacheThenNetwork`` there may be one call of `success` before, with what is cached: its
    /// response says so (``HTTPResponse/source``), and ``RequestTask/isFinished`` is still `false`. When the network then
    /// fails, ``RequestTask/hasDeliveredCachedReply`` tells that there was one.
    ///
    /// The closures run where ``Configuration/callbackExecutor`` says. The parameters are those of the asynchronous
    /// form. The call goes on when the returned task, or the manager, is let go of.
    @discardableResult
    public func startRequest(
        _ method: String, _ url: String, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, cache: CachePolicy? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, progress: ProgressHandler? = nil,
        success: @escaping @Sendable (_ task: RequestTask, _ response: HTTPResponse) -> Void,
        failure: @escaping @Sendable (_ task: RequestTask, _ error: NetworkError) -> Void
    ) -> RequestTask {
        let address = RequestBuilder.absoluteURL(url, base: baseURL)
        return startCall(CallIdentity(tag: tag, address: .known(address))) { [self] task in
            var request = try await checked(method, url) {
                try self.request(
                    method, url, parameters: parameters, files: files, body: body, timeout: timeout, headers: headers)
            }
            if let cache { request.cachePolicy = cache }
            if let tag { request.tag = tag }
            request.control = task.control
            request.progressHandler = gated(progress, task)
            if (request.cachePolicy ?? configuration.cachePolicy) == .cacheThenNetwork {
                request.context.deliversCached = { [self] response in deliver(cached: task) { success(task, response) }
                }
            }
            task.note(request)
            return try await judged(request)
        } deliver: { task, result in
            switch result {
            case .success(let response): success(task, response)
            case .failure(let error): failure(task, error)
            }
        }
    }

    /// Sends a request as it is and gives any answer, whatever its status.
    ///
    /// - Throws: ``NetworkError`` when there is no answer; `CancellationError` when the current task was cancelled.
    public func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        if request.streamsBody { return try await trackedStream(request) { try await dispatch($0) } }
        return try await tracked(request) { request in
            let response = try await dispatch(request)
            return (response, response)
        }
    }

    /// Sends a request down the corridor.
    func dispatch(_ request: HTTPRequest) async throws -> HTTPResponse {
        var request = request
        if request.attachment == nil { request.url = RequestBuilder.absoluteURL(request.url, base: baseURL) }
        do {
            return try await corridor.send(request)
        } catch let error as NetworkError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "an interceptor or transport of the app threw: \(error)", request: request,
                underlying: error)
        }
    }

    /// Sends a call and gives its answer as soon as the head is there; the body is read from
    /// ``HTTPResponse/body``, no faster than the reader takes it.
    ///
    /// ```swift
    /// for try await line in try await manager.stream("GET", url).body.lines { print(line) }
    /// ```
    ///
    /// What the cache stores of it is stored while it is read, and counts when it was read to its end.
    ///
    /// There is no total timeout unless one is given; the idle timeout rules. Letting go of the response and its body
    /// cancels the transfer.
    ///
    /// - Throws: as ``startRequest(_:_:parameters:files:body:cache:timeout:headers:tag:progress:)`` does; up to 1 MiB
    ///   of an error's body is kept with the error.
    public func stream(
        _ method: String, _ url: String, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, cache: CachePolicy? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil
    ) async throws -> HTTPResponse {
        var request = try request(
            method, url, parameters: parameters, files: files, body: body, timeout: timeout, headers: headers)
        if let cache { request.cachePolicy = cache }
        request.streamsBody = true
        if let tag { request.tag = tag }
        var response = try await send(request)
        guard !Verdict.isSuccess(response) else { return response }
        response.body = ResponseBody(try await Self.beginning(of: response.body))
        throw Verdict.failure(response, to: request)
    }

    // MARK: Inside

    func request(
        _ method: String, _ url: String, parameters: Parameters?, files: [UploadFile], body: HTTPBody?,
        timeout: Duration?, headers: HTTPHeaders
    ) throws(NetworkError) -> HTTPRequest {
        var request = HTTPRequest(method, RequestBuilder.absoluteURL(url, base: baseURL), headers: headers)
        if let timeout { request.timeout = timeout }
        guard parameters != nil || body != nil || !files.isEmpty || configuration.parameterProvider != nil else {
            return request
        }
        var content = RequestContent(files: files, body: body, encoding: configuration.parameterEncoding)
        if let parameters { content.members = try RequestBuilder.encoded(parameters) }
        if configuration.parameterProvider == nil {
            try RequestBuilder.put(content, into: &request)
        } else {
            // The provider's parameters are fresh for each attempt, so all is put together there.
            request.context.content = content
        }
        return request
    }

    /// Makes a request, and tells the observers when that fails.
    func checked(_ method: String, _ url: String, _ make: () throws -> HTTPRequest) async throws -> HTTPRequest {
        do {
            return try make()
        } catch let error as NetworkError {
            await tell(error, HTTPRequest(method, url))
            throw error
        }
    }

    func judged(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await outcome(of: request) { response, request in
            guard Verdict.isSuccess(response) else { throw Verdict.failure(response, to: request) }
            return response
        }
    }

    /// Runs a call in closure form: one terminal event, later, where callbacks run.
    func startCall<Value: Sendable>(
        _ identity: CallIdentity = CallIdentity(address: .later { nil }),
        _ call: @escaping @Sendable (RequestTask) async throws -> Value,
        deliver: @escaping @Sendable (RequestTask, Result<Value, NetworkError>) -> Void
    ) -> RequestTask {
        let task = RequestTask()
        var identity = identity
        identity.key = task.key
        _ = task.control.list()
        // In the list before it begins: a cancellation that comes right after this call finds it.
        let place = calls.enter(identity, .call { task.cancel() })
        task.start { [callbacks, calls] in
            let result: Result<Value, NetworkError>
            do {
                try Task.checkCancellation()
                result = .success(try await call(task))
            } catch {
                result = .failure(NetworkError(ending: error, task.request))
            }
            callbacks.run {
                task.finish()
                calls.leave(place)
                deliver(task, result)
                task.control.takeEnding()?()
            }
        }
        return task
    }

    /// Runs the event with what is cached, before the terminal one, where callbacks run.
    func deliver(cached task: RequestTask, _ event: @escaping @Sendable () -> Void) {
        callbacks.run {
            if task.noteCachedReply() { event() }
        }
    }

    /// A handler that runs where callbacks do, and no more when the task is over.
    func gated(_ progress: ProgressHandler?, _ task: RequestTask) -> ProgressHandler? {
        guard let progress else { return nil }
        let filter = ProgressFilter()
        return { [callbacks] event in
            guard filter.admits(event) else { return }
            callbacks.run { if !task.isFinished { progress(event) } }
        }
    }

    /// Sends a request whose progress is told, and returns when the last of it was.
    func reporting<Value>(
        _ progress: ProgressHandler?, _ request: inout HTTPRequest, _ send: (HTTPRequest) async throws -> Value
    ) async throws -> Value {
        guard let progress else { return try await send(request) }
        let gate = ProgressGate(progress, callbacks)
        let filter = ProgressFilter()
        request.progressHandler = { if filter.admits($0) { gate.report($0) } }
        do {
            let value = try await send(request)
            await gate.close()
            return value
        } catch {
            await gate.close()
            throw error
        }
    }

    /// The first bytes of a body, as much as an error keeps.
    private static func beginning(of body: ResponseBody) async throws -> Data {
        var beginning = Data()
        do {
            for try await chunk in body {
                beginning.append(chunk.prefix(Verdict.errorBodyLimit - beginning.count))
                if beginning.count >= Verdict.errorBodyLimit { break }
            }
        } catch let error as CancellationError {
            throw error
        } catch {
            // What came of it is what there is; the status is the news.
        }
        return beginning
    }
}

/// Is told how far a transfer is.
public typealias ProgressHandler = @Sendable (_ progress: TransferProgress) -> Void

/// Passes progress on until the call it belongs to is over.
private final class ProgressGate: Sendable {
    private let handler: ProgressHandler
    private let callbacks: CallbackExecutor
    private let isOpen = Mutex(true)

    init(_ handler: @escaping ProgressHandler, _ callbacks: CallbackExecutor) {
        self.handler = handler
        self.callbacks = callbacks
    }

    func report(_ progress: TransferProgress) {
        callbacks.run { [self] in
            if isOpen.withLock({ $0 }) { handler(progress) }
        }
    }

    /// Returns when everything reported so far has been delivered; nothing is after it.
    func close() async {
        await callbacks.drain()
        isOpen.withLock { $0 = false }
    }
}
