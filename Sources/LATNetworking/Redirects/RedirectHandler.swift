public import HTTPCore

/// Is asked before each hop of a redirect: may let it go, change it, stop there, or refuse it.
///
/// ```swift
/// configuration.redirectHandler = { hop in
///     guard hop.next.url.hasPrefix("https://files.example.org/") else { return .refuse("not one of ours") }
///     var next = hop.next
///     next.headers["X-Trace"] = "1"
///     return .follow(next)
/// }
/// ```
///
/// It is asked after the rules of ``RedirectPolicy``: of hops that they refuse it does not hear. What it throws fails the
/// call, with ``NetworkError/Kind/provider``.
public typealias RedirectHandler = @Sendable (_ hop: RedirectHop) async throws -> RedirectDecision

/// One hop that is about to be made.
public struct RedirectHop: Sendable {
    /// The request that was answered.
    public let request: HTTPRequest
    /// The answer: its status is 301, 302, 303, 307 or 308.
    public let response: HTTPResponse
    /// The request that will be sent: method and body by the status, secrets taken off when the origin changes.
    public let next: HTTPRequest
    /// The hops made before this one.
    public let hops: [HTTPResponse.Redirect]
    /// Whether ``next`` goes to another scheme, host or port.
    public let changesOrigin: Bool
}

/// What a ``RedirectHandler`` says.
public enum RedirectDecision: Sendable {
    /// Make the hop, with ``RedirectHop/next`` or a changed request.
    ///
    /// An address of another origin than that of ``RedirectHop/next`` is held to the same rules: no secrets go there, and
    /// not from https to http.
    case follow(HTTPRequest)
    /// Make no hop: the redirect is the answer.
    case stop
    /// Fail with ``NetworkError/Kind/redirect`` and this reason.
    case refuse(String)
}
