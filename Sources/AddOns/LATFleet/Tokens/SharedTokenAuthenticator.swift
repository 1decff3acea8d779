internal import Cryptography
public import FoundationEssentials
public import LATNetworking

/// An authenticator that can share its token with other processes.
///
/// ```swift
/// actor Session: SharedTokenAuthenticator {
///     struct Tokens: Codable, Sendable { var access, refresh: String }
///     private var tokens: Tokens?
///
///     func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = tokens.map { "Bearer \($0.access)" } }
///     func refresh(using manager: CentralRequestManager) async throws { tokens = try await renewed(tokens, manager) }
///
///     func exportToken() -> Tokens? { tokens }
///     func adopt(_ token: Tokens) { tokens = token }
/// }
///
/// configuration.authenticator = try fleet.authenticator("payments", sharing: Session(), key: key)
/// ```
///
/// See ``Fleet/authenticator(_:sharing:key:)``.
public protocol SharedTokenAuthenticator: Authenticator {
    /// All that a process needs to send requests, and to renew the token later: usually the access token and the refresh token.
    associatedtype Token: Codable, Sendable

    /// The token that was renewed last; `nil` when there is none to share.
    ///
    /// - Throws: any error; the renewal succeeds all the same, and the token is not shared, with one warning.
    func exportToken() async throws -> Token?

    /// Takes the token that another process has renewed. Never called during a renewal of this process.
    ///
    /// - Throws: any error; the token is then renewed here when the server rejects the present one.
    func adopt(_ token: Token) async throws
}

extension OAuth2: SharedTokenAuthenticator {}

extension Fleet {
    /// Returns an authenticator whose token is renewed once for all processes.
    ///
    /// The first process whose request is rejected takes a lease and renews the token. The others wait, and adopt the
    /// new token. A process whose request carried an older token adopts the newer one instead of renewing it, and a
    /// process that has just started begins with the fleet's token. A failed renewal affects only its own process: the
    /// next process tries again. While the Redis cannot be reached, each process renews its own token.
    ///
    /// Redis keeps the token for a day, encrypted with AES-256-GCM. A token encrypted with another key is ignored, with one
    /// warning (``FleetConfiguration/warningHandler``).
    ///
    /// - Parameters:
    ///   - name: The name of the token, the same in all processes.
    ///   - authenticator: The authenticator of this process.
    ///   - key: 32 secret bytes, the same in all processes, which are never sent to Redis. Without a key, this throws.
    /// - Returns: the authenticator for ``CentralRequestManager/Configuration/authenticator``.
    /// - Throws: ``FleetError/Kind/configuration`` for a missing key or one of another length, and for an empty name.
    public func authenticator(
        _ name: String, sharing authenticator: some SharedTokenAuthenticator, key: Data? = nil
    ) throws(FleetError) -> any Authenticator {
        guard !name.isEmpty else {
            throw .configuration("the token has no name; give one that all processes use for it")
        }
        guard let key else {
            throw .configuration(
                "the token \"\(name)\" has no key, and a token is never written to Redis in the clear; give key: 32 secret bytes "
                    + "that all processes have")
        }
        guard key.count == AuthenticatedCipher.keyByteCount else {
            throw .configuration(
                "the key of the token \"\(name)\" has \(key.count) bytes instead of \(AuthenticatedCipher.keyByteCount); a "
                    + "password is not a key, derive one of that length from it")
        }
        return FleetAuthenticator(authenticator, SharedToken(self, name: name, key: key))
    }
}
