internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Platform

/// A span of a trace, as OpenTelemetry's protocol (OTLP) defines it.
struct TraceSpan: Sendable {
    enum Kind: Int64 {
        case `internal` = 1
        case client = 3
    }

    struct Event: Sendable {
        var name: String
        /// Nanoseconds since 1970.
        var time: UInt64
        var attributes: [(String, JSONValue)] = []
    }

    var traceID: String
    var spanID: String
    /// `nil` for a root.
    var parentID: String?
    var name: String
    var kind: Kind
    /// Nanoseconds since 1970.
    var start: UInt64
    var end: UInt64
    /// Texts and numbers by their names.
    var attributes: [(String, JSONValue)] = []
    var events: [Event] = []
    /// What went wrong; `nil` for no error. A cancellation by the caller is not an error.
    var error: String?

    /// The span as OTLP JSON: identifiers in hexadecimal, 64-bit numbers as text, enumerations as numbers.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "traceId": .string(traceID), "spanId": .string(spanID), "name": .string(name), "kind": .int(kind.rawValue),
            "startTimeUnixNano": .string("\(start)"), "endTimeUnixNano": .string("\(max(start, end))"),
            "attributes": Self.json(attributes),
            "status": error.map { ["code": 2, "message": .string($0)] } ?? [:],
        ]
        if let parentID { members["parentSpanId"] = .string(parentID) }
        if !events.isEmpty {
            members["events"] = .array(
                events.map {
                    [
                        "name": .string($0.name), "timeUnixNano": .string("\($0.time)"),
                        "attributes": Self.json($0.attributes),
                    ]
                })
        }
        return .object(members)
    }

    static func json(_ attributes: [(String, JSONValue)]) -> JSONValue {
        .array(
            attributes.map { key, value in
                let shown: JSONValue =
                    switch value {
                    case .int(let number): ["intValue": .string("\(number)")]
                    case .double: ["doubleValue": value]
                    default: ["stringValue": value]
                    }
                return ["key": .string(key), "value": shown]
            })
    }

    /// The body of an export.
    static func export(_ spans: [TraceSpan], resource: [(String, JSONValue)]) -> JSONValue {
        let scope: JSONValue = ["name": "LATNetworking", "version": .string(CurlTransport.version)]
        let scopeSpans: JSONValue = ["scope": scope, "spans": .array(spans.map(\.json))]
        return ["resourceSpans": [["resource": ["attributes": json(resource)], "scopeSpans": [scopeSpans]]]]
    }
}

/// Makes the spans of a record: one for the call, one for each exchange with a server, by OpenTelemetry's conventions for HTTP
/// clients, and one for each decision of the cache and each connection that was opened.
struct SpanMaker {
    let record: CallRecord
    let trace: CallRecord.Trace
    private let base: UInt64

    init?(_ record: CallRecord) {
        guard let trace = record.trace, trace.isSampled else { return nil }
        self.record = record
        self.trace = trace
        base = UInt64(max(0, record.startTime.timeIntervalSince1970) * 1e9)
    }

    private func time(_ offset: Duration) -> UInt64 { base + offset.wholeNanoseconds }

    var spans: [TraceSpan] {
        var spans = [call]
        for (index, exchange) in record.exchanges.enumerated() {
            let span = span(exchange, index)
            spans.append(span)
            if let connection = connection(exchange, in: span) { spans.append(connection) }
        }
        spans += record.cache.map(cache)
        return spans
    }

    private var call: TraceSpan {
        let end = record.duration ?? .zero
        var span = TraceSpan(
            traceID: trace.traceID, spanID: trace.spanID, parentID: trace.parentID,
            name: "call \(record.row?.name ?? Self.method(record.method))", kind: .internal, start: base, end: time(end)
        )
        span.attributes = [("lat.attempts", .int(Int64(record.attempts.count)))]
        if let tag = record.tag { span.attributes.append(("lat.tag", .string(tag))) }
        if let domain = record.row?.domain { span.attributes.append(("lat.domain", .string(domain))) }
        if let server = record.row?.server { span.attributes.append(("lat.server", .string(server))) }
        if let source = record.response?.source { span.attributes.append(("lat.source", .string(source.rawValue))) }
        if case .failure(let failure) = record.outcome { fail(&span, failure, failure.response?.status) }
        span.events = record.waits.map { wait in
            TraceSpan.Event(
                name: "wait", time: time(wait.start),
                attributes: [
                    ("lat.reason", .string(wait.reason)), ("lat.duration", .double((wait.duration ?? .zero).inSeconds)),
                ])
        }
        return span
    }

