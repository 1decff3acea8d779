public import HTTPCore

/// How a call ended: with success, with a failure that the server reported, or without a usable response.
///
/// `Value` is ``HTTPResponse`` for outcome observers, and ``Reply`` for a `RequestModel` of LATKit.
public enum CallOutcome<Value: Sendable>: Sendable {
    /// The call succeeded.
    case success(Value)
    /// The server answered and reported a failure, by its envelope's code or by the success judge.
    case failure(BusinessFailure, NetworkError)
    /// Any other failure: the network, the status, the decoding, a cancellation.
    case networkError(NetworkError)

    package init(_ result: Result<Value, NetworkError>) {
        switch result {
        case .success(let value): self = .success(value)
        case .failure(let error):
            guard let failure = error.businessFailure, case .business = error.kind else {
                self = .networkError(error)
                return
            }
            self = .failure(failure, error)
        }
    }
}

/// Receives the outcome of each call before its caller does, for example to notice an expired token or an untrusted
/// certificate. The request has no URL if none could be made, for example because a name is not in the table.
public typealias OutcomeObserver =
    @Sendable (_ outcome: CallOutcome<HTTPResponse>, _ request: HTTPRequest) async -> Void

/// Fixes the cause of a call's failure, and has the call sent again.
///
/// ```swift
/// struct Relogin: FailureResolver {
///     func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
///         guard error.response?.status == 401 else { return .deliver }
///         try await session.renew()
///         return .replay     // the providers are called again
///     }
/// }
/// ```
public protocol FailureResolver: Sendable {
    /// Called before a failure is delivered, at most ``CentralRequestManager/Configuration/maxReplays`` times for each
    /// call. An error that it throws is delivered instead of the failure.
    func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution
}

/// The decision of a ``FailureResolver``.
public enum Resolution: Sendable {
    /// Send the request again.
    case replay
    /// Deliver the failure.
    case deliver
}
