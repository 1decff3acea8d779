public import HTTPCore

/// How a call ended. The three are never mixed: an answer that is a success, an answer in which the server said no, and
/// no usable answer.
public enum CallOutcome: Sendable {
    /// The call succeeded.
    case success(HTTPResponse)
    /// The server answered and said no: its envelope's code, or the judge.
    case failure(BusinessFailure, NetworkError)
    /// Anything else: the network, the status, the decoding, a cancellation.
    case networkError(NetworkError)

    init(_ error: NetworkError) {
        if let failure = error.businessFailure, case .business = error.kind {
            self = .failure(failure, error)
        } else {
            self = .networkError(error)
        }
    }
}

/// Is told how calls ended, before their callers are: to note an expired token, an untrusted certificate. What is
/// refused before there is a request, a name that the table does not have for one, comes with a request without a URL.
public typealias OutcomeObserver = @Sendable (_ outcome: CallOutcome, _ request: HTTPRequest) async -> Void

/// Mends what made a call fail, and has it sent again.
///
/// ```swift
/// struct Relogin: FailureResolver {
///     func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
///         guard error.response?.status == 401 else { return .deliver }
///         try await session.renew()
///         return .replay     // headers and common parameters are asked for anew
///     }
/// }
/// ```
public protocol FailureResolver: Sendable {
    /// Called before a failed call is delivered, at most ``CentralRequestManager/Configuration/maxReplays`` times for
    /// each. What it throws is delivered in the failure's place.
    func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution
}

/// What a ``FailureResolver`` says.
public enum Resolution: Sendable {
    /// Send the request again.
    case replay
    /// Deliver the failure.
    case deliver
}
