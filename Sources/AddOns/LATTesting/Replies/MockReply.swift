import FoundationEssentials
import HTTPCore

/// A reply of a ``MockServer``: status, headers and body, and the faults of their delivery.
///
/// ```swift
/// server.enqueue(.text("hello"))
/// server.enqueue(.json(#"{"id": 1}"#, status: 201).header("ETag", "\"a\""))
/// server.enqueue(.pattern(byteCount: 1 << 30).throttled(bytesPerSecond: 1 << 20))
/// server.enqueue(.text("late").delayed(by: .milliseconds(200)))
/// server.enqueue(.text("never complete").resetting(afterBytes: 20))
/// ```
///
/// `Content-Length` or `Transfer-Encoding`, and `Connection` where it matters, are added to ``headers`` as RFC 9112
/// requires. A field of that name in `headers` replaces the added one, and one set to `nil` leaves it out. Replies to
/// HEAD, and those with status 1xx, 204 or 304, have no body (RFC 9112 §6.3).
public struct MockReply: Sendable {
    /// The body of a reply.
    public enum Body: Sendable {
        /// Nothing.
        case none
        /// Bytes, with their number in `Content-Length`.
        case bytes(Data)
        /// The chunks of `Transfer-Encoding: chunked` (RFC 9112 §7.1), each as given. Empty ones are left out.
        case chunks([Data])
        /// This many bytes of ``MockPattern``, made while they are sent, so that they take no memory.
        case pattern(byteCount: Int64)
    }

    /// A point in a reply, for ``delayed(by:at:)`` and ``stalling(_:)``.
    public enum Point: Hashable, Sendable {
        /// Before the first byte, including those of interim responses.
        case start
        /// After the interim responses, before the first byte of the head. The same as `start` when there are none.
        case beforeHead
        /// After the empty line that ends the head.
        case afterHead
        /// After this many bytes of the body; chunk framing is not counted. In a shorter body, this is the end of the
        /// body, before the last, empty chunk.
        case afterBodyBytes(Int64)
    }

    /// The status code. Default 200.
    public var status: Int
    /// The reason phrase. Default `nil`: that of RFC 9110 §15.
    public var reason: String?
    /// The fields of the head, in this order. They are sent unchecked.
    public var headers: HTTPHeaders
    /// The body. Default ``Body/none``, which announces a length of 0.
    public var body: Body

    enum Framing: Equatable, Sendable {
        case automatic
        case chunked(size: Int)
        case untilClose
    }

    enum ConnectionEnd: Sendable {
        case asRequested
        case close
        case drop
    }

    /// A wait inside the reply. Without a duration it never ends.
    struct Pause: Sendable {
        let point: Point
        let duration: Duration?
    }

    var framing = Framing.automatic
    var trailers: HTTPHeaders = [:]
    var interims: [(status: Int, headers: HTTPHeaders)] = []
    var pauses: [Pause] = []
    /// After how many bytes the reply is cut off, and whether by a reset.
    var cut: (byteCount: Int64, resets: Bool)?
    var connectionEnd = ConnectionEnd.asRequested
    var bytesPerSecond: Int?
    var announcedLength: Int64?
    var rawHead: [UInt8]?
    var answersBeforeBody = false
    /// What follows the head on a connection that becomes a WebSocket.
    var socket: SocketScript?

    /// Makes a reply from its parts. Each parameter has the default of its property.
    public init(status: Int = 200, reason: String? = nil, headers: HTTPHeaders = [:], body: Body = .none) {
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body
    }
}

extension MockReply {
    /// Makes a reply with text as `text/plain; charset=utf-8`.
    public static func text(_ text: String, status: Int = 200) -> MockReply {
        data(Data(text.utf8), contentType: "text/plain; charset=utf-8", status: status)
    }

    /// Makes a reply with a JSON document as `application/json`. The text is sent unchecked.
    public static func json(_ document: String, status: Int = 200) -> MockReply {
        data(Data(document.utf8), contentType: "application/json", status: status)
    }

    /// Makes a reply with a value encoded as JSON (`application/json`, keys sorted, dates in ISO
    /// 8601).
    ///
    /// - Throws: `EncodingError` when the value cannot be encoded as JSON.
    public static func json(encoding value: some Encodable, status: Int = 200) throws -> MockReply {
        let json = try JSONValueEncoder().encode(value)
        return data(try json.data(sortedKeys: true), contentType: "application/json", status: status)
    }

