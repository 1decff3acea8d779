public import HTTPCore
import Synchronization

/// Puts a request together for one attempt: headers by precedence, common parameters, address.
///
/// Headers, later wins, `nil` removes: the manager's < the domain's < the server row's < the provider's < the
/// request's (an entity's, then its call's). Parameters: the provider's < the request's.
struct ComposeInterceptor: Interceptor {
    let defaults: HTTPHeaders
    let headerProvider: HeaderProvider?
    let parameterProvider: ParameterProvider?

    /// Whether it would leave a request as it is.
    func isIdle(for request: HTTPRequest) -> Bool {
        headerProvider == nil && defaults.hasNoFields && request.attachment == nil
    }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let context = request.context
        var composed = request
        if var content = context.content {
            if let parameterProvider {
                let common = try RequestBuilder.encoded(try await ask(parameterProvider, "parameter", for: composed))
                if !common.isEmpty || content.members != nil {
                    content.members = common.merging(content.members ?? [:]) { $1 }
                }
            }
            try RequestBuilder.put(content, into: &composed)
        }
        if !context.replacesGlobalHeaders {
            var headers = defaults
            headers.merge(context.rowHeaders)
            if let headerProvider { headers.merge(try await ask(headerProvider, "header", for: composed)) }
            headers.merge(request.headers)
            composed.headers = headers
        }
        return try await next(composed)
    }

    private func ask<Answer>(
        _ provider: @Sendable (HTTPRequest) async throws -> Answer, _ name: String, for request: HTTPRequest
    ) async throws -> Answer {
        do {
            return try await provider(request)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the \(name) provider threw: \(error); nothing was sent", request: request,
                underlying: error)
        }
    }
}

/// Gives headers for a request. Asked once for each attempt, so that a token or timestamp is fresh.
public typealias HeaderProvider = @Sendable (HTTPRequest) async throws -> HTTPHeaders

/// Gives parameters that every request has in common; the request's own win. Asked once for each attempt, so that a
/// nonce or timestamp is fresh.
public typealias ParameterProvider = @Sendable (HTTPRequest) async throws -> Parameters
