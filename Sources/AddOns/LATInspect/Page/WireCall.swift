internal import FoundationEssentials
internal import LATNetworking

/// A value that is written as null when it is unknown, because the page merges each state of a call into the one before, and
/// recognizes an open span by a duration of null.
@propertyWrapper struct OrNull<Value: Encodable>: Encodable {
    var wrappedValue: Value?

    func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

/// A call as the page gets it: a line of its list, in JSON. Headers are fetched when the call is opened (``WireDetails``).
struct WireCall: Encodable {
    struct Cache: Encodable {
        var outcome: String
        var reason: String?
        var tier: String?
    }

    /// A bar of the waterfall. Times are milliseconds since the call's start; `duration` is `nil` while it lasts.
    struct Span: Encodable {
        var kind: String
        var attempt = 1
        var hop = 0
        var start: Double
        @OrNull var duration: Double? = nil
        var status: Int?
        var url: String?
        var note: String?
    }

    enum State: String, Encodable {
        case waiting, sending, receiving, done, failed, cancelled
    }

    var id: UInt64
    var number: UInt64
    var startedDateTime: String
    var method: String
    var url: String
    @OrNull var domain: String?
    @OrNull var row: String?
    @OrNull var template: String?
    @OrNull var tag: String?
    var state: State
    @OrNull var status: Int?
    @OrNull var errorKind: String?
    @OrNull var error: String?
    @OrNull var source: String?
    @OrNull var cache: Cache?
    @OrNull var duration: Double?
    @OrNull var requestSize: Int64?
    @OrNull var responseSize: Int64?
    @OrNull var mediaType: String?
    /// How many events, lines or messages there were.
    @OrNull var messageCount: Int?
    /// The process, where a page shows several.
    @OrNull var program: String?
    var spans: [Span]
}

extension WireCall {
    /// - Parameter number: The number of the call among those of the inspector; the first is 1.
    init(_ record: CallRecord, number: UInt64, program: String? = nil) {
        id = record.id
        spans = Self.spans(of: record)
        self.number = number
        startedDateTime = record.startTime.iso8601WithMilliseconds
        method = record.method
        url = record.url
        domain = record.row?.domain
        row = record.row?.server
        template = record.row?.path
        tag = record.tag
        let response = record.response ?? record.exchanges.last?.response
        status = response?.status
        switch record.outcome {
        case .response: state = .done
        case .failure(let failure):
            // A call that failed because of its status is shown with that status.
            state = failure.isCancelled ? .cancelled : failure.kind == "httpStatus" && response != nil ? .done : .failed
            errorKind = failure.kind
            error = failure.message
        case nil: state = record.exchanges.isEmpty ? .waiting : response == nil ? .sending : .receiving
        }
        source = record.outcome == nil ? nil : response.map { Self.name(of: $0.source) }
        let upstream = Self.upstream(record)
        cache =
            record.cache.last.map { Self.cache($0, source, record, upstream) }
            ?? upstream.map { Cache(outcome: "upstream", reason: $0, tier: nil) }
        duration = record.duration?.milliseconds
        let sent = (record.exchanges.last?.request ?? record.request).body
        messageCount = record.messageCount > 0 ? record.messageCount : nil
        self.program = program
        requestSize = sent?.size ?? sent?.wireSize
        responseSize = response.map { $0.body?.size ?? ($0.body == nil ? 0 : -1) }
        mediaType = response?.body?.contentType ?? response?.header("Content-Type")
    }

    private static func name(of source: HTTPResponse.Source) -> String {
        switch source {
        case .memoryCache: "memory"
        case .diskCache: "disk"
        default: source.rawValue
        }
    }

    private static func cache(
        _ decision: CallRecord.CacheDecision, _ source: String?, _ record: CallRecord, _ upstream: String?
    ) -> Cache {
        func sentence(_ text: String, _ section: String?) -> String {
            text.prefix(1).uppercased() + text.dropFirst() + (section.map { " (\($0))" } ?? "") + "."
        }
        var sentences = [decision.reason.map { sentence($0, decision.section) } ?? decision.section.map { $0 + "." }]
        sentences.append(
            record.notStored.map { sentence("the response is not stored: \($0)", record.notStoredSection) })
        sentences.append(upstream)
        let reason = sentences.compactMap(\.self).joined(separator: " ")
        return Cache(
            outcome: decision.action.rawValue, reason: reason.isEmpty ? nil : reason,
            tier: decision.action == .hit || decision.action == .stale ? source : nil)
    }

