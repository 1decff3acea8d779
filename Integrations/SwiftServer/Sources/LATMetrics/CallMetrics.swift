public import CoreMetrics
internal import LATConventions
internal import LATInspect
public import LATNetworking
internal import ResponseCache
internal import Synchronization

/// Counts requests, errors, repetitions, the cache and connections with swift-metrics, under the names and labels of `Metrics`
/// of LATInspect, which writes them as Prometheus' text.
///
/// ```swift
/// let metrics = CallMetrics()
/// configuration.accessories = [metrics]
/// let manager = try CentralRequestManager(configuration: configuration)
/// metrics.observe(outbox)                           // entries of an outbox, when there is one
/// await metrics.run(observing: manager)             // in a task: open connections, queue, circuits, reachability
/// ```
///
/// Durations are timers, sizes are recorders, what happens is counted, and states are meters. After 2,000 sets of labels all
/// others are counted as one, with the label `otel_metric_overflow`. One object may be the accessory of several managers.
public final class CallMetrics: CallMeter {
    let factory: any MetricsFactory
    private let requests: MetricCache<RequestKey, RequestMetrics>
    private let active: MetricCache<RequestKey, Meter>
    private let lifetimes: MetricCache<String, Timer>
    private let totals: Totals
    let outboxes = ObservedOutboxes()
    let totalsOfOwners = KnownTotals()
    let loads = ManagerLoads()

    /// Makes an observer.
    ///
    /// - Parameter factory: where the metrics are made. Default `nil`: that of `MetricsSystem`, or of `withMetricsFactory`
    ///   around this initializer.
    public init(_ factory: (any MetricsFactory)? = nil) {
        let factory = factory ?? MetricsSystem.factory
        self.factory = factory
        requests = MetricCache { RequestMetrics($0, factory) }
        active = MetricCache {
            Meter(label: "http_client_active_requests", dimensions: $0?.dimensions ?? overflow, factory: factory)
        }
        lifetimes = MetricCache {
            Timer(
                label: "http_client_connection_duration_seconds",
                dimensions: $0.map { serverDimensions(HTTPRequest.Server($0)) } ?? overflow, factory: factory)
        }
        totals = Totals(factory)
    }

    /// Counts a call.
    public func callDidStart() { totals.started.increment() }

    /// Counts a request that runs.
    public func attemptDidStart(_ request: HTTPRequest) { active[RequestKey(request)].increment() }

    /// Counts a response.
    public func attemptDidEnd(
        _ request: HTTPRequest, with response: HTTPResponse, row: ObservedCall.Row?, after time: Duration
    ) {
        active[RequestKey(request)].decrement()
        var key = RequestKey(request)
        key.status = response.status
        key.version = String(response.version.rawValue.drop { $0 != "/" }.dropFirst())
        key.template = row?.path ?? ""
        let metrics = requests[key]
        metrics.duration.record(time)
        guard response.source == .network else { return }
        let connection = response.connection
        metrics.responseSize.record(connection?.receivedBodySize ?? Int64(response.body.data?.count ?? 0))
        guard let connection else { return }
        metrics.requestSize.record(connection.sentBodySize)
        totals.queue.record(response.timings.queue)
        totals.increment("lat_client_connections_total", "state", connection.isReused ? "reused" : "opened")
    }

    /// Counts a request without a response.
    public func attemptDidFail(
        _ request: HTTPRequest, with error: NetworkError, row: ObservedCall.Row?, after time: Duration
    ) {
        active[RequestKey(request)].decrement()
        var key = RequestKey(request)
        key.error = Conventions.errorType(error)
        key.template = row?.path ?? ""
        requests[key].duration.record(time)
    }

    /// Counts the end of a request that another one of its call has outrun, and nothing else of it.
    public func attemptWasAbandoned(_ request: HTTPRequest, row: ObservedCall.Row?, after time: Duration) {
        active[RequestKey(request)].decrement()
        totals.abandoned.increment()
    }

    /// Counts a wait, a repetition or a decision of the cache.
    public func count(_ kind: CallEvent.Kind) {
        switch kind {
        case .retrying: totals.retries.increment()
        case .hedging: totals.hedges.increment()
        case .replaying: totals.replays.increment()
        case .waiting(let reason): totals.increment("lat_client_waits_total", "reason", reason.rawValue)
        case .cache(let verdict):
            totals.increment(
                "lat_client_cache_decisions_total", "decision", CallRecord.CacheDecision.Action(verdict).rawValue)
        case .notStored: totals.notStored.increment()
        case .undocumentedStatus: totals.increment("lat_client_undocumented_total", "what", "status")
        case .unknownValue: totals.increment("lat_client_undocumented_total", "what", "value")
        case .chaos(let fault): totals.increment("lat_client_chaos_faults_total", "fault", fault.name)
        case .started, .sending, .answered, .failed, .abandoned, .waited, .composed, .finished: break
        }
    }

