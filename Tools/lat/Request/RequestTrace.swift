import HTTPCore
import LATNetworking

/// Heads and timings as lines for people: `>` is sent, `<` is received, `*` is about both.
enum RequestTrace {
    /// The request without the values of secret headers and parameters.
    static func lines(of request: HTTPRequest, hiding secrets: Secrets = .standard, _ style: Style) -> [String] {
        let parts = URLParts(secrets.shown(url: UnixAddress.seen(request.url)))
        let host = String(parts.hostAndPort ?? "")
        let target = parts.isAbsolute ? parts.target : String(parts.withoutFragment)
        var fields: [(name: String, value: String)] = []
        if !request.headers.contains("Host") { fields.append(("Host", host)) }
        switch request.authentication {
        case .basic where !request.headers.contains("Authorization"): fields.append(("Authorization", "Basic"))
        case .bearer where !request.headers.contains("Authorization"): fields.append(("Authorization", "Bearer"))
        default: break
        }
        for field in request.headers { fields.append((field.name, field.value)) }
        if let contentType = request.body?.contentType, !request.headers.contains("Content-Type") {
            fields.append(("Content-Type", contentType))
        }
        let version =
            switch request.version {
            case .http2PriorKnowledge: "HTTP/2"
            case .http3, .http3Only: "HTTP/3"
            case .automatic, .http1: "HTTP/1.1"
            }
        var lines = [SafeText.line("\(request.method) \(target) \(version)")]
        for (name, value) in fields { lines.append(line(name, value, hiding: secrets, style)) }
        return lines.map { style.dim(">") + " " + $0 }
    }

    /// The head of a response as `--include` shows it: complete, unless secrets are to be hidden.
    static func head(
        of response: HTTPResponse, hiding secrets: Secrets? = nil, _ style: Style
    ) -> [String] {
        let reason = response.reason.isEmpty ? "" : " \(response.reason)"
        let status = SafeText.line("\(response.status)\(reason)")
        var lines = ["\(response.version) " + (response.isSuccess ? style.green(status) : style.magenta(status))]
        for (name, value) in response.headers { lines.append(line(name, value, hiding: secrets, style)) }
        return lines
    }

    static func line(_ name: String, _ value: String, hiding secrets: Secrets?, _ style: Style) -> String {
        let shown = secrets?.shown(value, of: name) ?? value
        let isHidden = shown == Secrets.placeholder && value != shown
        return "\(style.name(SafeText.line(name))): \(isHidden ? style.dim("(not shown)") : SafeText.line(shown))"
    }

    /// The redirects before a response, and its head.
    static func lines(
        of response: HTTPResponse, hiding secrets: Secrets = .standard, _ style: Style
    ) -> [String] {
        let hops = response.redirects.map { style.dim("*") + " \($0.status) redirected by \(address($0.url, secrets))" }
        let arrival =
            response.redirects.isEmpty ? [] : [style.dim("*") + " answered by \(address(response.url, secrets))"]
        let source = response.source.isFromCache ? [style.dim("*") + " from the cache (\(response.source))"] : []
        return hops + arrival + source + head(of: response, hiding: secrets, style).map { style.dim("<") + " " + $0 }
    }

    /// The timings, such as `* dns 100 µs · connect 200 µs · first byte 1.30 ms · total 1.40 ms · reused no`.
    static func line(of timings: Timings, total: Duration, _ style: Style) -> String {
        let stages = [
            ("dns", timings.nameLookup), ("connect", timings.connect), ("tls", timings.tls),
            ("first byte", timings.firstByte), ("total", total),
        ]
        let separator = style.sign(" · ", ", ")
        let texts = stages.compactMap { name, duration in duration.map { "\(name) \(Quantity.duration($0))" } }
        let connection = "reused \(timings.connectionReused ? "yes" : "no")"
        return style.dim("*") + " " + (texts + [connection]).joined(separator: separator)
    }

    /// A URL without user information and the values of secret parameters.
    private static func address(_ url: String, _ secrets: Secrets) -> String {
        let parts = URLParts(secrets.shown(url: url))
        guard parts.isAbsolute, let scheme = parts.scheme, let host = parts.hostAndPort, !host.isEmpty else {
            return SafeText.line(url)
        }
        return SafeText.line(scheme + "://" + host + parts.target)
    }
}