    private func span(_ exchange: CallRecord.Exchange, _ index: Int) -> TraceSpan {
        let method = Self.method(exchange.request.method)
        let shownMethod = method == "_OTHER" ? "HTTP" : method
        let template = record.row?.path
        var span = TraceSpan(
            traceID: trace.traceID, spanID: exchange.spanID ?? Hexadecimal.random(byteCount: 8), parentID: trace.spanID,
            name: template.map { "\(shownMethod) \($0)" } ?? shownMethod,
            kind: .client, start: time(exchange.start), end: time(exchange.start + (exchange.duration ?? .zero)))
        span.attributes = [("http.request.method", .string(method)), ("url.full", .string(exchange.request.url))]
        if method == "_OTHER" {
            span.attributes.append(("http.request.method_original", .string(exchange.request.method)))
        }
        // An origin always has a port.
        let origin = URLParts(URLReference.origin(of: exchange.request.url) ?? "")
        if let host = origin.host, let port = origin.port.flatMap({ Int64($0) }) {
            span.attributes.append(("server.address", .string(String(host))))
            span.attributes.append(("server.port", .int(port)))
        } else if let unix = try? UnixAddress(exchange.request.url) {
            span.attributes.append(("server.address", .string(unix.socketPath)))
        }
        if let template { span.attributes.append(("url.template", .string(template))) }
        if index > 0 { span.attributes.append(("http.request.resend_count", .int(Int64(index)))) }
        if exchange.hop > 0 { span.attributes.append(("lat.hop", .int(Int64(exchange.hop)))) }
        if let size = exchange.request.body?.size { span.attributes.append(("http.request.body.size", .int(size))) }
        if let response = exchange.response { describe(response, in: &span) }
        if let failure = exchange.failure { fail(&span, failure, nil) }
        return span
    }

    private func describe(_ response: CallRecord.Response, in span: inout TraceSpan) {
        span.attributes.append(("http.response.status_code", .int(Int64(response.status))))
        if response.version.hasPrefix("HTTP/") {
            span.attributes.append(("network.protocol.version", .string(String(response.version.dropFirst(5)))))
        }
        if let connection = response.connection, !connection.remoteAddress.isEmpty {
            span.attributes.append(("network.peer.address", .string(connection.remoteAddress)))
            span.attributes.append(("network.peer.port", .int(Int64(connection.remotePort))))
        }
        if let size = response.body?.wireSize ?? response.body?.size {
            span.attributes.append(("http.response.body.size", .int(size)))
        }
        if response.status >= 400 {
            span.attributes.append(("error.type", .string("\(response.status)")))
            span.error = response.reason
        }
    }

    private func fail(_ span: inout TraceSpan, _ failure: CallRecord.Failure, _ status: Int?) {
        guard !failure.isCancelled else { return }
        span.attributes.append(("error.type", .string(status.map { "\($0)" } ?? failure.group)))
        span.error = failure.message
    }

    /// Name resolution, connecting and the TLS handshake; `nil` for a reused connection.
    private func connection(_ exchange: CallRecord.Exchange, in span: TraceSpan) -> TraceSpan? {
        guard let stages = exchange.stages, stages.nameLookup != nil || stages.connect != nil else { return nil }
        let length = (stages.nameLookup ?? .zero) + (stages.connect ?? .zero) + (stages.tls ?? .zero)
        var connection = TraceSpan(
            traceID: trace.traceID, spanID: Hexadecimal.random(byteCount: 8), parentID: span.spanID, name: "connect",
            kind: .internal, start: time(exchange.start + stages.blocked),
            end: time(exchange.start + stages.blocked + length))
        for (name, part) in [("dns", stages.nameLookup), ("tcp", stages.connect), ("tls", stages.tls)] {
            if let part { connection.attributes.append(("lat.\(name).duration", .double(part.inSeconds))) }
        }
        return connection
    }

    private func cache(_ decision: CallRecord.CacheDecision) -> TraceSpan {
        var span = TraceSpan(
            traceID: trace.traceID, spanID: Hexadecimal.random(byteCount: 8), parentID: trace.spanID, name: "cache",
            kind: .internal, start: time(decision.time), end: time(decision.time))
        span.attributes = [("lat.cache.decision", .string(decision.action.rawValue))]
        if let reason = decision.reason { span.attributes.append(("lat.cache.reason", .string(reason))) }
        return span
    }

    private static func method(_ name: String) -> String { Series.methods.contains(name) ? name : "_OTHER" }
}
