public import FoundationEssentials
internal import HTTPCore
public import LATNetworking
internal import Synchronization

/// Sends the calls of a manager as traces to a collector: OTLP over HTTP in JSON.
///
/// ```swift
/// let traces = try TraceExporter("http://127.0.0.1:4318", service: "prices")
/// configuration.accessories = [traces]
/// // …
/// await traces.flush()                              // before the program ends
/// ```
///
/// A call joins the trace of its task (``TraceParent/current``) or of its request, and starts one where there is none. The
/// exporter sends with its own manager, which has no accessories. A call never waits for the collector: spans that do not fit
/// in the queue are dropped and counted.
public final class TraceExporter: RequestAccessory {
    /// The bounds of an exporter.
    public struct Limits: Sendable {
        /// The largest number of spans that wait. Default 2,048.
        public var queue = 2_048
        /// The largest number of spans in one request. Default 512.
        public var batch = 512
        /// How long a span waits for others. Default 5 seconds.
        public var delay: Duration = .seconds(5)
        /// The time for one request with its repetitions. Default 30 seconds.
        public var timeout: Duration = .seconds(30)

        /// The defaults of OpenTelemetry.
        public init() {}
    }

    /// The number of spans by their outcome.
    public struct Counts: Hashable, Sendable {
        /// Accepted by the collector.
        public var sent = 0
        /// Dropped, because the queue was full.
        public var dropped = 0
        /// Lost, because the collector could not be reached or refused them.
        public var failed = 0
        /// Waiting now.
        public var queued = 0
    }

    private let core: SpanQueue
    private let recorder: CallRecorder
    private let ratio: Double

    /// Makes an exporter.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the collector. Without a path `/v1/traces` is added. Default: the port 4318 of this
    ///     machine.
    ///   - service: the name of this service, `service.name`.
    ///   - headers: for the collector, such as a key. Default none.
    ///   - ratio: the share of the traces begun here that are recorded, from 0 to 1. For a call that joins a trace, that
    ///     trace decides. Default 1.
    ///   - limits: the bounds of the queue and the requests. Default: those of OpenTelemetry.
    /// - Throws: ``NetworkError`` for an invalid address or limit.
    public init(
        _ endpoint: String = "http://127.0.0.1:4318", service: String, headers: HTTPHeaders = HTTPHeaders(),
        ratio: Double = 1, limits: Limits = Limits()
    ) throws {
        guard URLReference.origin(of: endpoint) != nil else {
            throw NetworkError(
                .invalidRequest,
                message: "\"\(URLParts.redacted(endpoint))\" is not the address of a collector; give one such as "
                    + "http://127.0.0.1:4318")
        }
        for (name, number) in [("queue", limits.queue), ("batch", limits.batch)] where number < 1 {
            throw NetworkError(.invalidRequest, message: "limits.\(name) is \(number); give 1 or more")
        }
        let url = Self.url(of: endpoint)
        // The URLs of records have no user information.
        let shown = Secrets.standard.shown(url: url)
        self.ratio = min(max(0, ratio), 1)
        let core = try SpanQueue(url: url, service: service, headers: headers, limits)
        self.core = core
        recorder = CallRecorder(bodies: .none) { record in
            guard !record.url.hasPrefix(shown), let spans = SpanMaker(record)?.spans else { return }
            core.add(spans)
        }
    }

    /// The endpoint, with `/v1/traces` if it has no path. User information and query stay.
    private static func url(of endpoint: String) -> String {
        let parts = URLParts(endpoint)
        guard parts.path.allSatisfy({ $0 == "/" }) else { return endpoint }
        return "\(parts.beforePath)/v1/traces\(endpoint[parts.path.endIndex...])"
    }

    /// The number of spans by their outcome.
    public var counts: Counts { core.counts }

    /// Sends the waiting spans, and returns when they were sent or lost.
    public func flush() async { await core.flush() }

    /// Starts a trace for a call that has none.
    public func trace(of request: HTTPRequest) -> TraceParent? {
        TraceParent(isSampled: ratio >= 1 || ratio > 0 && Double.random(in: 0..<1) < ratio)
    }

    /// Begins the record of a call.
    public func willStart(_ call: ObservedCall) {
        if call.trace?.isSampled == true { recorder.willStart(call) }
    }

    /// Notes an event.
    public func handle(_ event: CallEvent) {
        if event.call.trace?.isSampled == true { recorder.handle(event) }
    }

    /// Counts the bytes of a stream.
    public func didRead(_ chunk: Data, of call: ObservedCall) {
        if call.trace?.isSampled == true { recorder.didRead(chunk, of: call) }
    }
}
