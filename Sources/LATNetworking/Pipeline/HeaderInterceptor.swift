/// Lays the request's headers over the provider's, and those over the manager's defaults (later wins, `nil` removes).
struct HeaderInterceptor: Interceptor {
    let defaults: HTTPHeaders
    let provider: HeaderProvider?

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var headers = defaults
        if let provider { headers.merge(try await ask(provider, for: request)) }
        headers.merge(request.headers)
        var request = request
        request.headers = headers
        return try await next(request)
    }

    private func ask(_ provider: HeaderProvider, for request: HTTPRequest) async throws -> HTTPHeaders {
        do {
            return try await provider(request)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the header provider threw: \(error); nothing was sent", request: request,
                underlying: error)
        }
    }
}

/// Gives headers for a request. Asked once for each attempt, so that a token or timestamp is fresh.
public typealias HeaderProvider = @Sendable (HTTPRequest) async throws -> HTTPHeaders
