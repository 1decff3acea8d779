import FoundationEssentials
import HTTPCore

/// Replies with the faults of bad networks and servers. They can be combined; of ``closing(afterBytes:)`` and
/// ``resetting(afterBytes:)`` only the last call counts.
extension MockReply {
    /// Delays the reply at a point, by default before its first byte. May be used several times.
    ///
    /// When the client closes during the wait, the reply is abandoned.
    public func delayed(by duration: Duration, at point: Point = .start) -> MockReply {
        changed { $0.pauses.append(Pause(point: point, duration: duration)) }
    }

    /// Limits the speed of the body, which is sent in about twenty pieces a second. The head is not slowed.
    public func throttled(bytesPerSecond: Int) -> MockReply {
        changed { $0.bytesPerSecond = max(1, bytesPerSecond) }
    }

    /// Sends the reply up to a point and no further. The connection stays open until the client closes it or the server
    /// is stopped.
    public func stalling(_ point: Point) -> MockReply {
        changed { $0.pauses.append(Pause(point: point, duration: nil)) }
    }

    /// Sends this many bytes of head and body and closes the connection (a FIN). Interim responses are not counted. A
    /// shorter reply is sent whole.
    public func closing(afterBytes byteCount: Int64) -> MockReply {
        changed { $0.cut = (byteCount: max(0, byteCount), resets: false) }
    }

    /// Sends this many bytes of head and body and resets the connection: the client gets `ECONNRESET` after it has read
    /// them. Interim responses are not counted. A shorter reply is sent whole.
    ///
    /// The reset waits up to 2 s until the client's system has received the bytes, because a reset discards unsent
    /// bytes. A Unix domain socket has no reset and is closed.
    public func resetting(afterBytes byteCount: Int64) -> MockReply {
        changed { $0.cut = (byteCount: max(0, byteCount), resets: true) }
    }

    /// Sets a `Content-Length` that may be wrong. When it is more than the body has, the connection is closed after the
    /// body, which is then truncated. When it is less, the surplus follows on the connection, which stays open.
    public func announcingLength(_ byteCount: Int64) -> MockReply {
        changed { $0.announcedLength = byteCount }
    }

    /// Replaces the status line and the headers by these bytes. No empty line is added. The body follows without framing,
    /// and the connection is closed after it.
    ///
    /// ```swift
    /// server.enqueue(.text("hello").withRawHead("HTTP/1.1 2x0 What\r\nContent-Length: 5\r\n\r\n"))
    /// ```
    public func withRawHead(_ head: String) -> MockReply {
        changed { $0.rawHead = Array(head.utf8) }
    }

    /// Adds `Connection: close` (RFC 9112 §9.6), and closes the connection after the reply.
    public func closingConnection() -> MockReply { changed { $0.connectionEnd = .close } }

    /// Closes the connection after the reply without `Connection: close`, so that the client has a stale connection in its
    /// pool.
    ///
    /// ```swift
    /// server.enqueue(.text("one").droppingConnection(), .text("two"))
    /// _ = try await central.startRequest("GET", server.url("/"))
    /// try await server.waitForClosedConnections(1)
    /// _ = try await central.startRequest("GET", server.url("/"))      // the pooled connection is dead
    /// ```
    public func droppingConnection() -> MockReply { changed { $0.connectionEnd = .drop } }
}
