/// Sends a request and returns its response: the engine, or a replacement for it.
///
/// A transport sends one request and returns one response. It follows no
/// redirects, repeats no request that may have taken effect, and returns every
/// status unchanged. Interceptors do the rest.
public protocol Transport: Sendable {
    /// Sends one request.
    ///
    /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
    func send(_ request: HTTPRequest) async throws -> HTTPResponse
}

/// A step in the chain that every request and its response pass through.
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
/// An interceptor may change the request, respond without calling `next`,
/// inspect or change the response, or call `next` again to repeat the request.
public protocol Interceptor: Sendable {
    /// Handles one request. `next` sends it through the rest of the chain.
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse
}