    /// Counts the result of a call.
    public func callDidEnd(with result: Result<HTTPResponse, NetworkError>, after time: Duration) {
        totals.duration.record(time)
        switch result {
        case .success(let response): totals.increment("lat_client_calls_total", "source", response.source.rawValue)
        case .failure(let error):
            totals.increment("lat_client_call_errors_total", "error_type", Conventions.errorType(error))
        }
    }

    /// Counts a connection that was closed.
    public func connectionDidClose(to origin: String, after time: Duration) {
        lifetimes[origin].record(time)
    }
}

extension Timer {
    func record(_ time: Duration) {
        let (seconds, attoseconds) = time.components
        let (whole, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        recordNanoseconds(overflows ? .max : whole + attoseconds / 1_000_000_000)
    }
}

let overflow = [("otel_metric_overflow", "true")]

func serverDimensions(_ server: HTTPRequest.Server?) -> [(String, String)] {
    [
        ("server_address", server?.address ?? ""), ("server_port", server?.port.map { "\($0)" } ?? ""),
        ("url_scheme", server?.scheme ?? ""),
    ]
}

/// The labels of a request. Origin is the part of the URL before its path.
struct RequestKey: Hashable {
    let origin: Substring
    let method: String
    var status = 0
    var error = ""
    var version = ""
    var template = ""

    init(_ request: HTTPRequest) {
        method = Conventions.method(request)
        let url = request.url
        guard !url.hasPrefix("unix://") else {
            origin = url.prefix(7) + url.dropFirst(7).prefix { $0 != ":" && $0 != "?" && $0 != "#" }
            return
        }
        // The path begins at the third slash.
        var slashes = 0
        let end = url.utf8.firstIndex { byte in
            if byte == UInt8(ascii: "/") { slashes += 1 }
            return slashes == 3 || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
        }
        origin = url[..<(end ?? url.endIndex)]
    }

    var dimensions: [(String, String)] {
        var all = serverDimensions(HTTPRequest.Server(String(origin)))
        all.append(("http_request_method", method))
        if status > 0 { all.append(("http_response_status_code", "\(status)")) }
        let error = error.isEmpty && status >= 400 ? "\(status)" : error
        if !error.isEmpty { all.append(("error_type", error)) }
        if !version.isEmpty { all.append(("network_protocol_version", version)) }
        if !template.isEmpty { all.append(("url_template", template)) }
        return all
    }
}

/// What is noted for each request.
struct RequestMetrics: Sendable {
    let duration: Timer
    let requestSize: Recorder
    let responseSize: Recorder

    init(_ key: RequestKey?, _ factory: any MetricsFactory) {
        let dimensions = key?.dimensions ?? overflow
        duration = Timer(label: "http_client_request_duration_seconds", dimensions: dimensions, factory: factory)
        requestSize = Recorder(
            label: "http_client_request_body_size_bytes", dimensions: dimensions, aggregate: true, factory: factory)
        responseSize = Recorder(
            label: "http_client_response_body_size_bytes", dimensions: dimensions, aggregate: true, factory: factory)
    }
}

/// Metrics by their labels, made once. All sets of labels after the first 2,000 share one.
final class MetricCache<Key: Hashable & Sendable, Metric: Sendable>: Sendable {
    private static var limit: Int { 2_000 }
    private let known = Mutex<[Key?: Metric]>([:])
    private let make: @Sendable (Key?) -> Metric

    init(_ make: @escaping @Sendable (Key?) -> Metric) { self.make = make }

    subscript(key: Key) -> Metric {
        known.withLock { known in
            if let metric = known[key] { return metric }
            let place = known.count < Self.limit ? key : nil
            if let metric = known[place] { return metric }
            let metric = make(place)
            known[place] = metric
            return metric
        }
    }
}

/// The metrics without a server label.
struct Totals: Sendable {
    private struct Label: Hashable {
        let metric: String
        let name: String
        let value: String
    }

    let started: Counter
    let retries: Counter
    let hedges: Counter
    let abandoned: Counter
    let replays: Counter
    let notStored: Counter
    let duration: Timer
    let queue: Timer
    private let labelled: MetricCache<Label, Counter>

    init(_ factory: any MetricsFactory) {
        func counter(_ name: String) -> Counter { Counter(label: name, factory: factory) }
        started = counter("lat_client_calls_started_total")
        retries = counter("lat_client_retries_total")
        hedges = counter("lat_client_hedges_total")
        abandoned = counter("lat_client_attempts_abandoned_total")
        replays = counter("lat_client_replays_total")
        notStored = counter("lat_client_cache_not_stored_total")
        duration = Timer(label: "lat_client_call_duration_seconds", factory: factory)
        queue = Timer(label: "lat_client_queue_duration_seconds", factory: factory)
        labelled = MetricCache { label in
            Counter(
                label: label?.metric ?? "lat_client_overflow_total",
                dimensions: label.map { [($0.name, $0.value)] } ?? overflow, factory: factory)
        }
    }

    func increment(_ metric: String, _ label: String, _ value: String) {
        labelled[Label(metric: metric, name: label, value: value)].increment()
    }
}
