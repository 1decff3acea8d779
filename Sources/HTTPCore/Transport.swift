/// What sends a request and brings the response: the engine, or a stand-in for it.
///
/// A transport takes one request to one answer. It follows no redirects,
/// repeats nothing that might have had an effect, and gives every status as it
/// came; the rest is the corridor's work.
public protocol Transport: Sendable {
    /// Sends one request.
    ///
    /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
    func send(_ request: HTTPRequest) async throws -> HTTPResponse
}

/// A room along the corridor that every request walks down and every response walks back.
///
/// ```swift
/// struct Signing: Interceptor {
///     func intercept(
///         _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
///     ) async throws -> HTTPResponse {
///         var request = request
///         request.headers["X-Signature"] = sign(request)
///         return try await next(request)
///     }
/// }
/// ```
///
/// It may change the request, answer by itself without calling `next`, look at
/// or change the response, or call `next` again to repeat the request.
public protocol Interceptor: Sendable {
    /// Handles one request. `next` is the rest of the corridor.
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse
}
