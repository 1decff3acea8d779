import Synchronization

/// The end of a body whose length no field tells, and that only the end of its TLS connection ends. Without `close_notify`
/// (RFC 8446 §6.1) the response is incomplete (RFC 9112 §9.8), but many servers never send that, so the call succeeds.
///
/// Shared by the response and by the engine, which notes at the end whether the body is whole.
package final class BodyEnd: Sendable {
    private let isProven = Atomic(false)

    package init() {}

    package var mayBeCut: Bool { !isProven.load(ordering: .acquiring) }

    /// Records that the body is whole.
    package func prove() { isProven.store(true, ordering: .releasing) }
}

extension HTTPResponse {
    /// Why the body, which has been read, must not count as whole: TLS does not show that it is. `nil` when nothing speaks
    /// against it.
    ///
    /// - Parameter otherWay: how else to read the body.
    package func cutFault(_ otherWay: String) -> String? {
        guard mayBeCut else { return nil }
        return
            "the server closed the TLS connection without close_notify, and no field tells the length of the body, so it may "
            + "have been cut (RFC 9112 §9.8); have the server send Content-Length or chunks, or \(otherWay)"
    }
}
