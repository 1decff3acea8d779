import CurlTransport
public import HTTPCore

/// Decides how to follow a redirect: the rules of RFC 9110 §15.4 as a function of request and response, without I/O.
struct RedirectRule {
    /// Fields that are never sent to another origin.
    var secrets: Secrets
    var allowsInsecure = false
    /// The URL that a request really goes to: `https` where the host requires it by HSTS.
    var effectiveURL: @Sendable (String) -> String = { $0 }

    /// Returns the request that follows a response.
    ///
    /// - Returns: `nil` when the response is not a redirect to follow, by its status or for lack of `Location`.
    /// - Throws: ``NetworkError/Kind/redirect`` for a redirect that must not be followed.
    func next(after response: HTTPResponse, to request: HTTPRequest) throws(NetworkError) -> HTTPRequest? {
        // The first non-empty field counts, as in curl.
        guard [301, 302, 303, 307, 308].contains(response.status),
            let location = response.headers[values: "Location"].first(where: { !$0.isEmpty })
        else { return nil }
        guard var url = URLReference.resolve(location, against: Self.base(response, request)) else {
            throw Self.unusable(request, response)
        }
        if request.context.upgrades { url = URLReference.httpForm(of: url) }
        guard URLReference.origin(of: url) != nil else { throw Self.unusable(request, response) }
        var next = request
        next.url = effectiveURL(url)
        if Self.changesToGet(response.status, request.method) {
            next.method = .get
            Self.dropBody(&next)
        } else if let body = request.body, !body.isReplayable {
            throw Self.refusal(
                "status \(response.status) needs the body again, but its stream can be read only once; make it with the "
                    + "closure form of .stream, or send data or a file", request, response)
        }
        try restrict(&next, from: response.url, request, response)
        return next
    }

    /// Removes secrets from a request that goes to another origin than `url`.
    ///
    /// - Throws: ``NetworkError/Kind/redirect`` when it goes from https to http.
    func restrict(
        _ next: inout HTTPRequest, from url: String, _ request: HTTPRequest, _ response: HTTPResponse
    ) throws(NetworkError) {
        guard let origin = URLReference.origin(of: next.url), origin != URLReference.origin(of: url) else { return }
        if !allowsInsecure, origin.hasPrefix("http:"), url.lowercased().hasPrefix("https:") {
            throw Self.refusal(
                "the server redirects from https to http (\(URLParts.redacted(next.url))), which is not "
                    + "encrypted", request, response)
        }
        strip(&next)
    }

    /// Removes what belongs to the origin of `url` from a request to another origin, before its headers are composed.
    ///
    /// - Parameter defaults: the headers that the manager would add later; secret ones are not added then.
    func strip(_ next: inout HTTPRequest, from url: String, defaults: HTTPHeaders) {
        guard URLReference.origin(of: next.url) != URLReference.origin(of: url) else { return }
        strip(&next, defaults: defaults)
    }

    /// Removes the credentials of a request, before its headers are composed.
    func strip(_ next: inout HTTPRequest, defaults: HTTPHeaders) {
        var rule = self
        rule.secrets = secrets.union(next.context.rowSecrets)
        let names = (defaults.fields + next.context.rowHeaders.fields + next.headers.fields).map(\.name)
            .filter(rule.secrets.contains(header:))
        rule.strip(&next)
        for name in names { next.headers[name] = nil }
    }

    private func strip(_ next: inout HTTPRequest) {
        next.authentication = nil
        next.context.hasLeftOrigin = true
        // Pins and TLS settings belong to the previous origin. That a revoked certificate is refused holds for all.
        let revocation = next.tls.revocation
        next.tls = HTTPRequest.TLS()
        if revocation != .off { next.tls.revocation = revocation }
        let belongsToOrigin = { secrets.contains(header: $0) || $0.equalsIgnoringASCIICase("Host") }
        // Fields that the caller removed, such as the jar's cookies, stay removed.
        let removals = next.headers.fields.filter { $0.value == nil && belongsToOrigin($0.name) }
        Self.removeHeaders(&next, where: belongsToOrigin)
        for removal in removals { next.headers[removal.name] = nil }
        if !next.context.rowHeaders.hasNoFields { next.context.rowHeaders.removeAll(where: belongsToOrigin) }
    }