    /// What the caches of servers did (`Cache-Status`), the one next to the server first; `nil` if none has said it.
    private static func upstream(_ record: CallRecord) -> String? {
        let fields = record.exchanges.last?.response?.headers.filter { $0.name.lowercased() == "cache-status" } ?? []
        let caches = HTTPResponse.CacheStatus.all(in: fields.map(\.value))
        return caches.isEmpty ? nil : caches.map { "\($0)." }.joined(separator: " ") + " (RFC 9211)"
    }

    private static func spans(of record: CallRecord) -> [Span] {
        let exchanges = record.exchanges
        var spans = record.waits.map { wait in
            let kind = wait.reason == "sharedRequest" ? "shared" : wait.reason
            // A wait belongs to the attempt after it; the pause before a repetition to the one that failed.
            let next = exchanges.first { $0.start >= wait.start }
            let last = exchanges.last { $0.start < wait.start }
            return Span(
                kind: kind, attempt: (wait.reason == "retry" ? last : next ?? last)?.attempt ?? 1,
                hop: wait.reason == "retry" ? last?.hop ?? 0 : next?.hop ?? 0, start: wait.start.milliseconds,
                duration: wait.duration?.milliseconds)
        }
        for fault in record.faults ?? [] {
            let owner = exchanges.last { $0.start <= fault.time && $0.hop == fault.hop } ?? exchanges.first
            spans.append(
                Span(
                    kind: "chaos", attempt: owner?.attempt ?? 1, hop: fault.hop, start: fault.time.milliseconds,
                    duration: fault.delay?.milliseconds ?? 0, note: "\(fault.kind), on purpose"))
        }
        for decision in record.cache {
            let time = decision.time.milliseconds
            // The start of a look-up is not recorded: it is taken to be the end of the span before it.
            var ends = spans.compactMap { span in span.duration.map { span.start + $0 } }
            ends += exchanges.compactMap { exchange in
                exchange.duration.map { (exchange.start + $0).milliseconds }
            }
            let before = ends.filter { $0 <= time }.max() ?? 0
            let next = exchanges.first { $0.start >= decision.time } ?? exchanges.last
            spans.append(
                Span(
                    kind: "cache", attempt: next?.attempt ?? 1, hop: decision.hop, start: before,
                    duration: time - before, note: decision.action.rawValue))
        }
        for exchange in exchanges { spans += Self.spans(of: exchange) }
        return spans.sorted { $0.start < $1.start }
    }

    private static func spans(of exchange: CallRecord.Exchange) -> [Span] {
        let status = exchange.response?.status
        func span(_ kind: String, _ start: Double, _ duration: Double?) -> Span {
            Span(
                kind: kind, attempt: exchange.attempt, hop: exchange.hop, start: start, duration: duration,
                status: status,
                url: exchange.request.url)
        }
        var start = exchange.start.milliseconds
        guard let stages = exchange.stages else {
            return [span(status == nil ? "wait" : "receive", start, exchange.duration?.milliseconds)]
        }
        var spans: [Span] = []
        let all: [(String, Duration?)] = [
            ("queue", stages.blocked), ("dns", stages.nameLookup), ("connect", stages.connect), ("tls", stages.tls),
            ("wait", stages.wait), ("receive", stages.receive),
        ]
        for (kind, stage) in all {
            guard let duration = stage?.milliseconds, duration > 0 else { continue }
            spans.append(span(kind, start, duration))
            start += duration
        }
        return spans.isEmpty ? [span("wait", start, 0)] : spans
    }
}

extension Duration {
    /// Milliseconds, to the microsecond.
    var milliseconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds * 1_000_000 + attoseconds / 1_000_000_000_000) / 1000
    }
}
