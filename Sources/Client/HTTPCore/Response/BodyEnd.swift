import Synchronization

/// The end of a body whose length no field tells, and that only the end of its connection or stream ends.
///
/// Shared by the response and by the engine, which notes at the end whether the body is whole.
package final class BodyEnd: Sendable {
    /// Why a body that has ended may not be whole.
    package enum Doubt: Sendable {
        /// The TLS connection was closed without `close_notify` (RFC 8446 §6.1), which makes the response incomplete
        /// (RFC 9112 §9.8). Many servers never send it, so the call succeeds.
        case connectionWithoutNotice
        /// The stream of HTTP/2 or HTTP/3 ended; libcurl may not tell how.
        case stream
    }

    package let doubt: Doubt
    private let isProven = Atomic(false)

    package init(_ doubt: Doubt) { self.doubt = doubt }

    package var mayBeCut: Bool { !isProven.load(ordering: .acquiring) }

    /// Records that the body is whole.
    package func prove() { isProven.store(true, ordering: .releasing) }
}

extension HTTPResponse {
    /// Why the body, which has been read, must not become a file of its own: TLS does not show that it is whole. `nil` when
    /// nothing speaks against it.
    package var cutFault: String? {
        guard mayBeCut, bodyEnd?.doubt == .connectionWithoutNotice else { return nil }
        return
            "the server closed the TLS connection without close_notify, and no field tells the length of the body, so it may "
            + "have been cut (RFC 9112 §9.8); have the server send Content-Length or chunks, or read the body without a file"
    }
}