    /// The base URL of `Location`: the URL that answered, with the fragment of the request, which a `Location` without
    /// a fragment inherits (RFC 9110 §10.2.2).
    private static func base(_ response: HTTPResponse, _ request: HTTPRequest) -> String {
        guard let hash = request.url.utf8.firstIndex(of: UInt8(ascii: "#")), !response.url.contains("#") else {
            return response.url
        }
        return response.url + request.url[hash...]
    }

    /// 303 asks for GET; after 301 and 302 a POST becomes a GET, as in all user agents (RFC 9110 §15.4.2, §15.4.3).
    private static func changesToGet(_ status: Int, _ method: HTTPMethod) -> Bool {
        switch status {
        case 303: method != .get && method != .head
        case 301, 302: method == .post
        default: false
        }
    }

    /// Removes the body, and the fields that describe it.
    static func dropBody(_ request: inout HTTPRequest) {
        request.body = nil
        request.trailers = nil
        removeHeaders(&request) { name in
            [
                "Content-Type", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location",
                "Content-Digest", "Repr-Digest", "Digest", "Transfer-Encoding", "Expect", "Trailer", "Content-MD5",
                "Content-Range", "Content-Disposition", "Last-Modified", "Idempotency-Key", "If-Match",
                "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
            ].contains { name.equalsIgnoringASCIICase($0) }
        }
    }

    private static func removeHeaders(_ request: inout HTTPRequest, where isUnwanted: (String) -> Bool) {
        guard !request.headers.hasNoFields else { return }
        request.headers.removeAll(where: isUnwanted)
    }

    private static func unusable(_ request: HTTPRequest, _ response: HTTPResponse) -> NetworkError {
        refusal("the Location of status \(response.status) is not an http or https URL", request, response)
    }

    static func refusal(_ reason: String, _ request: HTTPRequest, _ response: HTTPResponse) -> NetworkError {
        NetworkError(
            .redirect, message: "\(reason); set redirects = .none to see the response itself", request: request,
            response: response)
    }
}

/// Decides about each hop of a redirect before it is made: follows it, changes it, stops there, or refuses it.
///
/// ```swift
/// configuration.redirectHandler = { hop in
///     guard hop.next.url.hasPrefix("https://files.example.org/") else { return .refuse("not one of ours") }
///     var next = hop.next
///     next.headers["X-Trace"] = "1"
///     return .follow(next)
/// }
/// ```
///
/// Called after the rules of ``RedirectPolicy``, and not for hops that they refuse. An error that it throws fails the
/// call with ``NetworkError/Kind/provider``.
public typealias RedirectHandler = @Sendable (_ hop: RedirectPolicy.Hop) async throws -> RedirectPolicy.Decision

extension RedirectPolicy {
    /// A hop that is about to be made.
    public struct Hop: Sendable {
        /// The request that was redirected.
        public let request: HTTPRequest
        /// The redirect: its status is 301, 302, 303, 307 or 308.
        public let response: HTTPResponse
        /// The request that will be sent: method and body as the status requires, without secrets when the origin changes.
        public let next: HTTPRequest
        /// The hops made before this one.
        public let hops: [HTTPResponse.Redirect]
        /// Whether ``next`` goes to another scheme, host or port.
        public let changesOrigin: Bool
    }

    /// The decision of a ``RedirectHandler``.
    public enum Decision: Sendable {
        /// Make the hop, with ``RedirectPolicy/Hop/next`` or a changed request.
        ///
        /// When the request goes to another origin than ``RedirectPolicy/Hop/next``, the same rules apply: secrets are removed,
        /// and https to http is refused.
        case follow(HTTPRequest)
        /// Make no hop: the call ends with the redirect as its response.
        case stop
        /// Fail with ``NetworkError/Kind/redirect`` and this reason.
        case refuse(String)
    }
}
