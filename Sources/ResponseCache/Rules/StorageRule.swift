package import HTTPCore

/// Which responses are stored, and what of them (RFC 9111 §3).
package enum StorageRule {
    /// Whether a cache may store the answer to a request, and has any use for it.
    ///
    /// - Parameter storesUnsafe: whether the request asked for it though its method is not GET.
    package static func isStorable(
        _ response: HTTPResponse, to request: HTTPRequest, storesUnsafe: Bool = false, _ mode: CacheMode = .private
    ) -> Bool {
        refusal(of: response, to: request, storesUnsafe: storesUnsafe, mode) == nil
    }

    /// Why the answer to a request is not stored; `nil` when it is.
    ///
    /// - Parameter storesUnsafe: whether the request asked for it though its method is not GET.
    package static func refusal(
        of response: HTTPResponse, to request: HTTPRequest, storesUnsafe: Bool = false, _ mode: CacheMode = .private
    ) -> CacheRefusal? {
        guard request.method == .get || storesUnsafe else { return .method(request.method.rawValue) }
        // Parts are no whole, 304 has none (§3.3), and 412 and 416 speak of the request's conditions and ranges alone.
        guard response.status >= 200, ![206, 304, 412, 416].contains(response.status) else {
            return .status(response.status)
        }
        if CacheControl(request: request.headers).noStore { return .requestNoStore }
        // The answer to a condition or a range may say something else than the whole would.
        if request.headers.contains("Range") || ValidationRule.hasConditions(request),
            !StatusRule.isHeuristicallyCacheable(response.status)
        {
            return .status(response.status)
        }
        return refusal(
            status: response.status, response.headers, CacheControl(response.headers, mode), to: request, mode)
    }

    /// Why an answer that is stored by hand would be used by no policy; `nil` when one would use it.
    package static func refusal(
        ofSeed response: HTTPResponse, to request: HTTPRequest, byteCount: Int64, storesUnsafe: Bool,
        _ mode: CacheMode = .private
    ) -> CacheRefusal? {
        guard isComplete(response, byteCount: byteCount, method: request.method) else { return .incomplete }
        // Only the rules of HTTP keep what is no success.
        guard TimeToLiveRule.refusal(status: response.status) != nil else { return nil }
        return refusal(of: response, to: request, storesUnsafe: storesUnsafe, mode)
    }

    /// Whether a part may be stored as an incomplete response (§3.3).
    package static func isStorable(part: HTTPResponse, to request: HTTPRequest, _ mode: CacheMode = .private) -> Bool {
        refusal(ofPart: part, to: request, mode) == nil
    }

    /// Why a part is not stored; `nil` when it is.
    package static func refusal(
        ofPart part: HTTPResponse, to request: HTTPRequest, _ mode: CacheMode = .private
    ) -> CacheRefusal? {
        guard request.method == .get else { return .method(request.method.rawValue) }
        guard part.status == 206 else { return .status(part.status) }
        if CacheControl(request: request.headers).noStore { return .requestNoStore }
        return refusal(status: part.status, part.headers, CacheControl(part.headers, mode), to: request, mode)
    }

    /// Why a response is none that may be kept for a request, with its credentials looked at; `nil` when it is.
    static func refusal(
        status: Int, _ headers: HTTPHeaders, _ control: CacheControl, to request: HTTPRequest, _ mode: CacheMode
    ) -> CacheRefusal? {
        if let refusal = refusal(status: status, headers, control, mode) { return refusal }
        return allowsAuthorization(control, to: request, mode) ? nil : .authorization
    }

    /// Whether the answer to a request may be used again although somebody has shown who he is (§3.5). One's own cache
    /// keeps senders apart otherwise.
    private static func allowsAuthorization(
        _ control: CacheControl, to request: HTTPRequest, _ mode: CacheMode
    ) -> Bool {
        guard mode == .shared, request.authentication != nil || request.headers.contains("Authorization") else {
            return true
        }
        return control.allowsAuthorization
    }

    /// What makes a response one that may be kept, looked at when it comes and again when it is found: it may have been
    /// stored by another rule than this one.
    package static func isUsable(status: Int, _ headers: HTTPHeaders, _ mode: CacheMode = .private) -> Bool {
        refusal(status: status, headers, CacheControl(headers, mode), mode) == nil
    }

    /// Why a response is none that may be kept; `nil` when it is. See ``isUsable(status:_:_:)``.
    private static func refusal(
        status: Int, _ headers: HTTPHeaders, _ control: CacheControl, _ mode: CacheMode
    ) -> CacheRefusal? {
        // §5.2.2.7.
        if mode == .shared, control.isPrivate { return .privateAnswer }
        if control.mustUnderstand {
            // Where the status is understood, must-understand takes the place of no-store (§5.2.2.3).
            guard StatusRule.isUnderstood(status) else { return .notUnderstood(status: status) }
        } else if control.noStore {
            return .noStore
        }
        guard !VaryRule.variesOnEverything(headers) else { return .variesOnEverything }
        if control.maxAge != nil || headers.contains("Expires") { return nil }
        // An error that says nothing of its freshness must not take the place of what may stand in for it.
        if StatusRule.isServerError(status) { return .noFreshness }
        if control.isPublic || control.isPrivate || !control.privateFields.isEmpty && mode == .private { return nil }
        // Without a word on freshness: a guess or a question to the server must be possible.
        let isKnown =
            StatusRule.isHeuristicallyCacheable(status)
            && (headers.contains("ETag") || headers.contains("Last-Modified") || control.noCache)
        return isKnown ? nil : .noFreshness
    }

    /// Whether all of a collected body is there, as far as it can be told.
    package static func isComplete(_ response: HTTPResponse, byteCount: Int64, method: HTTPMethod) -> Bool {
        announcedLength(of: response, method: method).map { $0 == byteCount } ?? true
    }

    /// The bytes that the body has to have; `nil` where the fields do not tell, as of a coded body.
    package static func announcedLength(of response: HTTPResponse, method: HTTPMethod) -> Int64? {
        guard method != .head, !response.headers.contains("Content-Encoding"),
            !response.headers.contains("Transfer-Encoding"), response.status != 204
        else { return nil }
        return response.headers["Content-Length"].flatMap { Int64($0.trimmingFieldWhitespace) }
    }

    /// The fields of a response that are stored: all but those of one connection (§3.1), and in a shared cache those of
    /// one user (§5.2.2.7).
    package static func storedHeaders(_ headers: HTTPHeaders, _ mode: CacheMode = .private) -> HTTPHeaders {
        var stored = headers
        let personal = mode == .shared ? CacheControl(headers).privateFields : []
        let named = Set(headers[values: "Connection"].flatMap { FieldList.names($0) })
        stored.removeAll { name in
            let name = name.lowercased()
            return connectionFields.contains(name) || named.contains(name) || personal.contains(name)
                || name.hasPrefix(":")
        }
        return stored
    }

    /// RFC 9110 §7.6.1 and RFC 9111 §3.1.
    static let connectionFields: Set<String> = [
        "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "trailer",
        "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
    ]

    /// Whether the answer to a POST may be stored for later GETs (RFC 9110 §9.3.3): the server says that it is what
    /// the URL holds, and for how long.
    package static func answersGet(
        _ response: HTTPResponse, to request: HTTPRequest, contentURL: String?, _ mode: CacheMode = .private
    ) -> Bool {
        let control = CacheControl(response.headers, mode)
        guard request.method == .post, response.status == 200, let contentURL, let own = CanonicalURL(response.url),
            control.maxAge != nil || response.headers.contains("Expires"),
            !CacheControl(request: request.headers).noStore
        else { return false }
        return CanonicalURL(contentURL) == own
            && refusal(status: response.status, response.headers, control, to: request, mode) == nil
    }
}
