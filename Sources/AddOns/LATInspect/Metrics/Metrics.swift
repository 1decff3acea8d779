internal import FoundationEssentials
public import LATNetworking
internal import Platform
internal import Synchronization

/// Counts requests, errors, repetitions, the cache, connections and waits, for Prometheus.
///
/// ```swift
/// let metrics = Metrics()
/// configuration.accessories = [metrics]
/// let manager = try CentralRequestManager(configuration: configuration)
/// metrics.observe(manager)                          // connections, queue, circuits, reachability
/// let endpoint = try metrics.serve(port: 9464)      // http://127.0.0.1:9464/metrics
/// ```
///
/// Metrics that OpenTelemetry's conventions for HTTP clients define have the names given there. All other names begin
/// with `lat_client_`. A series is identified by server, method, status, kind of error, protocol and the path of the
/// *row*, so a thousand different URLs of one row are one series. After 2,000 sets of labels all others are counted as
/// one, with the label `otel_metric_overflow`.
///
/// Counting takes no lock. One object may be the accessory of several managers.
public final class Metrics: CallMeter {
    /// A text format of Prometheus.
    public enum Format: Hashable, Sendable {
        /// The text format 0.0.4, which every version of Prometheus reads.
        case prometheus
        /// OpenMetrics 1.0.
        case openMetrics

        /// The media type.
        public var contentType: String {
            switch self {
            case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
            case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
        }

        /// The format that a scraper prefers according to its field `Accept` (RFC 9110 §12.5.1). ``prometheus`` when it
        /// does not distinguish them by name, or accepts neither.
        public init(accept: String?) {
            let ranges = FieldList.elements(of: accept ?? "").compactMap(MediaRange.init)
            func best(_ type: String, _ version: String) -> MediaRange? {
                ranges.filter { $0.matches(type, version) }.max { $0.precedence < $1.precedence }
            }
            let open = best("application/openmetrics-text", "1.0.0")
            let plain = best("text/plain", "0.0.4")
            let (openWeight, plainWeight) = (open?.weight ?? 0, plain?.weight ?? 0)
            let isNamed = (open?.precedence ?? 0) > 0
            self =
                openWeight > plainWeight || openWeight > 0 && openWeight == plainWeight && isNamed
                ? .openMetrics : .prometheus
        }
    }

    /// An element of `Accept`. Parameters other than `q` and `version` are ignored, such as Prometheus' `escaping`.
    private struct MediaRange {
        private let type: String
        private let version: String?
        /// In thousandths.
        let weight: Int

        init?(_ element: String) {
            let parts = FieldList.elements(of: element.lowercased(), separatedBy: UInt8(ascii: ";"))
            guard let type = parts.first else { return nil }
            let parameters = parts.dropFirst().map(FieldList.parameter)
            let weight = parameters.last { $0.name == "q" }
            guard let weight = weight.map({ FieldList.weight($0.value ?? "") }) ?? 1000 else { return nil }
            self.type = type
            self.weight = weight
            version = parameters.first { $0.name == "version" }?.value
        }

        /// Of several ranges that match, the most specific one counts.
        var precedence: Int { type == "*/*" ? 0 : type.hasSuffix("/*") ? 1 : version == nil ? 2 : 3 }

        func matches(_ type: String, _ version: String) -> Bool {
            let isOfType = self.type.hasSuffix("/*") ? type.hasPrefix(self.type.dropLast()) : type == self.type
            return self.type == "*/*" || isOfType && self.version ?? version == version
        }
    }

    private let table = SeriesTable()
    private let totals = ShardedCounts(MetricTotals.size)
    private let managers = Mutex(WeakList<CentralRequestManager>())
    private let outboxes = Mutex(WeakList<Outbox>())
    private let keptTotals = Mutex(KeptTotals())

    /// Makes metrics that have counted nothing.
    public init() {}

    /// Adds the state of a manager at the time of each scrape: connections, transfers, queue, open circuits, and whether
    /// the domains that it has probed can be reached. The manager is not kept alive.
    public func observe(_ manager: CentralRequestManager) {
        managers.withLock { $0.add(manager) }
    }

    /// Adds the state of an outbox at the time of each scrape: depth, size and age of the oldest entry, and what was sent and
    /// failed. The outbox is not kept alive.
    public func observe(_ outbox: Outbox) {
        outboxes.withLock { $0.add(outbox) }
    }

    // MARK: Counting

    /// Counts a call.
    public func callDidStart() { totals.add(MetricTotals.started) }

