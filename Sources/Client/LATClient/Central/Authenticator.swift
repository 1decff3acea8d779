public import HTTPCore

/// Puts a token on requests, and renews it when the server rejects it.
///
/// ```swift
/// actor Session: Authenticator {
///     private var token = "expired"
///
///     func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "Bearer \(token)" }
///     func refresh() async throws { token = try await RenewToken().startRequest(on: manager).token }
/// }
/// configuration.authenticator = Session()
/// ```
///
/// ``OAuth2`` is ready to use.
///
/// However many requests are rejected at once, the token is renewed once. Each of them is then sent again, once, with the new
/// token and with fresh headers and parameters from the providers. Requests that start during the renewal wait for it. If it
/// throws, or takes longer than ``refreshTimeout``, the waiting requests fail with ``NetworkError/Kind/authentication``.
/// Cancelling one of them does not cancel the renewal. A request whose new token is rejected too ends with that response.
///
/// The token is sent to the manager's own origins only, see ``CentralRequestManager/Configuration/credentialOrigins``, and
/// only a response from an origin that received the token triggers a renewal. A request that may already have taken effect,
/// such as a redirected `POST`, is not sent again.
///
/// A call or entity that sets `Authorization` or `authentication` itself, or removes the field, keeps what it has said: of an
/// authenticator that sets them too, nothing is sent, unless the call or entity names it.
///
/// ``refresh()`` may send requests through the same manager: they bypass the authenticator and all barriers. They are
/// recognized by their Swift task, so a renewal that hands its work to a detached task or a queue must set
/// ``RequestOptions/Values/authenticator`` to ``RequestOptions/AuthenticatorChoice/off`` on its requests.
public protocol Authenticator: Sendable {
    /// Puts the current token on a request, before each attempt.
    ///
    /// - Throws: any error; the call then fails with ``NetworkError/Kind/provider``, or with an error of kind
    ///   ``NetworkError/Kind/authentication`` as it is, and nothing is sent.
    func apply(to request: inout HTTPRequest) async throws

    /// Whether the token is missing or ends soon, so that it is renewed before the request is sent. If that fails, the request
    /// is sent all the same, unless ``apply(to:)`` throws. Default: `false`, the token is renewed when a server rejects it.
    var needsRefresh: Bool { get async }

    /// Whether the response says that the server rejected the token. Default: its status is 401.
    func isRejected(_ response: HTTPResponse, to request: HTTPRequest) async -> Bool

    /// Renews the token. Never called concurrently. Implement this, or ``refresh(using:)``.
    func refresh() async throws

    /// Renews the token through the manager whose request was rejected, so that an authenticator can be created before its
    /// manager. Never called concurrently. Default: ``refresh()``.
    func refresh(using manager: CentralRequestManager) async throws

    /// The time limit of a renewal, and of putting the token on a request. Default 30 s.
    var refreshTimeout: Duration { get }

    /// The pause after a renewal that failed, or whose token was rejected at once. A request that is rejected during the pause
    /// ends at once, with its response or with the renewal's failure. Default 1 s.
    var refreshPause: Duration { get }
}

extension Authenticator {
    /// `false`.
    public var needsRefresh: Bool { get async { false } }

    /// Whether the status is 401.
    public func isRejected(_ response: HTTPResponse, to request: HTTPRequest) async -> Bool { response.status == 401 }

    /// Throws ``NetworkError/Kind/authentication``, because there is nothing to renew a token with.
    public func refresh() async throws {
        throw NetworkError(
            .authentication, message: "the authenticator cannot renew; implement refresh() or refresh(using:)")
    }

    /// Calls ``refresh()``.
    public func refresh(using manager: CentralRequestManager) async throws { try await refresh() }

    /// 30 s.
    public var refreshTimeout: Duration { .seconds(30) }

    /// 1 s.
    public var refreshPause: Duration { .seconds(1) }
}

/// An authenticator whose token is always the field `Authorization`, so that a call that has its own does not ask for one.
package protocol AuthorizationAuthenticator: Authenticator {}
