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

    enum Value: Sendable, Hashable {
        case text(String)
        case int(Int64)
        case double(Double)
    }

    struct Event: Sendable {
        var name: String
        /// Nanoseconds since 1970.
        var time: UInt64
        var attributes: [(String, Value)] = []
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
    var attributes: [(String, Value)] = []
    var events: [Event] = []
    /// What went wrong; `nil` for no error. A cancellation by the caller is not an error.
    var error: String?

    /// As JSON by the rules of OTLP: identifiers in hexadecimal, 64-bit numbers as text, enumerations as numbers.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "traceId": .string(traceID), "spanId": .string(spanID), "name": .string(name), "kind": .int(kind.rawValue),
            "startTimeUnixNano": .string("\(start)"), "endTimeUnixNano": .string("\(max(start, end))"),
            "attributes": Self.json(attributes),
            "status": error.map { .object(["code": .int(2), "message": .string($0)]) } ?? .object([:]),
        ]
        if let parentID { members["parentSpanId"] = .string(parentID) }
        if !events.isEmpty {
            members["events"] = .array(
                events.map {
                    .object([
                        "name": .string($0.name), "timeUnixNano": .string("\($0.time)"),
                        "attributes": Self.json($0.attributes),
                    ])
                })
        }
        return .object(members)
    }

    static func json(_ attributes: [(String, Value)]) -> JSONValue {
        .array(
            attributes.map { key, value in
                let shown: JSONValue =
                    switch value {
                    case .text(let text): .object(["stringValue": .string(text)])
                    case .int(let number): .object(["intValue": .string("\(number)")])
                    case .double(let number): .object(["doubleValue": .double(number)])
                    }
                return .object(["key": .string(key), "value": shown])
            })
    }

    /// The body of an export.
    static func export(_ spans: [TraceSpan], resource: [(String, Value)]) -> JSONValue {
        .object([
            "resourceSpans": .array([
                .object([
                    "resource": .object(["attributes": json(resource)]),
                    "scopeSpans": .array([
                        .object([
                            "scope": .object([
                                "name": "LATNetworking", "version": .string(CurlTransport.version),
                            ]), "spans": .array(spans.map(\.json)),
                        ])
                    ]),
                ])
            ])
        ])
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
        if let tag = record.tag { span.attributes.append(("lat.tag", .text(tag))) }
        if let domain = record.row?.domain { span.attributes.append(("lat.domain", .text(domain))) }
        if let server = record.row?.server { span.attributes.append(("lat.server", .text(server))) }
        if let source = record.response?.source { span.attributes.append(("lat.source", .text(source.rawValue))) }
        if case .failure(let failure) = record.outcome { fail(&span, failure, failure.response?.status) }
        span.events = record.waits.map { wait in
            TraceSpan.Event(
                name: "wait", time: time(wait.start),
                attributes: [
                    ("lat.reason", .text(wait.reason)), ("lat.duration", .double((wait.duration ?? .zero).inSeconds)),
                ])
        }
        return span
    }

    private func span(_ exchange: CallRecord.Exchange, _ index: Int) -> TraceSpan {
        let method = Self.method(exchange.request.method)
        let template = record.row?.path
        var span = TraceSpan(
            traceID: trace.traceID, spanID: exchange.spanID ?? Hexadecimal.random(byteCount: 8), parentID: trace.spanID,
            name: template.map { "\(method == "_OTHER" ? "HTTP" : method) \($0)" }
                ?? (method == "_OTHER" ? "HTTP" : method),
            kind: .client, start: time(exchange.start), end: time(exchange.start + (exchange.duration ?? .zero)))
        span.attributes = [("http.request.method", .text(method)), ("url.full", .text(exchange.request.url))]
        if method == "_OTHER" {
            span.attributes.append(("http.request.method_original", .text(exchange.request.method)))
        }
        if let origin = URLReference.origin(of: exchange.request.url), let slashes = origin.firstRange(of: "://") {
            let authority = origin[slashes.upperBound...]
            let colon = authority.lastIndex(of: ":").flatMap {
                Int(authority[authority.index(after: $0)...]) != nil ? $0 : nil
            }
            let port = colon.flatMap { Int64(authority[authority.index(after: $0)...]) }
            span.attributes.append(("server.address", .text(String(colon.map { authority[..<$0] } ?? authority))))
            span.attributes.append(("server.port", .int(port ?? (origin.hasPrefix("https") ? 443 : 80))))
        }
        if let template { span.attributes.append(("url.template", .text(template))) }
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
            span.attributes.append(("network.protocol.version", .text(String(response.version.dropFirst(5)))))
        }
        if let connection = response.connection, !connection.remoteAddress.isEmpty {
            span.attributes.append(("network.peer.address", .text(connection.remoteAddress)))
            span.attributes.append(("network.peer.port", .int(Int64(connection.remotePort))))
        }
        if let size = response.body?.wireSize ?? response.body?.size {
            span.attributes.append(("http.response.body.size", .int(size)))
        }
        if response.status >= 400 {
            span.attributes.append(("error.type", .text("\(response.status)")))
            span.error = response.reason
        }
    }

    private func fail(_ span: inout TraceSpan, _ failure: CallRecord.Failure, _ status: Int?) {
        guard !failure.isCancelled else { return }
        span.attributes.append(("error.type", .text(status.map { "\($0)" } ?? failure.group)))
        span.error = failure.message
    }

    /// The look-up, the connection and the handshake; `nil` where the connection was open already.
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
        span.attributes = [("lat.cache.decision", .text(decision.action.rawValue))]
        if let reason = decision.reason { span.attributes.append(("lat.cache.reason", .text(reason))) }
        return span
    }

    private static func method(_ name: String) -> String { Series.methods.contains(name) ? name : "_OTHER" }
}