    /// Counts a request that runs.
    public func attemptDidStart(_ request: HTTPRequest) {
        let key = SeriesKey(method: Self.index(of: request.method), status: SeriesKey.started)
        table.withOrigin(of: request.url) { origin in
            table.series(key, origin)._withUnsafeGuaranteedRef { $0.counts.add(Series.started) }
        }
    }

    /// Counts a response.
    public func attemptDidEnd(
        _ request: HTTPRequest, with response: HTTPResponse, row: ObservedCall.Row?, after time: Duration
    ) {
        let shard = ShardedCounts.shard
        let version: UInt8 =
            switch response.version {
            case .http1_0: 1
            case .http1_1: 2
            case .http2: 3
            case .http3: 4
            }
        let key = SeriesKey(
            method: Self.index(of: request.method), version: version, status: Int16(clamping: response.status),
            template: row?.path ?? "")
        guard let series = end(request, key, after: time, shard: shard), response.source == .network else { return }
        let connection = response.connection
        let received = connection?.receivedBodySize ?? Int64(response.body.data?.count ?? 0)
        series._withUnsafeGuaranteedRef { series in
            Series.responseSize.note(UInt64(max(0, received)), in: series.counts, shard: shard)
            guard let connection else { return }
            Series.requestSize.note(UInt64(max(0, connection.sentBodySize)), in: series.counts, shard: shard)
        }
        guard let connection else { return }
        MetricTotals.queue.note(response.timings.queue.wholeNanoseconds, in: totals, shard: shard)
        totals.add(connection.isReused ? MetricTotals.reused : MetricTotals.opened, shard: shard)
    }

    /// Counts a request without a response.
    public func attemptDidFail(
        _ request: HTTPRequest, with error: NetworkError, row: ObservedCall.Row?, after time: Duration
    ) {
        let key = SeriesKey(
            method: Self.index(of: request.method), status: 0,
            error: CallRecord.Failure.group(of: error.kind.description), template: row?.path ?? "")
        _ = end(request, key, after: time, shard: ShardedCounts.shard)
    }

    /// Counts a connection that was closed, unless there are too many sets of labels.
    public func connectionDidClose(to origin: String, after time: Duration) {
        table.withOrigin(of: origin) { place in
            table.series(SeriesKey(method: 0, status: SeriesKey.closed), place)._withUnsafeGuaranteedRef { series in
                // The overflow series has the bounds of requests.
                guard series !== table.overflow else { return }
                Series.lifetime.note(time.wholeNanoseconds, in: series.counts, shard: ShardedCounts.shard)
            }
        }
    }

    /// Counts the end of a request that another one of its call has outrun, and nothing else of it.
    public func attemptWasAbandoned(_ request: HTTPRequest, row: ObservedCall.Row?, after time: Duration) {
        totals.add(MetricTotals.abandoned)
        let key = SeriesKey(method: Self.index(of: request.method), status: SeriesKey.started)
        table.withOrigin(of: request.url) { origin in
            table.series(key, origin)._withUnsafeGuaranteedRef { $0.counts.add(Series.endedElsewhere) }
        }
    }

    /// Counts the end of a request that ran. Returns its series, which lives as long as this object.
    private func end(
        _ request: HTTPRequest, _ key: SeriesKey, after time: Duration, shard: Int
    ) -> Unmanaged<Series>? {
        table.withOrigin(of: request.url) { origin in
            let series = table.series(key, origin)
            series._withUnsafeGuaranteedRef { found in
                Series.duration.note(time.wholeNanoseconds, in: found.counts, shard: shard)
                // The overflow series mixes origins and methods, so its ends are also counted beside the starts.
                guard found === table.overflow else { return }
                table.series(SeriesKey(method: key.method, status: SeriesKey.started), origin)
                    ._withUnsafeGuaranteedRef { $0.counts.add(Series.endedElsewhere, shard: shard) }
            }
            return series
        }
    }

    /// Counts a wait, a repetition or a decision of the cache.
    public func count(_ kind: CallEvent.Kind) {
        switch kind {
        case .retrying: totals.add(MetricTotals.retries)
        case .hedging: totals.add(MetricTotals.hedges)
        case .replaying: totals.add(MetricTotals.replays)
        case .waiting(let reason): totals.add(MetricTotals.wait(reason))
        case .cache(let verdict): totals.add(MetricTotals.cache(verdict))
        case .notStored: totals.add(MetricTotals.notStored)
        case .undocumentedStatus: totals.add(MetricTotals.undocumentedStatus)
        case .unknownValue: totals.add(MetricTotals.unknownValue)
        case .chaos(let fault): totals.add(MetricTotals.fault(fault))
        case .started, .sending, .answered, .failed, .abandoned, .waited, .composed, .finished: break
        }
    }

