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

extension CentralRequestManager {
    /// Sends a request until its outcome is final, tells the observers, and returns or throws it.
    func outcome<Value>(
        of request: HTTPRequest, entity: EntityIdentity? = nil,
        _ decode: (HTTPResponse, HTTPRequest) throws -> Value
    ) async throws -> Value {
        try await tracked(request, entity: entity) { try await finalOutcome(of: $0, decode) }
    }

    private func finalOutcome<Value>(
        of request: HTTPRequest, _ decode: (HTTPResponse, HTTPRequest) throws -> Value
    ) async throws -> (Value, HTTPResponse) {
        var replays = 0
        while true {
            do {
                let response = try await dispatch(request)
                let value = try decode(response, request)
                for observer in configuration.outcomeObservers { await observer(.success(response), request) }
                return (value, response)
            } catch let error as NetworkError {
                var final = error.attaching(request)
                do {
                    if try await isReplayed(final, request, replays) {
                        replays += 1
                        continue
                    }
                } catch let error as NetworkError {
                    final = error
                }
                await tell(final, request)
                throw final
            } catch let error as CancellationError {
                await tell(NetworkError(.cancelled, message: "the request was cancelled", request: request), request)
                throw error
            }
        }
    }

    /// Tells the observers of a failure.
    func tell(_ error: NetworkError, _ request: HTTPRequest) async {
        for observer in configuration.outcomeObservers { await observer(CallOutcome(error), request) }
    }

    private func isReplayed(_ error: NetworkError, _ request: HTTPRequest, _ replays: Int) async throws -> Bool {
        guard let resolver = configuration.resolver, replays < configuration.maxReplays, error.kind != .cancelled,
            request.isReplayable
        else { return false }
        do {
            return try await resolver.resolve(error, of: request) == .replay
        } catch let error as NetworkError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the resolver threw: \(error)", request: request, underlying: error)
        }
    }
}
