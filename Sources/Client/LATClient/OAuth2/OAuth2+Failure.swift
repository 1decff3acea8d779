import CurlTransport
import HTTPCore

extension OAuth2 {
    /// The refusal of an authorization server (RFC 6749 §4.1.2.1 and §5.2, RFC 8628 §3.5), as the
    /// ``NetworkError/underlying`` of an error of kind ``NetworkError/Kind/authentication``.
    public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// The reasons that the standards define.
        public enum Reason: String, Hashable, Sendable, CaseIterable {
            /// The request lacks something, or has it twice.
            case invalidRequest = "invalid_request"
            /// The client is unknown, or its secret is wrong.
            case invalidClient = "invalid_client"
            /// The code or refresh token is wrong, expired, revoked or used.
            case invalidGrant = "invalid_grant"
            /// The client may not use this grant.
            case unauthorizedClient = "unauthorized_client"
            /// The server does not have this grant.
            case unsupportedGrantType = "unsupported_grant_type"
            /// The server does not have this kind of answer.
            case unsupportedResponseType = "unsupported_response_type"
            /// A scope is unknown, or more than the user has granted.
            case invalidScope = "invalid_scope"
            /// The resource or audience is unknown (RFC 8707).
            case invalidTarget = "invalid_target"
            /// The user or the server refused.
            case accessDenied = "access_denied"
            /// The user has not entered the code yet.
            case authorizationPending = "authorization_pending"
            /// The device asks too often.
            case slowDown = "slow_down"
            /// The device code has expired.
            case expiredToken = "expired_token"
            /// The server failed.
            case serverError = "server_error"
            /// The server is overloaded.
            case temporarilyUnavailable = "temporarily_unavailable"

            /// What to do, for people.
            var step: String {
                switch self {
                case .invalidRequest: "check the settings, above all parameters"
                case .invalidClient: "check clientID, the secret and clientAuthentication"
                case .invalidGrant: "sign in again"
                case .unauthorizedClient: "allow this grant for the client at the server"
                case .unsupportedGrantType, .unsupportedResponseType: "use another grant, which the server has"
                case .invalidScope: "check scopes"
                case .invalidTarget: "check the audience or resource among parameters"
                case .accessDenied: "sign in again, and allow it"
                case .authorizationPending: "enter the code"
                case .slowDown: "wait"
                case .expiredToken: "sign in again, and enter the code sooner"
                case .serverError, .temporarilyUnavailable: "try again later"
                }
            }
        }

        /// The code as the server sent it.
        public let code: String
        /// What the server says about it, for developers.
        public let text: String?
        /// The reason; `nil` for a code that is not of the standards.
        public var reason: Reason? {
            // The names that GitHub and Slack have.
            ["bad_refresh_token", "invalid_refresh_token"].contains(code) ? .invalidGrant : Reason(rawValue: code)
        }

        /// The code, and what the server says about it.
        public var description: String {
            URLText.visible(String(code.prefix(64)) + (text.map { " (\($0.prefix(200)))" } ?? ""))
        }

        init(code: String, text: String?) {
            self.code = code
            self.text = text
        }

        /// The error for the caller.
        func error(_ what: String, _ settings: Settings, _ response: HTTPResponse? = nil) -> NetworkError {
            NetworkError(
                .authentication,
                message: "the request for \(what) was refused by \(URLParts.redacted(settings.place)): \(self); "
                    + (reason?.step ?? "look at the documentation of the server"),
                response: response, underlying: self)
        }
    }
}

extension NetworkError {
    /// Whether a server did not answer, or is too busy to: the same question may be answered later.
    var isOutage: Bool {
        switch kind {
        case .dns, .timeout, .connect, .connectionLost: true
        default: response?.isOutage ?? false
        }
    }
}

extension HTTPResponse {
    /// Whether the server, or a gateway in its place, is too busy.
    var isOutage: Bool { status == 429 || status >= 500 }
}