    /// Counts the result of a call.
    public func callDidEnd(with result: Result<HTTPResponse, NetworkError>, after time: Duration) {
        let shard = ShardedCounts.shard
        MetricTotals.duration.note(time.wholeNanoseconds, in: totals, shard: shard)
        switch result {
        case .success(let response): totals.add(MetricTotals.source(response.source), shard: shard)
        case .failure(let error): totals.add(MetricTotals.error(error.kind), shard: shard)
        }
    }

    private static func index(of method: HTTPMethod) -> UInt8 {
        if method == .get { return 0 }
        return UInt8(Series.methods.firstIndex(of: method.rawValue) ?? Series.methods.count - 1)
    }

    // MARK: Text

    /// The metrics as text.
    ///
    /// - Parameter format: Default: the format that every version of Prometheus reads.
    public func text(_ format: Format = .prometheus) async -> String {
        var families = requestFamilies + MetricTotals.families(totals)
        families += await LoadFamilies.families(of: managers.withLock(\.objects), keptTotals)
        families += await OutboxFamilies.families(of: outboxes.withLock(\.objects), keptTotals)
        return MetricText(format: format).text(families)
    }

    private var requestFamilies: [MetricFamily] {
        var duration = MetricFamily(
            name: "http_client_request_duration_seconds", kind: .histogram, unit: "seconds",
            help: "Time from sending a request to its response, one for each attempt and redirect.")
        var requestSize = MetricFamily(
            name: "http_client_request_body_size_bytes", kind: .histogram, unit: "bytes",
            help: "Size of request bodies on the wire.")
        var responseSize = MetricFamily(
            name: "http_client_response_body_size_bytes", kind: .histogram, unit: "bytes",
            help: "Size of response bodies on the wire. Streams count as 0.")
        var active = MetricFamily(
            name: "http_client_active_requests", kind: .gauge, help: "Requests that were sent and have no response yet."
        )
        var lifetime = MetricFamily(
            name: "http_client_connection_duration_seconds", kind: .histogram, unit: "seconds",
            help: "Time from opening a connection to its end.")
        let (all, hasOverflow) = table.all
        let series = all.sorted { ($0.origin.count, $0.key.template) < ($1.origin.count, $1.key.template) }
        func add(_ series: Series, _ labels: [(name: String, value: String)]) {
            func sample(_ layout: HistogramLayout) -> MetricSample {
                MetricSample(labels: labels, value: .histogram(layout.histogram(series.counts)))
            }
            duration.samples.append(sample(Series.duration))
            if Series.requestSize.count(series.counts) > 0 { requestSize.samples.append(sample(Series.requestSize)) }
            if Series.responseSize.count(series.counts) > 0 { responseSize.samples.append(sample(Series.responseSize)) }
        }
        var endings: [[UInt8]: UInt64] = [:]
        for one in series where one.key.status != SeriesKey.closed {
            endings[one.origin + [one.key.method], default: 0] += Series.duration.count(one.counts)
        }
        for one in series {
            if one.key.status == SeriesKey.closed {
                lifetime.samples.append(
                    MetricSample(
                        labels: one.originLabels, value: .histogram(Series.lifetime.histogram(one.counts))))
                continue
            }
            guard one.key.status == SeriesKey.started else {
                add(one, one.labels)
                continue
            }
            let elsewhere = one.counts[Series.endedElsewhere]
            let ended = (endings[one.origin + [one.key.method]] ?? 0) + elsewhere
            // The reads have no fixed order: if an end is seen without its start, the difference is negative.
            let count = max(0, Int64(bitPattern: one.counts[Series.started] &- ended))
            active.samples.append(MetricSample(labels: one.labels, value: .number(Double(count))))
        }
        if hasOverflow { add(table.overflow, [("otel_metric_overflow", "true")]) }
        // Each spelling of an origin has its own series, but `http://A.org` and `http://a.org:80` have equal labels.
        return [duration, requestSize, responseSize, active, lifetime].map(\.merged)
    }
}

extension Duration {
    /// Nanoseconds, at least 0.
    var wholeNanoseconds: UInt64 {
        let attoseconds = attoseconds
        guard attoseconds > 0 else { return 0 }
        // A division of 128 bits takes long. A nanosecond is 2^9 · 1,953,125 attoseconds, and 2^72 are 4,722 seconds.
        if attoseconds < Int128(1) << 72 { return UInt64(truncatingIfNeeded: attoseconds >> 9) / 1_953_125 }
        return UInt64(clamping: attoseconds / 1_000_000_000)
    }
}
