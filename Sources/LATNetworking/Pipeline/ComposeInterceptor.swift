public import HTTPCore

/// Puts a request together for one attempt: headers by precedence, common parameters, address.
///
/// Headers, later wins, `nil` removes: the manager's < the domain's < the server row's < the provider's < the
/// request's (an entity's, then its call's). Parameters: the provider's < the request's.
struct ComposeInterceptor: Interceptor {
    let defaults: HTTPHeaders
    let headerProvider: HeaderProvider?
    let parameterProvider: ParameterProvider?
    /// The total timeout of a request that names none; no provider is waited for longer.
    let timeout: Duration?
    private let watch = DeadlineWatch()

    init(
        defaults: HTTPHeaders, headerProvider: HeaderProvider?, parameterProvider: ParameterProvider?,
        timeout: Duration?
    ) {
        self.defaults = defaults
        self.headerProvider = headerProvider
        self.parameterProvider = parameterProvider
        self.timeout = timeout
    }

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
            headers.merge(context.preview?.own(in: request.headers) ?? request.headers)
            composed.headers = headers
        }
        return try await next(composed)
    }

    /// The request as the app's interceptors see it: the headers of manager and rows laid under its own, and the body
    /// put in. What only the providers know is not there yet; a parameter provider's parameters come into the body
    /// after the interceptors, so that with one there is none yet.
    func preview(of request: HTTPRequest) throws(NetworkError) -> HTTPRequest {
        guard !isIdle(for: request) else { return request }
        var shown = request
        var context = request.context
        if parameterProvider == nil, let content = context.content {
            try RequestBuilder.put(content, into: &shown)
            context.ownQuery = String(shown.url.dropFirst(request.url.count))
            for index in context.addresses.indices {
                var elsewhere = request
                elsewhere.url = context.addresses[index]
                try RequestBuilder.put(content, into: &elsewhere)
                context.addresses[index] = elsewhere.url
            }
            context.content = nil
        }
        if !context.replacesGlobalHeaders {
            shown.headers = defaults.merging(context.rowHeaders).merging(request.headers)
            context.preview = HeaderPreview(own: request.headers, shown: shown.headers)
        }
        shown.context = context
        return shown
    }

    private func ask<Answer: Sendable>(
        _ provider: @escaping @Sendable (HTTPRequest) async throws -> Answer, _ name: String,
        for request: HTTPRequest
    ) async throws -> Answer {
        do {
            guard let limit = request.timeout ?? timeout else { return try await provider(request) }
            return try await watch.limit(limit) { try await provider(request) }
        } catch let error as CancellationError {
            throw error
        } catch is DeadlineWatch.Exceeded {
            throw NetworkError(
                .timeout(.total), message: "the \(name) provider took longer than the timeout; nothing was sent",
                request: request)
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
