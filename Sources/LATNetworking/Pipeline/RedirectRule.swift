import CurlTransport
import HTTPCore

/// What to do with a redirect: the rules of RFC 9110 §15.4 as a function of request and response, no I/O.
enum RedirectRule {
    /// The request that follows a response.
    ///
    /// - Parameter secretHeaders: fields that never reach another origin.
    /// - Returns: `nil` when the response is no redirect to follow, because its status or the lack of `Location` says
    ///   so; it is the answer then.
    /// - Throws: ``NetworkError/Kind/redirect`` for one that must not be followed.
    static func next(
        after response: HTTPResponse, to request: HTTPRequest, secretHeaders: SecretHeaders
    ) throws(NetworkError) -> HTTPRequest? {
        guard [301, 302, 303, 307, 308].contains(response.status),
            let location = response.headers["Location"], !location.isEmpty
        else { return nil }
        guard let url = URLReference.resolve(location, against: response.url),
            let origin = URLReference.origin(of: url)
        else {
            throw refusal("the Location of status \(response.status) is no http or https URL", request, response)
        }
        let isSameOrigin = origin == URLReference.origin(of: response.url)
        if !isSameOrigin, origin.hasPrefix("http:"), response.url.lowercased().hasPrefix("https:") {
            throw refusal(
                "the server redirects from https to http (\(URLText.redacted(url))), where all could be read on the way",
                request, response)
        }
        var next = request
        next.url = url
        if changesToGet(response.status, request.method) {
            next.method = .get
            dropBody(&next)
        } else if let body = request.body, !body.isReplayable {
            throw refusal(
                "status \(response.status) wants the body again but its stream can be read only once; make it with the "
                    + "closure form of .stream, or send data or a file", request, response)
        }
        if !isSameOrigin { dropSecrets(&next, secretHeaders) }
        return next
    }

    /// 303 asks for GET; after 301 and 302 a POST becomes one, as all user agents do (RFC 9110 §15.4.2, §15.4.3).
    private static func changesToGet(_ status: Int, _ method: HTTPMethod) -> Bool {
        switch status {
        case 303: method != .get && method != .head
        case 301, 302: method == .post
        default: false
        }
    }

    private static func dropBody(_ request: inout HTTPRequest) {
        request.body = nil
        removeHeaders(&request) { name in
            ["Content-Type", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location", "Digest"]
                .contains { name.equalsIgnoringASCIICase($0) }
        }
    }

    private static func dropSecrets(_ request: inout HTTPRequest, _ secrets: SecretHeaders) {
        request.authentication = nil
        request.pinnedPublicKeys = []  // they are those of the domain that redirected
        removeHeaders(&request) { secrets.contains($0) || $0.equalsIgnoringASCIICase("Host") }
    }

    private static func removeHeaders(_ request: inout HTTPRequest, where isUnwanted: (String) -> Bool) {
        guard !request.headers.hasNoFields else { return }
        request.headers.removeAll(where: isUnwanted)
    }

    private static func refusal(_ reason: String, _ request: HTTPRequest, _ response: HTTPResponse) -> NetworkError {
        NetworkError(
            .redirect, message: "\(reason); set redirects = .none to see the response itself", request: request,
            response: response)
    }
}
