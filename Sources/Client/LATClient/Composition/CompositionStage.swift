public import HTTPCore
import Platform

/// Composes a request for one attempt: merges headers by precedence, and adds common parameters.
///
/// Headers, where later ones win and `nil` removes: the manager's < the domain's < the server row's < the provider's < the
/// request's (an entity's, then its call's). A `Content-Type` before the request's is only for bodies that take it
/// (``HTTPBody/takesDefault(contentType:)``). Parameters: the provider's < the request's.
struct CompositionStage: Stage {
    let defaults: HTTPHeaders
    let immediateHeaderProvider: ImmediateHeaderProvider?
    let headerProvider: HeaderProvider?
    let parameterProvider: ParameterProvider?
    /// Whether the request already has the headers of manager and rows, because interceptors of the app have seen it.
    let isShownBefore: Bool
    /// The total timeout of a request that sets none; it also limits each provider.
    let timeout: Duration?
    let limits: TimeLimits
    let scope: CredentialScope

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        var composed = request
        // A page at another origin gets none: they may be credentials.
        if let parameterProvider, let content = call.details.content, !call.request.context.hasLeftOrigin {
            let provided = try await ask("parameter", for: composed, call, parameterProvider)
            try add(provided, to: content, chain, in: &composed)
        }
        guard request.replacesGlobalHeaders != true else { return try await chain.proceed(composed) }
        var provided = try immediateHeaders(for: composed)
        if let headerProvider { provided.merge(try await ask("header", for: composed, call, headerProvider)) }
        compose(request, with: &provided, call, in: &composed)
        return try await chain.proceed(composed)
    }

    private func immediateHeaders(for request: HTTPRequest) throws(NetworkError) -> HTTPHeaders {
        guard let immediateHeaderProvider else { return HTTPHeaders() }
        do {
            return try immediateHeaderProvider(request)
        } catch {
            throw Self.failure(error, "header", request)
        }
    }

    /// Merges the headers of all layers. Not inlined, so that a waiting call has no room for it.
    @inline(never)
    private func compose(
        _ request: HTTPRequest, with provided: inout HTTPHeaders, _ call: Call, in composed: inout HTTPRequest
    ) {
        let isSecret = { scope.secrets.contains(header: $0) || request.context.rowSecrets.contains(header: $0) }
        if provided.fields.contains(where: { isSecret($0.name) }), !scope.includes(request.url, of: call) {
            provided.removeAll(where: isSecret)
        }
        let (base, own) = isShownBefore ? request.headers.layers : (base(of: request), request.headers)
        composed.headers = base.merging(provided).merging(own)
        if isShownBefore { composed.headers = composed.headers.marked(as: nil) }
        Self.removeDefaultType(of: &composed, own: own)
        // The engine writes the field for these credentials, unless there is one.
        let isOwnField = own.fields.contains { $0.name.equalsIgnoringASCIICase(Self.authorization) }
        if request.authentication != nil, !isOwnField {
            composed.headers.removeAll { $0.equalsIgnoringASCIICase(Self.authorization) }
        }
        if let watch = call.watch, watch.call != nil {
            watch.record(.composed(sources(of: request, own, provided, call, composed)))
        }
    }

    /// Returns the request as the app's interceptors see it, before the providers are asked.
    func shown(_ request: HTTPRequest) -> HTTPRequest {
        var shown = request
        let base = base(of: request)
        // Without anything to compose, this stage does not run, and would leave its marks.
        let isComposed =
            request.replacesGlobalHeaders != true
            && (!base.hasNoFields || headerProvider != nil || immediateHeaderProvider != nil)
        if isComposed {
            shown.headers = base.marked(as: .base).merging(request.headers.marked(as: .request))
        }
        Self.removeDefaultType(of: &shown, own: request.headers)
        return shown
    }

    private static let contentType = "Content-Type"
    private static let authorization = "Authorization"

    /// Removes a `Content-Type` that does not fit the body, unless it is the request's own.
    private static func removeDefaultType(of request: inout HTTPRequest, own: HTTPHeaders) {
        guard let body = request.body else { return }
        let isType = { (field: HTTPHeaders.Field) in field.name.equalsIgnoringASCIICase(contentType) }
        let fields = request.headers.fields
        let types = fields.filter(isType)
        guard !types.isEmpty, !own.fields.contains(where: isType),
            !types.allSatisfy({ body.takesDefault(contentType: $0.value) })
        else { return }
        request.headers = HTTPHeaders(fields.filter { !isType($0) })
    }

    /// The headers of manager and rows, which the provider's and the request's own override.
    private func base(of request: HTTPRequest) -> HTTPHeaders {
        request.replacesGlobalHeaders == true ? HTTPHeaders() : defaults.merging(request.context.rowHeaders)
    }

    /// Where the values of the fields come from, by the names in lower case.
    private func sources(
        of request: HTTPRequest, _ own: HTTPHeaders, _ provided: HTTPHeaders, _ call: Call, _ composed: HTTPRequest
    ) -> [String: CallEvent.FieldSource] {
        var sources: [String: CallEvent.FieldSource] = [:]
        let layers: [(HTTPHeaders, CallEvent.FieldSource)] = [
            (defaults, .manager), (request.context.rowHeaders, .row), (provided, .provider),
            (own, .authenticator), (call.request.headers, .call),
        ]
        let entityHeaders = call.details.entityHeaders
        for (headers, source) in layers {
            for field in headers.fields {
                let (name, value, key) = (field.name, field.value, field.name.lowercased())
                // What the authenticator replaced is not the request's own any more.
                if source == .call, value != nil, request.headers[name] != value { continue }
                let isOfEntity = source == .call && value.map(entityHeaders[values: name].contains) ?? false
                sources[key] = value == nil ? nil : isOfEntity ? .entity : source
            }
        }
        for name in [Self.contentType, Self.authorization] where !composed.headers.contains(name) {
            sources[name.lowercased()] = nil
        }
        return sources
    }

    /// Adds the provider's parameters to the request's own, which win.
    private func add(
        _ provided: Parameters, to content: RequestContent, _ chain: Chain, in request: inout HTTPRequest
    ) throws(NetworkError) {
        let call = chain.call
        let common = try RequestBuilder.encoded(provided, by: call.details.coding)
        guard !common.isEmpty else { return }
        if let linked = call.details.linkedNames {
            var common = common
            for name in linked { common.remove(name) }
            // The server may repeat what the provider has given for the page before.
            let address = URLParts.removing(parameters: common.names, from: request.url)
            request.url = ParameterEncoder.appending(query: common.queryText, to: address)
            return
        }
        var all = content
        all.members = content.members ?? EncodedMembers()
        all.members?.addMissing(common)
        // The mirrors set the URL only of a request that has the call's own.
        let isOwn = chain.addressIndex > 0 || request.url == call.request.url
        if isOwn, call.details.addresses.indices.contains(chain.addressIndex), request.body == call.request.body {
            request.url = call.details.addresses[chain.addressIndex]
            return try RequestBuilder.put(all, into: &request)
        }
        // The URL or the body is no longer the call's own, for example because an interceptor replaced it. The missing
        // parameters go into the query if the method asks for that or there is a body. Otherwise they become the body,
        // unless the call's own body was removed.
        var missing = common
        for (name, _) in content.members?.object ?? [:] { missing.remove(name) }
        guard !missing.isEmpty else { return }
        if request.method.encodesParametersInQuery || request.body != nil {
            request.url = ParameterEncoder.appending(query: missing.queryText, to: request.url)
        } else if call.request.body == nil {
            all.members = missing
            try RequestBuilder.put(all, into: &request)
        }
    }

    private func ask<Answer: Sendable>(
        _ name: String, for request: HTTPRequest, _ call: Call,
        _ provider: @escaping @Sendable (HTTPRequest) async throws -> Answer
    ) async throws -> Answer {
        do {
            return try await limits.run(within: request.timeout ?? timeout, for: call, late: { Late() }) {
                try await CallScope.providing("\(name) provider") { try await provider(request) }
            }
        } catch is Late {
            throw NetworkError(
                .timeout(.total),
                message: "the \(name) provider took longer than the timeout; this attempt was not sent",
                request: request)
        } catch {
            if error.endsTask || call.isCancelled || CallScope.isTooDeep(error) { throw error }
            throw Self.failure(error, name, request)
        }
    }

    private static func failure(_ error: any Error, _ name: String, _ request: HTTPRequest) -> NetworkError {
        NetworkError(
            .provider, message: "the \(name) provider threw: \(error); this attempt was not sent", request: request,
            underlying: error)
    }

    private struct Late: Error {}
}

/// Returns headers for a request. Called once for each attempt, so that a token or timestamp is fresh. If it throws, the call
/// fails with ``NetworkError/Kind/provider``, and this attempt is not sent.
public typealias HeaderProvider = @Sendable (HTTPRequest) async throws -> HTTPHeaders

/// Returns headers for a request synchronously. Errors as for ``HeaderProvider``.
public typealias ImmediateHeaderProvider = @Sendable (HTTPRequest) throws -> HTTPHeaders

/// Returns parameters that every request has in common; the request's own win. Called once for each attempt, so that a
/// nonce or timestamp is fresh. Errors as for ``HeaderProvider``.
public typealias ParameterProvider = @Sendable (HTTPRequest) async throws -> Parameters
