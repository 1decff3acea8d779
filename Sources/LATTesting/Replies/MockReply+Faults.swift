import FoundationEssentials
import HTTPCore

/// Replies as networks and servers deliver them on a bad day. All of these can be combined; what comes first in the
/// stream of bytes happens.
extension MockReply {
    /// The reply, late: sending waits at a point, by default before its first byte. May be used several times.
    ///
    /// When the client closes during the wait the reply is given up.
    public func delayed(by duration: Duration, at point: Point = .start) -> MockReply {
        changed { $0.pauses.append(Pause(point: point, duration: duration)) }
    }

    /// The reply with a body no faster than this, sent in about twenty pieces a second. The head is not slowed.
    public func throttled(bytesPerSecond: Int) -> MockReply {
        changed { $0.bytesPerSecond = max(1, bytesPerSecond) }
    }

    /// The reply up to a point; nothing more is sent, and the connection stays open until the client
    /// closes it or the server is stopped.
    public func stalling(_ point: Point) -> MockReply {
        changed { $0.pauses.append(Pause(point: point, duration: nil)) }
    }

    /// The first bytes of the reply, counted from the first of the head; then the connection is
    /// closed (a FIN). At the end of the reply when it has fewer.
    public func closing(afterBytes byteCount: Int64) -> MockReply {
        changed { $0.cut = Cut(byteCount: max(0, byteCount), resets: false) }
    }

    /// The first bytes of the reply, counted from the first of the head; then the connection is reset:
    /// the client gets `ECONNRESET` after it has read them. At the end of the reply when it has fewer.
    ///
    /// The reset waits (up to 2 s) until the client's system has received the bytes, since a
    /// reset overtakes what was not sent yet. A unix socket knows no reset and is closed.
    public func resetting(afterBytes byteCount: Int64) -> MockReply {
        changed { $0.cut = Cut(byteCount: max(0, byteCount), resets: true) }
    }

    /// The reply with a `Content-Length` that may be wrong. When it is more than there is, the
    /// connection is closed after what there is (a truncated body); when it is less, the
    /// surplus follows on the connection, which is kept.
    public func announcingLength(_ byteCount: Int64) -> MockReply {
        changed { $0.announcedLength = byteCount }
    }

    /// The reply with these bytes in place of the status line and the headers, the empty line not
    /// added; the body follows without framing and the connection is closed after it.
    ///
    /// ```swift
    /// server.enqueue(.text("hello").withRawHead("HTTP/1.1 2x0 What\r\nContent-Length: 5\r\n\r\n"))
    /// ```
    public func withRawHead(_ head: String) -> MockReply {
        changed { $0.rawHead = Array(head.utf8) }
    }

    /// The reply with `Connection: close` (RFC 9112 §9.6), and the connection closed after it.
    public func closingConnection() -> MockReply { changed { $0.connectionEnd = .close } }

    /// The reply as on a connection that is kept, which is then closed without a word: what
    /// a client finds when it takes a stale connection from its pool.
    ///
    /// ```swift
    /// server.enqueue(.text("one").droppingConnection(), .text("two"))
    /// _ = try await client.get(server.url("/"))
    /// try await server.waitForClosedConnections(1)
    /// _ = try await client.get(server.url("/"))       // the pooled connection is dead
    /// ```
    public func droppingConnection() -> MockReply { changed { $0.connectionEnd = .drop } }
}
