import FoundationEssentials
import HTTPCore

/// What a ``MockServer`` answers: a status, headers and a body, and how well or badly they are delivered.
///
/// ```swift
/// server.enqueue(.text("hello"))
/// server.enqueue(.json(#"{"id": 1}"#, status: 201).header("ETag", "\"a\""))
/// server.enqueue(.pattern(byteCount: 1 << 30).throttled(bytesPerSecond: 1 << 20))
/// server.enqueue(.text("late").delayed(by: .milliseconds(200)))
/// server.enqueue(.text("never whole").resetting(afterBytes: 20))
/// ```
///
/// `Content-Length` or `Transfer-Encoding`, and `Connection` where it matters,
/// are added to ``headers`` as RFC 9112 wants them. A field of that name in
/// `headers` takes their place, and one set to `nil` keeps it out. Replies
/// to HEAD, and those with status 1xx, 204 or 304, have no body (RFC 9112 §6.3).
public struct MockReply: Sendable {
    /// What follows the head.
    public enum Body: Sendable {
        /// Nothing.
        case none
        /// Bytes, their number announced by `Content-Length`.
        case bytes(Data)
        /// Chunks of `Transfer-Encoding: chunked` (RFC 9112 §7.1), each as given; empty ones are left out.
        case chunks([Data])
        /// So many bytes of ``MockPattern``, made while they are sent. Costs no memory.
        case pattern(byteCount: Int64)
    }

    /// A place in a reply, for ``delayed(by:at:)`` and ``stalling(_:)``.
    public enum Point: Hashable, Sendable {
        /// Before any byte, interim replies too.
        case start
        /// After the interim replies, before the first byte of the head. The same as `start` when there are none.
        case beforeHead
        /// After the empty line that ends the head.
        case afterHead
        /// After so many bytes of the body, chunk framing not counted. At the end of
        /// the body when it has fewer; then the last, empty chunk is still to come.
        case afterBodyBytes(Int64)
    }

    /// The status code. Default 200.
    public var status: Int
    /// The reason phrase. `nil`, the default, takes that of RFC 9110 §15.
    public var reason: String?
    /// The fields of the head, in this order. Not checked: what is here is sent.
    public var headers: HTTPHeaders
    /// What follows the head. Default ``Body/none``, which announces a length of 0.
    public var body: Body

    enum Framing: Sendable {
        case automatic
        case chunked(size: Int)
        case untilClose
    }

    enum ConnectionEnd: Sendable {
        case asRequested
        case close
        case drop
    }

    struct Interim: Sendable {
        let status: Int
        let headers: HTTPHeaders
    }

    /// A wait inside the reply; no duration means for ever.
    struct Pause: Sendable {
        let point: Point
        let duration: Duration?
    }

    struct Cut: Sendable {
        let byteCount: Int64
        let resets: Bool
    }

    var framing = Framing.automatic
    var trailers: HTTPHeaders = [:]
    var interims: [Interim] = []
    var pauses: [Pause] = []
    var cut: Cut?
    var connectionEnd = ConnectionEnd.asRequested
    var bytesPerSecond: Int?
    var announcedLength: Int64?
    var rawHead: [UInt8]?
    var answersBeforeBody = false

    /// Makes a reply from its parts.
    public init(status: Int = 200, reason: String? = nil, headers: HTTPHeaders = [:], body: Body = .none) {
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body
    }
}

extension MockReply {
    /// Text as `text/plain; charset=utf-8`.
    public static func text(_ text: String, status: Int = 200) -> MockReply {
        data(Data(text.utf8), contentType: "text/plain; charset=utf-8", status: status)
    }

    /// A JSON document, written out, as `application/json`. Sent as given, also when it is not JSON.
    public static func json(_ document: String, status: Int = 200) -> MockReply {
        data(Data(document.utf8), contentType: "application/json", status: status)
    }

    /// A value as JSON (`application/json`, keys sorted).
    ///
    /// - Throws: `EncodingError` when the value cannot be written as JSON.
    public static func json(encoding value: some Encodable, status: Int = 200) throws -> MockReply {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        return data(try encoder.encode(value), contentType: "application/json", status: status)
    }

