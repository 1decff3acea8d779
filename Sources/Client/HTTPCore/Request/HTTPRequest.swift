public import FoundationEssentials

/// A request: what to send, and how to send it.
///
/// ```swift
/// var request = HTTPRequest("PUT", "https://api.example.org/items/7")
/// request.headers["If-Match"] = "\"v3\""
/// request.body = .data(png, contentType: "image/png")
/// request.timeout = .seconds(3)
/// let response = try await manager.send(request)
/// ```
///
/// Nothing is checked while the value is built. Sending an invalid request (a
/// method that is not a token, CR or LF in a header, a URL that is not http or
/// https) fails with ``NetworkError/Kind/invalidRequest`` before any byte is
/// sent. The settings, such as ``RequestOptions/Values/timeout``, are those of
/// ``options``.
///
/// Two requests are equal when all their properties are; what is sent is compared byte by byte. A body that is produced while
/// it is sent (a stream, a value to encode) equals only its own copies.
@dynamicMemberLookup
public struct HTTPRequest: Sendable, Hashable {
    /// The method (RFC 9110 §9).
    public var method: HTTPMethod
    /// An absolute http or https URL, or a path that the manager joins to its base URL.
    /// Spaces and non-ASCII characters are percent-encoded when sent; `%20` stays `%20`.
    public var url: String
    /// The header fields of this request. They take precedence over the manager's.
    public var headers: HTTPHeaders
    /// The content. Default `nil`: none.
    public var body: HTTPBody?

    /// The settings. Each is also a property of the request: `request.timeout` is `request.options.timeout`.
    public var options = RequestOptions()

    /// What the stages of the pipeline note for those after them.
    package var context = RequestContext()

    /// Makes a request, by default without header fields and body. Known methods are recognised in any case.
    public init(
        _ method: String, _ url: String, headers: HTTPHeaders = HTTPHeaders(), body: HTTPBody? = nil
    ) {
        self.method = HTTPMethod(method)
        self.url = url
        self.headers = headers
        self.body = body
    }

    /// Makes a request with the address as `URL`, by default without header fields and body.
    public init(_ method: String, _ url: URL, headers: HTTPHeaders = HTTPHeaders(), body: HTTPBody? = nil) {
        self.init(method, url.absoluteString, headers: headers, body: body)
    }

    /// One of the settings of ``RequestOptions/Values``.
    public subscript<Value>(dynamicMember setting: WritableKeyPath<RequestOptions.Values, Value>) -> Value {
        @inlinable get { options[dynamicMember: setting] }
        @inlinable _modify { yield &options[dynamicMember: setting] }
    }

    /// Values for the app's own use in observers, interceptors and errors, as ``RequestOptions/Values/userInfo``. Those of an outbox
    /// have the number of the entry and of the attempt as `outbox`.
    public var userInfo: [String: JSONValue] {
        get {
            guard let entry = context.entry else { return options.userInfo }
            let shown: JSONValue = ["id": .int(entry.id), "attempt": .int(Int64(entry.attempt))]
            return options.userInfo.merging(["outbox": shown]) { $1 }
        }
        set { options.userInfo = newValue }
    }

    /// Moves the fields of the options to the headers, where those of the headers take precedence.
    package mutating func takeHeadersOfOptions() {
        guard !options.headers.hasNoFields else { return }
        headers = options.headers.merging(headers)
        options.headers = HTTPHeaders()
    }

    /// Whether all properties are equal. What is sent is compared byte by byte.
    public static func == (lhs: HTTPRequest, rhs: HTTPRequest) -> Bool {
        lhs.method == rhs.method && lhs.url.hasSameBytes(as: rhs.url) && lhs.headers == rhs.headers
            && lhs.body == rhs.body && lhs.options == rhs.options && lhs.context == rhs.context
    }

    /// Whether no setting besides method, URL, headers and body was ever set.
    package var hasNoSettings: Bool { options.isStandard && context.isStandard }

    /// Whether a repetition may get another answer because of what the request itself has done: it changes what its condition is
    /// about (RFC 9110 §13.1).
    package var mayFailAfterItself: Bool {
        !method.isSafe && ["If-Match", "If-None-Match", "If-Unmodified-Since"].contains { headers.contains($0) }
    }
}
