public import HTTPCore

/// Puts a token on requests, and renews it when the server refuses it.
///
/// ```swift
/// actor Session: Authenticator {
///     private var token: String
///
///     func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "Bearer \(token)" }
///     func refresh() async throws { token = try await RenewToken().startRequest(on: manager).token }
/// }
/// configuration.authenticator = session
/// ```
///
/// However many requests are refused at once, the token is renewed once. Each of them is then sent again, once, with
/// the new token and with headers and parameters that the providers give anew. Requests that are started meanwhile wait
/// for it. A renewal that throws, or takes longer than ``refreshTimeout``, ends those that wait with
/// ``NetworkError/Kind/authentication``; the cancellation of one of them leaves the renewal alone. A request
/// that is refused with the new token, too, gets its answer as it came.
///
/// The token is sent to the manager's own origins only, see ``CentralRequestManager/Configuration/credentialOrigins``, and
/// only an answer of an origin that it was sent to renews it. A request that may have had its effect, a `POST` that was
/// redirected for one, is not sent again.
///
/// ``refresh()`` may send requests through the same manager: they go past the authenticator, and past barriers. That is
/// known by the task, so a renewal that hands its work to a detached task or a queue sets
/// ``HTTPRequest/authenticates`` to `false` in it.
public protocol Authenticator: Sendable {
    /// Puts the present token on a request, before each attempt.
    ///
    /// - Throws: anything; the call then fails with ``NetworkError/Kind/provider`` and nothing is sent.
    func apply(to request: inout HTTPRequest) async throws

    /// Whether the server refused the token. Default: its status is 401.
    func isRejected(_ response: HTTPResponse, to request: HTTPRequest) async -> Bool

    /// Renews the token. Called once at a time. Implement this, or ``refresh(using:)``.
    func refresh() async throws

    /// Renews the token with the manager whose request was refused, so that an authenticator may be made before its
    /// manager. Called once at a time. Default: ``refresh()``.
    func refresh(using manager: CentralRequestManager) async throws

    /// The longest a renewal takes. Default 30 s.
    var refreshTimeout: Duration { get }

    /// How long after a renewal that failed, or brought a token that was refused at once, no other is tried; requests
    /// that are refused in that time get their answer, or the failure, at once. Default 1 s.
    var refreshPause: Duration { get }
}

extension Authenticator {
    /// Whether the status is 401.
    public func isRejected(_ response: HTTPResponse, to request: HTTPRequest) async -> Bool { response.status == 401 }

    /// Fails: there is nothing to renew a token with.
    public func refresh() async throws {
        throw NetworkError(
            .authentication, message: "the authenticator renews nothing; implement refresh() or refresh(using:)")
    }

    /// The same as ``refresh()``.
    public func refresh(using manager: CentralRequestManager) async throws { try await refresh() }

    /// 30 s.
    public var refreshTimeout: Duration { .seconds(30) }

    /// 1 s.
    public var refreshPause: Duration { .seconds(1) }
}
