import FoundationEssentials
import HTTPCore

/// A request as a ``MockServer`` received it: nothing is decoded, joined or put in order unless a property says so.
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
        /// The value, `nil` when there was no `=`.
        public var value: String?

        /// Makes an item.
        public init(_ name: String, _ value: String?) {
            self.name = name
            self.value = value
        }
    }

    /// The method, byte for byte: `GET`, and `get` when that was sent.
    public let method: String
    /// The request target as sent: `/a%20b?c=d`, `http://host/path` to a proxy, `host:443` for CONNECT, `*`.
    public let target: String
    /// `HTTP/1.1` or `HTTP/1.0`.
    public let version: String
    /// The header in the order of the wire.
    public let headers: HTTPHeaders
    /// The fields after the last chunk of a chunked body (RFC 9112 §7.1.2).
    public internal(set) var trailers: HTTPHeaders = [:]
    /// The body without chunk framing, up to ``MockServer/bodyLimit``.
    public internal(set) var body = Data()
    /// How many bytes the body had, also those that were not kept.
    public internal(set) var bodyByteCount: Int64 = 0
    /// Whether the whole body was read. False for requests that were answered by
    /// ``MockReply/beforeRequestBody()`` or refused, and for ``MockServer/abandonedRequests``.
    public internal(set) var isComplete = false
    /// The number of the connection, from 1 in the order they were accepted.
    public let connection: Int
    /// Which request of its connection this is, from 0. More than 0 means the connection was reused.
    public let indexOnConnection: Int
    /// What stood for the names of the route that was taken, percent-decoded: `["id": "7"]` for `/users/{id}`.
    /// The rest that a `*` took is under `"*"`.
    public internal(set) var pathParameters: [String: String] = [:]
    /// When its header had been read.
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

    /// The path, still encoded, without the query. For a target with scheme and host, what follows them.
    public var path: String { String(RequestTarget(target).path) }

    /// What follows the `?`, still encoded; `nil` without one.
    public var query: String? { RequestTarget(target).query.map(String.init) }

    /// The query in order, decoded as forms are (`+` is a space). Pairs that are empty are left out.
    public var queryItems: [Item] { RequestTarget.items(of: query ?? "") }

    /// The body as a form (`application/x-www-form-urlencoded`), decoded, in order.
    public var formItems: [Item] { RequestTarget.items(of: text) }

    /// The body read as UTF-8, wrong bytes replaced.
    public var text: String { String(decoding: body, as: UTF8.self) }

    /// The first query value of a name, decoded; `nil` when there is none.
    public func query(_ name: String) -> String? { queryItems.first { $0.name == name }?.value }
}

extension RecordedRequest: CustomStringConvertible {
    /// `POST /users (12 bytes, connection 1)`.
    public var description: String {
        let unfinished = isComplete ? "" : ", not complete"
        return "\(method) \(target) (\(bodyByteCount) bytes, connection \(connection)\(unfinished))"
    }
}
