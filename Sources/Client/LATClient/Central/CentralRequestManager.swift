import CurlTransport
import Dispatch
import FoundationEssentials
public import HTTPCore
import Platform
import Synchronization

/// An HTTP client: sends requests, and owns the engine, connections, cache and settings that they use.
///
/// ```swift
/// let manager = CentralRequestManager.shared
/// let response = try await manager.startRequest("GET", "http://127.0.0.1:8080/get", parameters: ["q": "swift"])
/// print(response.status, try response.json()["args"]["q"].string)
/// ```
///
/// A process may have any number of managers, each with its own engine, connections and settings. A manager never has to be
/// shut down: its engine ends when the manager is released and its last call has ended. All methods may be called on any
/// thread.
public final class CentralRequestManager: Sendable {
    /// The settings that the manager was created with.
    public let configuration: Configuration
    /// Whether servers can be reached, which is determined by connecting to them.
    public let reachability: Reachability

    let pipeline: Pipeline
    let engine: CurlTransport?
    package let callbacks: CallbackExecutor
    let tables: TableSource
    let storage: CacheStorage
    let calls = CallRegistry()
    let hub: CallEventHub
    let reporters: CallReporters
    /// The plans of routes, made once for each route and state of the table.
    let plans: RoutePlanCache
    /// How values of calls without a route are encoded and decoded; `nil` for the standard coding.
    let coding: CodingRules?
    /// The outbox that was made last with this manager. It keeps the manager alive.
    package let attachedOutbox = AttachedObject()
    private let address: MutableBaseURL

    /// Creates a manager and starts its engine.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` or ``NetworkError/Kind/unsupported`` for invalid settings.
    public convenience init(configuration: Configuration = Configuration()) throws {
        var configuration = configuration
        let companion = configuration.companion
        try companion?.prepare(&configuration)
        try configuration.check()
        if let transport = configuration.transport {
            self.init(configuration, .custom(transport))
        } else {
            var engine = configuration.engine
            engine.redirects = configuration.redirects
            let meters = configuration.accessories.compactMap { $0 as? any CallMeter }
            if !meters.isEmpty {
                engine.connectionDidClose = { origin, time in
                    for meter in meters { meter.connectionDidClose(to: origin, after: time) }
                }
            }
            self.init(configuration, .engine(try CurlTransport(configuration: engine)))
        }
    }