    /// Makes a reply with bytes of a media type.
    public static func data(
        _ data: Data, contentType: String = "application/octet-stream", status: Int = 200
    ) -> MockReply {
        MockReply(status: status, headers: ["Content-Type": contentType], body: .bytes(data))
    }

    /// Makes a reply with a status and no body.
    public static func status(_ status: Int, reason: String? = nil) -> MockReply {
        MockReply(status: status, reason: reason)
    }

    /// Makes a redirect (RFC 9110 §15.4): a status, by default 302, and `Location` as given.
    public static func redirect(to location: String, status: Int = 302) -> MockReply {
        MockReply(status: status, headers: ["Location": location])
    }

    /// Makes a reply with a body in the given chunks (RFC 9112 §7.1). HTTP/1.0 has no chunks: its clients get the bytes
    /// up to the end of the connection.
    public static func chunked(_ chunks: [Data], contentType: String = "application/octet-stream") -> MockReply {
        MockReply(headers: ["Content-Type": contentType], body: .chunks(chunks))
    }

    /// Makes a reply with this many bytes of ``MockPattern``. They are made while they are sent: 1 GiB takes no memory.
    public static func pattern(
        byteCount: Int64, contentType: String = "application/octet-stream"
    ) -> MockReply {
        MockReply(headers: ["Content-Type": contentType], body: .pattern(byteCount: max(0, byteCount)))
    }

    /// Makes a reply of raw bytes, which are sent unchanged; then the connection is closed.
    ///
    /// ```swift
    /// server.enqueue(.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"))
    /// ```
    ///
    /// For ``Point/afterBodyBytes(_:)``, all of the bytes are the body.
    public static func raw(_ bytes: some Sequence<UInt8>) -> MockReply {
        var reply = MockReply(body: .bytes(Data(bytes)))
        reply.rawHead = []
        return reply
    }

    /// Makes a reply of the UTF-8 bytes of a text, which are sent unchanged; then the connection is closed.
    public static func raw(_ text: String) -> MockReply { raw(text.utf8) }

    /// No reply: the server reads the request to its end and closes the connection without sending a byte.
    public static var noReply: MockReply { raw("") }
}

extension MockReply {
    /// Adds one field. A `Content-Type` replaces that of the reply, which has one only.
    public func header(_ name: String, _ value: String) -> MockReply {
        changed { reply in
            if name.lowercased() == "content-type" {
                reply.headers["Content-Type"] = value
            } else {
                reply.headers.append(name, value)
            }
        }
    }

    /// Sends a body of any kind in chunks (RFC 9112 §7.1), by default of 64 KiB. ``Body/chunks(_:)`` keeps its own
    /// chunks.
    public func inChunks(of byteCount: Int = 65_536) -> MockReply {
        changed { $0.framing = .chunked(size: max(1, byteCount)) }
    }

    /// Leaves out length and chunks: the body ends with the connection (RFC 9112 §6.3, rule 8).
    public func endingWithConnection() -> MockReply { changed { $0.framing = .untilClose } }

    /// Adds trailer fields after the last chunk (RFC 9112 §7.1.2). Makes the body chunked.
    public func withTrailers(_ trailers: HTTPHeaders) -> MockReply {
        changed {
            $0.trailers = trailers
            if $0.framing == .automatic { $0.framing = .chunked(size: 65_536) }
        }
    }

    /// Sends an interim response (RFC 9110 §15.2) before the reply: 100, 102, 103 or 104. May be used several times.
    ///
    /// This is for interim responses that the client did not ask for. The server itself sends the `100 Continue` that
    /// `Expect` asks for; see ``MockServer/expectPolicy``.
    public func withInterim(_ status: Int, headers: HTTPHeaders = [:]) -> MockReply {
        changed { $0.interims.append((status, headers)) }
    }

    /// Sends the reply as soon as the head of the request has arrived. The request body is read afterwards.
    ///
    /// This works for queued replies only: a route is called when the whole request has been read. With
    /// ``closingConnection()`` the server does not wait for the rest of the body.
    public func beforeRequestBody() -> MockReply { changed { $0.answersBeforeBody = true } }

    func changed(_ change: (inout MockReply) -> Void) -> MockReply {
        var copy = self
        change(&copy)
        return copy
    }
}