    /// Bytes of a given type.
    public static func data(
        _ data: Data, contentType: String = "application/octet-stream", status: Int = 200
    ) -> MockReply {
        MockReply(status: status, headers: ["Content-Type": contentType], body: .bytes(data))
    }

    /// A status without a body.
    public static func status(_ status: Int, reason: String? = nil) -> MockReply {
        MockReply(status: status, reason: reason)
    }

    /// A redirection (RFC 9110 §15.4): a status, by default 302, and `Location` as given.
    public static func redirect(to location: String, status: Int = 302) -> MockReply {
        MockReply(status: status, headers: ["Location": location])
    }

    /// A body in the chunks given (RFC 9112 §7.1). To a client of HTTP/1.0, which has
    /// no chunks, the bytes are sent up to the closing of the connection.
    public static func chunked(_ chunks: [Data], contentType: String = "application/octet-stream") -> MockReply {
        MockReply(headers: ["Content-Type": contentType], body: .chunks(chunks))
    }

    /// So many bytes of ``MockPattern``, made while they are sent: a reply of 1 GiB costs no memory.
    public static func pattern(
        byteCount: Int64, contentType: String = "application/octet-stream"
    ) -> MockReply {
        MockReply(headers: ["Content-Type": contentType], body: .pattern(byteCount: max(0, byteCount)))
    }

    /// Bytes that are sent as they are instead of a reply; then the connection is closed.
    ///
    /// ```swift
    /// server.enqueue(.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"))
    /// ```
    ///
    /// For ``Point/afterBodyBytes(_:)`` all of it is the body.
    public static func raw(_ bytes: some Sequence<UInt8>) -> MockReply {
        var reply = MockReply(body: .bytes(Data(bytes)))
        reply.rawHead = []
        return reply
    }

    /// The UTF-8 bytes of a text instead of a reply; then the connection is closed. See ``raw(_:)-(Sequence<UInt8>)``.
    public static func raw(_ text: String) -> MockReply { raw(text.utf8) }

    /// No reply: the request is read to its end and the connection closed without a byte.
    public static var noReply: MockReply { raw("") }
}

extension MockReply {
    /// The reply with one more field.
    public func header(_ name: String, _ value: String) -> MockReply {
        changed { $0.headers.append(name, value) }
    }

    /// The reply with its body in chunks of a size (RFC 9112 §7.1), whatever the kind of body.
    /// A body that is already ``Body/chunks(_:)`` keeps its own.
    public func inChunks(of byteCount: Int = 65_536) -> MockReply {
        changed { $0.framing = .chunked(size: max(1, byteCount)) }
    }

    /// The reply with neither length nor chunks: its body ends where the connection does (RFC 9112 §6.3, rule 8).
    public func endingWithConnection() -> MockReply { changed { $0.framing = .untilClose } }

    /// The reply with trailer fields after the last chunk (RFC 9112 §7.1.2). Makes the body chunked.
    public func withTrailers(_ trailers: HTTPHeaders) -> MockReply {
        changed {
            $0.trailers = trailers
            if case .automatic = $0.framing { $0.framing = .chunked(size: 65_536) }
        }
    }

    /// The reply after an interim one (RFC 9110 §15.2): 100, 102 or 103. May be used several times.
    ///
    /// The `100 Continue` that a client asked for with `Expect` is sent by the server itself,
    /// see ``MockServer/expectPolicy``; this is for those it did not ask for.
    public func withInterim(_ status: Int, headers: HTTPHeaders = [:]) -> MockReply {
        changed { $0.interims.append(Interim(status: status, headers: headers)) }
    }

    /// The reply, sent as soon as the head of the request is there; the body is read afterwards.
    ///
    /// Only for queued replies: a route is asked when the whole request has been read. With
    /// ``closingConnection()`` the rest of the body is not waited for.
    public func beforeRequestBody() -> MockReply { changed { $0.answersBeforeBody = true } }

    func changed(_ change: (inout MockReply) -> Void) -> MockReply {
        var copy = self
        change(&copy)
        return copy
    }
}
