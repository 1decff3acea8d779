public import CurlTransport
import FoundationEssentials
public import HTTPCore
import Platform
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
    let callbacks: CallbackExecutor
    let tables: TableSource
    let storage: CacheStorage
    let calls = CallRegistry()
    let hub = CallEventHub(limit: CallEventHub.bufferSize)
    /// Routes of entities, looked up once for each type and state of the table.
    let plans: RoutePlanCache
    private let address: BaseAddress

    /// Makes a manager and starts its engine.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` or
    ///   ``NetworkError/Kind/unsupported`` for a configuration that cannot work.
    public convenience init(configuration: Configuration = Configuration()) throws {
        if let transport = configuration.transport {
            self.init(configuration, .custom(transport))
        } else {
            var engine = configuration.engine
            engine.redirects = configuration.redirects
            self.init(configuration, .engine(try CurlTransport(configuration: engine)))
        }
    }

    init(_ configuration: Configuration, _ sender: RoomTable.Sender) {
        self.configuration = configuration
        if case .engine(let engine) = sender { self.engine = engine } else { engine = nil }
        storage = CacheStorage(configuration)
        callbacks = configuration.callbackExecutor ?? .serial()
        let address = BaseAddress(configuration.baseURL)
        let tables = TableSource(configuration.domains, observer: configuration.domainsObserver)
        self.address = address
        self.tables = tables
        reachability = Reachability(
            configuration.reachability,
            engines: LazyEngine(engine) { try CurlTransport(configuration: configuration.engine) },
            table: { tables.current }, deliver: { [callbacks] in callbacks.run($0) })
        plans = RoutePlanCache(
            RoutePlan.Standard(
                simulation: configuration.simulation, parameterEncoding: configuration.parameterEncoding,
                successJudge: configuration.successJudge))
        let manager = ManagerReference()
        corridor = Corridor(
            configuration, storage: storage, reachability: reachability, sender: sender,
            scope: CredentialScope(
                secrets: configuration.secretHeaders, named: configuration.credentialOrigins,
                baseURL: { address.url }, table: { tables.current }),
            manager: { manager.value })
        manager.value = self
    }

    /// What paths are joined to. A change counts from the next call on.
    public var baseURL: String? {
        get { address.url }
        set { address.url = newValue }
    }

    /// Ends all transfers, closes every connection and returns when the engine's thread is over. Later calls fail with
    /// ``NetworkError/Kind/shutDown``. Never required. What waits for the cache is written, for five seconds at most.
    public func shutdown() async {
        await reachability.shutdown()
        await engine?.shutdown()
        await storage.shutdown()
    }

    /// Runs tasks on the engine's own thread, so that their calls need no hop and no wake-up: the quickest way to make
    /// many small calls. `nil` with a transport of the app's own.
    ///
    /// ```swift
    /// await withTaskExecutorPreference(manager.executor) {
    ///     for id in ids { total += try await FetchPrice(id: id).startRequest(on: manager).cents }
    /// }
    /// ```
    ///
    /// All of the manager's transfers share that thread: **never block on it**. Decoding runs on it too. Code that waits
    /// there for a call of the same manager by a semaphore waits for ever. A task whose manager is gone goes on elsewhere.
    public var executor: (any TaskExecutor)? { engine?.executor }

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
        let parts = CallParts(
            parameters: parameters, files: files, body: body, cache: cache, timeout: timeout, tag: tag)
        let gate = progress.map { ProgressGate($0, callbacks) }
        let call = try await made { () throws(NetworkError) in
            try self.call(method, url, headers, parts, progress: gate?.handler)
        }
        return try await run(call, gate) { response, call in try Verdict.check(response, to: call.request) }
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
        let parts = CallParts(
            parameters: parameters, files: files, body: body, cache: cache, timeout: timeout, tag: tag)
        let gate = progress.map { ProgressGate($0, callbacks) }
        return start(gate) { () throws(NetworkError) in
            try call(
                method, url, headers, parts, progress: gate?.handler,
                cached: { [self] response, call in
                    deliver(cached: call) { success(RequestTask(call), response) }
                })
        } conclude: { response, call in
            try Verdict.check(response, to: call.request)
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
        let call = makeCall(located(request))
        guard request.streamsBody else { return try await run(call, observed: false) { response, _ in response } }
        return try await runStream(call)
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
        let parts = CallParts(
            parameters: parameters, files: files, body: body, cache: cache, timeout: timeout, tag: tag, streams: true)
        let call = try call(method, url, headers, parts)
        var response = try await runStream(call)
        guard !Verdict.isSuccess(response) else { return response }
        response.body = ResponseBody(try await Verdict.beginning(of: response.body))
        throw Verdict.failure(response, to: call.request)
    }
}
