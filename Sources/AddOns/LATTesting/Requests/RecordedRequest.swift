import FoundationEssentials
import HTTPCore

/// A request as a ``MockServer`` received it. Nothing is decoded, joined or sorted unless a property says so.
///
/// ```swift
/// let request = try #require(server.requests.first)
/// #expect(request.method == "POST")
/// #expect(request.path == "/users")
/// #expect(request.queryItems == [.init("page", "2")])
/// #expect(request.headers["Content-Type"] == "application/json")
/// #expect(request.text == #"{"name":"Ada"}"#)
/// #expect(request.indexOnConnection == 0)        // the first one of its connection
/// ```
public struct RecordedRequest: Sendable {
    /// A name and a value of a query or a form, decoded.
    public struct Item: Hashable, Sendable {
        /// The name.
        public var name: String
        /// The value; `nil` without a `=`.
        public var value: String?

        /// Makes an item.
        public init(_ name: String, _ value: String?) {
            self.name = name
            self.value = value
        }
    }

    /// The method, byte for byte: `GET`, or `get` when that was sent.
    public let method: String
    /// The request target as sent: `/a%20b?c=d`, `http://host/path` to a proxy, `host:443` for CONNECT, `*`.
    public let target: String
    /// `HTTP/1.1` or `HTTP/1.0`.
    public let version: String
    /// The header fields in the order received.
    public let headers: HTTPHeaders
    /// The fields after the last chunk of a chunked body (RFC 9112 §7.1.2).
    public internal(set) var trailers: HTTPHeaders = [:]
    /// The body without chunk framing, up to ``MockServer/bodyLimit``.
    public internal(set) var body = Data()
    /// How many bytes the body had, including those that were not recorded.
    public internal(set) var bodyByteCount: Int64 = 0
    /// Whether the whole body was read. `false` for requests that were refused or answered with
    /// ``MockReply/beforeRequestBody()``, and for ``MockServer/abandonedRequests``.
    public internal(set) var isComplete = false
    /// The number of the connection, counted from 1 in the order of acceptance.
    public let connection: Int
    /// The number of this request on its connection, from 0. More than 0 means that the connection was reused.
    public let indexOnConnection: Int
    /// The values of the names in the matched route, percent-decoded: `["id": "7"]` for `/users/{id}`. The rest matched
    /// by a `*` is under `"*"`.
    public internal(set) var pathParameters: [String: String] = [:]
    /// When the head had been read.
    public let receivedAt: ContinuousClock.Instant

    init(head: RequestHead, connection: Int, indexOnConnection: Int) {
        method = head.method
        target = head.target
        version = head.minorVersion == 0 ? "HTTP/1.0" : "HTTP/1.1"
        headers = head.headers
        self.connection = connection
        self.indexOnConnection = indexOnConnection
        receivedAt = .now
    }

    /// The path, still encoded, without the query, also for a target with scheme and host.
    public var path: String { String(RequestTarget(target).path) }

    /// The query after the `?`, still encoded; `nil` without one.
    public var query: String? { RequestTarget(target).query.map(String.init) }

    /// The items of the query in order, decoded as in forms (`+` is a space). Empty pairs are left out.
    public var queryItems: [Item] { RequestTarget.items(of: query ?? "") }

    /// The items of a form body (`application/x-www-form-urlencoded`) in order, decoded.
    public var formItems: [Item] { RequestTarget.items(of: text) }

    /// The body read as UTF-8, with invalid bytes replaced.
    public var text: String { String(decoding: body, as: UTF8.self) }

    /// Returns the first query value of a name, decoded; `nil` when there is none.
    public func query(_ name: String) -> String? { queryItems.first { $0.name == name }?.value }
}

extension RecordedRequest: CustomStringConvertible {
    /// A line such as `POST /users (12 bytes, connection 1)`.
    public var description: String {
        let unfinished = isComplete ? "" : ", not complete"
        return "\(method) \(target) (\(bodyByteCount) bytes, connection \(connection)\(unfinished))"
    }
}
