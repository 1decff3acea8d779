import FoundationEssentials
import HTTPCore

/// What a line of ``RequestLog/Format/json`` says about a call: a pure value.
struct RequestLogLine {
    let call: ObservedCall
    let result: Result<HTTPResponse, NetworkError>
    /// The time of the whole call.
    let time: Duration
    /// The attempts that were sent, and the hops of redirects among them.
    var attempts = 0
    var hops = 0
    /// The bytes of the last request's body and of the response's; `nil` when nobody knows them.
    var sent: Int?
    var received: Int?

    /// The line, without a line feed. Every text has passed the redactor before it is written as JSON.
    func text(_ redactor: inout Redactor) -> String {
        var members: [String: JSONValue] = [
            "time": .string(call.startTime.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))),
            "call": .string(call.key), "method": .string(call.request.method.rawValue),
            "attempts": .int(Int64(attempts)), "milliseconds": Self.milliseconds(time),
        ]
        func add(_ name: String, _ text: String?) {
            guard let text, !text.isEmpty else { return }
            let shown = redactor.text(text)
            members[name] = .string(redactor.scrubbed(shown))
        }
        add("trace", call.trace?.traceID)
        add("domain", call.row?.domain)
        add("row", call.row?.server)
        add("path", call.row?.path)
        add("tag", call.tag)
        if hops > 0 { members["redirects"] = .int(Int64(hops)) }
        if let sent { members["sentBytes"] = .int(Int64(sent)) }
        if let received { members["receivedBytes"] = .int(Int64(received)) }
        var url = call.request.url
        let response: HTTPResponse?
        var timings: Timings?
        switch result {
        case .success(let success):
            response = success
            if success.source == .network { (url, timings) = (success.url, success.timings) }
            add("source", success.source.rawValue)
        case .failure(let error):
            response = error.response
            (url, timings) = (error.url ?? url, error.timings)
            add("error", "\(error.kind)")
            add("message", error.message)
            // The text of an error of the app may have any secret; its type has none.
            add("cause", error.underlying.map { ($0 as? NetworkError).map { "\($0.kind)" } ?? "\(type(of: $0))" })
            if let code = error.curlCode { members["curlCode"] = .int(Int64(code)) }
        }
        let shownURL = redactor.url(url)
        members["url"] = .string(redactor.scrubbed(shownURL))
        if let response {
            members["status"] = .int(Int64(response.status))
            add("version", response.version.rawValue)
        }
        for name in ["X-Request-ID", "Request-Id", "X-Correlation-ID"] where members["requestID"] == nil {
            for headers in [response?.headers, call.request.headers] where members["requestID"] == nil {
                add("requestID", headers?[name].map { redactor.field(name, $0) })
            }
        }
        if let timings { members["timings"] = Self.value(timings) }
        return JSONValue.object(members).description
    }

    /// The phases in milliseconds; those that did not happen are left out.
    private static func value(_ timings: Timings) -> JSONValue {
        let phases = [
            ("queue", timings.queue > .zero ? timings.queue : nil), ("nameLookup", timings.nameLookup),
            ("connect", timings.connect), ("tls", timings.tls), ("firstByte", timings.firstByte),
            ("total", timings.total),
        ]
        return .object(
            phases.reduce(into: [:]) { members, phase in members[phase.0] = phase.1.map(milliseconds) })
    }

    private static func milliseconds(_ time: Duration) -> JSONValue {
        .double((time.inSeconds * 1_000_000).rounded() / 1_000)
    }
}
