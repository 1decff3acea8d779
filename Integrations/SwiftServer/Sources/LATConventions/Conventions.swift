public import LATNetworking

/// What OpenTelemetry's semantic conventions for HTTP (1.44) name, read from requests and responses of the SDK.
public enum Conventions {
    /// The value of an attribute.
    public enum Value: Hashable, Sendable, CustomStringConvertible {
        case text(String)
        case number(Int)

        /// The value as text.
        public var description: String {
            switch self {
            case .text(let text): text
            case .number(let number): "\(number)"
            }
        }
    }

    /// An attribute with its name by the conventions.
    public typealias Attribute = (name: String, value: Value)

    private static let methods: Set<String> = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY",
    ]

    /// `http.request.method`: all methods that the conventions do not list are one.
    public static func method(_ request: HTTPRequest) -> String {
        let method = request.method.rawValue
        return methods.contains(method) ? method : "_OTHER"
    }

    /// The name of a span: method and path of the row, which has no values of parameters.
    public static func spanName(_ request: HTTPRequest, _ row: ObservedCall.Row?) -> String {
        let method = method(request)
        let shown = method == "_OTHER" ? "HTTP" : method
        return row.map { "\(shown) \($0.path)" } ?? shown
    }

    /// `error.type`: the kind of an error without its details, so that there are few.
    public static func errorType(_ error: NetworkError) -> String { String("\(error.kind)".prefix { $0 != "(" }) }

    /// The attributes of a request. The URL is without secrets.
    public static func attributes(of request: HTTPRequest, in call: ObservedCall, resends: Int) -> [Attribute] {
        let method = method(request)
        var attributes: [Attribute] = [
            ("http.request.method", .text(method)), ("url.full", .text(call.secrets.shown(url: request.url))),
        ]
        if method == "_OTHER" { attributes.append(("http.request.method_original", .text(request.method.rawValue))) }
        if let server = request.server {
            attributes.append(("server.address", .text(server.address)))
            if let port = server.port { attributes.append(("server.port", .number(port))) }
        }
        if let row = call.row { attributes.append(("url.template", .text(row.path))) }
        if resends > 0 { attributes.append(("http.request.resend_count", .number(resends))) }
        return attributes
    }

    /// The attributes of a result. A cancellation by the caller is no error.
    public static func attributes(of result: Result<HTTPResponse, NetworkError>) -> [Attribute] {
        switch result {
        case .success(let response):
            var attributes: [Attribute] = [("http.response.status_code", .number(response.status))]
            if let version = version(response) { attributes.append(("network.protocol.version", .text(version))) }
            if let connection = response.connection, !connection.remoteAddress.isEmpty {
                attributes.append(("network.peer.address", .text(connection.remoteAddress)))
                attributes.append(("network.peer.port", .number(connection.remotePort)))
            }
            if response.status >= 400 { attributes.append(("error.type", .text("\(response.status)"))) }
            return attributes
        case .failure(let error):
            var attributes: [Attribute] = []
            if let status = error.response?.status {
                attributes.append(("http.response.status_code", .number(status)))
            }
            if error.kind != .cancelled {
                let status = error.kind == .httpStatus ? error.response?.status : nil
                attributes.append(("error.type", .text(status.map { "\($0)" } ?? errorType(error))))
            }
            return attributes
        }
    }

    /// `network.protocol.version`: `1.1`, `2`; `nil` for a response that no server has sent.
    public static func version(_ response: HTTPResponse) -> String? {
        guard response.source == .network || response.source == .revalidated else { return nil }
        return String(response.version.rawValue.drop { $0 != "/" }.dropFirst())
    }
}