    init(_ configuration: Configuration, _ sender: StageTable.Sender) {
        self.configuration = configuration
        engine = sender.curlTransport
        storage = CacheStorage(configuration)
        hub = CallEventHub(limit: CallEventHub.bufferSize)
        let manager = ManagerReference()
        reporters = CallReporters(
            secrets: configuration.secrets, configuration.accessories, hub: hub, origin: CallOrigin(engine, manager))
        callbacks = configuration.callbackExecutor ?? .queue(DispatchQueue(label: "LATNetworking.callbacks"))
        let address = MutableBaseURL(configuration.baseURL)
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
                successJudge: configuration.successJudge, coding: configuration.coding,
                retryPolicy: configuration.retryPolicy))
        coding = CodingRules.of(configuration.coding)
        pipeline = Pipeline(
            configuration, storage: storage, reachability: reachability, sender: sender,
            scope: CredentialScope(
                secrets: configuration.secrets, named: configuration.credentialOrigins,
                baseURL: { address.url }, table: { tables.current }),
            isProduction: { configuration.isProduction || tables.current?.isProduction == true },
            manager: { manager.value })
        manager.value = self
    }

    /// The URL that paths are joined to. A change applies from the next call on.
    public var baseURL: String? {
        get { address.url }
        set { address.url = newValue }
    }

    /// Cancels all transfers, closes every connection, ends the calls that wait, completes the cache's writes within five
    /// seconds, and returns when the engine's thread has ended. Never required. Later calls fail with ``NetworkError/Kind/shutDown``.
    public func shutdown() async {
        await reachability.shutdown()
        await engine?.shutdown()
        // Those that wait for something else than a transfer.
        calls.refuseAll()
        await storage.shutdown()
    }

    /// Refuses new calls, waits until those that run have ended, and shuts down as ``shutdown()``.
    ///
    /// ```swift
    /// let ended = await manager.shutdown(draining: .seconds(20))
    /// if ended > 0 { print("\(ended) calls were ended after 20 s") }
    /// ```
    ///
    /// New calls fail with ``NetworkError/Kind/shutDown``. A running call still sends its repetitions and redirects, and what its
    /// providers, authenticator and resolver ask for. Streams, sockets and downloads are calls, too. Afterwards none of the
    /// manager's threads, connections and descriptors is left. When the current task is cancelled, the wait ends at once.
    ///
    /// - Parameter limit: the longest wait.
    /// - Returns: the number of calls that were still running, and were ended.
    @discardableResult
    public func shutdown(draining limit: Duration) async -> Int {
        let drained = calls.close()
        // Whether they have ended is seen by their number.
        try? await pipeline.limits.run(within: limit, for: nil) { try await drained.value() }
        let left = calls.count(.all)
        await shutdown()
        return left
    }

    /// Waits until the current task is cancelled, and then shuts down as ``shutdown(draining:)``: the form of a service that
    /// a program runs beside others.
    ///
    /// ```swift
    /// await withTaskGroup(of: Void.self) { group in
    ///     group.addTask { await manager.run(draining: .seconds(20)) }
    ///     await serve()
    ///     group.cancelAll()                            // returns when the running calls have ended
    /// }
    /// ```
    ///
    /// Calls need no `run()`; it only gives the end of the program a place where running calls are waited for. It does not
    /// return before the task is cancelled, even if the manager was shut down in another way.
    ///
    /// - Parameter limit: the longest wait for running calls. Default 30 seconds.
    /// - Returns: the number of calls that were still running then, and were ended.
    @discardableResult
    public func run(draining limit: Duration = .seconds(30)) async -> Int {
        // Never yields; the iteration ends with the task's cancellation.
        let never = AsyncStream<Never> { _ in }
        for await _ in never {}
        // A task of its own, because the wait of the shutdown ends when its task is cancelled.
        return await Task { await shutdown(draining: limit) }.value
    }

    /// An executor that runs tasks on the engine's thread, so that their calls need no thread switch and no wake-up. It is the
    /// fastest way to make many small calls. `nil` with a custom transport.
    ///
    /// ```swift
    /// var total = 0
    /// try await withTaskExecutorPreference(manager.executor) {
    ///     for id in ids { total += try await FetchPrice(id: id).startRequest(on: manager).cents }
    /// }
    /// ```
    ///
    /// All transfers of the manager share that thread, and decoding runs on it too, so **never block it**. Code that blocks it
    /// until a call of the same manager ends waits forever. After the engine has ended, tasks run on the global executor.
    public var executor: (any TaskExecutor)? { engine?.executor }

    /// The numbers of live objects in the engine; `nil` with a custom transport.
    package var gauges: EngineGauges? {
        get async { await engine?.gauges }
    }

    /// The load of a manager at one time.
    public struct Load: Hashable, Sendable {
        /// The calls that run, those that wait included.
        public var calls = 0
        /// The open connections, idle ones included.
        public var connections = 0
        /// The connections by origin: scheme, host and port of the request that each was opened for, as in
        /// `https://example.org:443`. Those that only probe whether a server can be reached are not among them.
        public var origins: [String: Connections] = [:]
        /// The transfers that have a connection or are getting one.
        public var transfers = 0
        /// The transfers that wait for a free connection.
        public var queued = 0
        /// The circuits that have seen failures, by row and host, and whether each is open. Those of addresses
        /// (``RequestOptions/Addresses``) are by host and address, as in `https://example.org:443 192.0.2.7`.
        public var circuits: [String: Bool] = [:]
        /// The numbers of requests that run at most at once, as ``RequestLimits/adaptive`` has found them, by row and host.
        public var adaptiveLimits: [String: Int] = [:]
        /// The servers that were probed, and whether each could be connected to in its last probe.
        public var reachability: [String: Bool] = [:]
        /// How many certificates were accepted without the check for revocation that ``HTTPRequest/TLS/Revocation/soft`` asks
        /// for, because there was no valid list.
        public var uncheckedCertificates = 0
        /// How many bytes fewer were received because stored responses served as dictionaries
        /// (``RequestOptions/Values/usesDictionaries``).
        public var dictionarySavedBytes: Int64 = 0

        /// The open connections to an origin.
        public struct Connections: Hashable, Sendable {
            /// Those that a transfer uses, or that are being established.
            public var active = 0
            /// Those that are kept for later requests.
            public var idle = 0
        }
    }

    /// The load now. With a custom transport the numbers of connections and transfers are 0.
    public var load: Load {
        get async {
            let gauges = await engine?.gauges
            return Load(
                calls: calls.count(.all), connections: gauges?.sockets ?? 0,
                origins: (gauges?.origins ?? [:]).mapValues { Load.Connections(active: $0.active, idle: $0.idle) },
                transfers: gauges?.transfers ?? 0,
                queued: gauges?.waiting ?? 0,
                circuits: pipeline.limit.circuits.merging(engine?.addressCircuits.all ?? [:]) { $1 },
                adaptiveLimits: pipeline.limit.adaptiveLimits, reachability: reachability.known,
                uncheckedCertificates: engine?.uncheckedCertificates ?? 0,
                dictionarySavedBytes: cache.statistics.dictionarySavedBytes)
        }
    }

    // MARK: Calls

    /// Sends a call and collects its response.
    ///
    /// ```swift
    /// let created = try await manager.startRequest("POST", "/orders", body: .json(order))
    /// ```
    ///
    /// - Parameters:
    ///   - method: the method; standard names in any case, others as given.
    ///   - url: an absolute URL, or a path that is joined to the base URL.
    ///   - parameters: go into a multipart body, which a call with files has, as fields; are the whole body if `body` is
    ///     ``HTTPBody/json`` or ``HTTPBody/form``, or if there is no body and the method is not `GET`, `HEAD` or `DELETE`;
    ///     go into the query otherwise. Default none.
    ///   - files: parts of a multipart body. Default none.
    ///   - body: the body itself. Default `nil`.
    ///   - cache: the cache policy; `nil`, the default, for the manager's.
    ///   - timeout: the total timeout; `nil`, the default, for the manager's.
    ///   - headers: override the manager's; a `nil` value removes a field. Default none.
    ///   - tag: names a group of calls for ``cancelRequests(_:)``. Default `nil`.
    ///   - progress: called on the manager's callback executor, never after the call has ended.
    /// - Returns: a response with status 2xx or 304.
    /// - Throws: ``NetworkError``, of kind ``NetworkError/Kind/httpStatus`` for any other status; `CancellationError`
    ///   when the current task was cancelled.
    @discardableResult
    public func startRequest(
        _ method: String, _ url: some URLConvertible, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, cache: CachePolicy? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, progress: ProgressHandler? = nil
    ) async throws -> HTTPResponse {
        try await response(progress) {
            let parts = CallArguments(
                parameters: parameters, files: files, body: body, cache: cache, timeout: timeout, tag: tag)
            return (HTTPRequest(method, url.urlText, headers: headers), parts)
        }
    }

    /// Sends a call and reports its end to exactly one of `success` and `failure`, once, never synchronously.
    ///
    /// With ``CachePolicy/cacheThenNetwork``, `success` may be called once before that with a cached response, whose
    /// ``HTTPResponse/source`` says so, while ``RequestTask/isFinished`` is still `false`. If the network then fails,
    /// ``RequestTask/hasDeliveredCachedReply`` is `true`.
    ///
    /// The closures run on ``Configuration/callbackExecutor``. The parameters are those of the asynchronous form. The call
    /// continues when the returned task, or the manager, is released.
    @discardableResult
    public func startRequest(
        _ method: String, _ url: some URLConvertible, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, cache: CachePolicy? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil, progress: ProgressHandler? = nil,
        success: @escaping @Sendable (_ task: RequestTask, _ response: HTTPResponse) -> Void,
        failure: @escaping @Sendable (_ task: RequestTask, _ error: NetworkError) -> Void
    ) -> RequestTask {
        let parts = CallArguments(
            parameters: parameters, files: files, body: body, cache: cache, timeout: timeout, tag: tag)
        return start(HTTPRequest(method, url.urlText, headers: headers), parts, progress, success, failure)
    }

    /// Sends a request and returns the response, whatever its status.
    ///
    /// No judge rejects the response. The resolver, the parameter provider and the outcome observers are not called.
    ///
    /// - Throws: ``NetworkError`` when there is no response; `CancellationError` when the current task was cancelled.
    public func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let call = makeCall(located(request))
        guard request.streamsBody == true else {
            return try await run(call, observed: false) { _, _ in }
        }
        return try await runStream(call, observed: false)
    }

    /// Sends a call and returns its response as soon as the head has arrived. The body is then read from
    /// ``HTTPResponse/body``, with backpressure.
    ///
    /// ```swift
    /// for try await line in try await manager.stream("GET", url).body.lines { print(line) }
    /// ```
    ///
    /// The cache stores the body while it is read, and keeps it only if it is read to its end. There is no total timeout unless
    /// one is given; the idle timeout applies. Releasing the response and its body cancels the transfer. Outcome observers, and
    /// after a failure the resolver, are called without waiting for the whole body.
    ///
    /// - Throws: the same errors as ``startRequest(_:progress:)``; an error keeps up to 1 MiB of the response's body.
    public func stream(
        _ method: String, _ url: some URLConvertible, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, cache: CachePolicy? = nil, timeout: Duration? = nil,
        headers: HTTPHeaders = HTTPHeaders(), tag: String? = nil
    ) async throws -> HTTPResponse {
        let parts = CallArguments(
            parameters: parameters, files: files, body: body, cache: cache, timeout: timeout, tag: tag, streams: true)
        return try await stream(HTTPRequest(method, url.urlText, headers: headers), parts)
    }
}

/// The base URL of a manager, which may change at any time.
final class MutableBaseURL: Sendable {
    private let value: Mutex<String?>

    init(_ url: String?) { value = Mutex(url) }

    var url: String? {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}

/// A weak reference to the manager, for its own stages.
final class ManagerReference: Sendable {
    private struct Weak {
        weak var manager: CentralRequestManager?
    }

    private let reference = Mutex(Weak())

    var value: CentralRequestManager? {
        get { reference.withLock { $0.manager } }
        set { reference.withLock { $0.manager = newValue } }
    }
}

/// A weak reference to an object of a module above this one.
package final class AttachedObject: Sendable {
    private struct Weak {
        weak var object: (any AnyObject & Sendable)?
    }

    private let reference = Mutex(Weak())

    package var value: (any AnyObject & Sendable)? {
        get { reference.withLock { $0.object } }
        set { reference.withLock { $0.object = newValue } }
    }
}
