import CurlTransport
import HTTPCore

/// What the request after a response has beyond the first one: that of the next page, or of the state of a job.
struct FollowUp: Sendable {
    /// The URL; `nil` for that of the first request.
    var address: String?
    var parameters: [String: JSONValue] = [:]
    /// The number of the page that it requests.
    var page = 1
    /// Whether it is a GET without the content of the first request, which asks what has become of that.
    var asks = false
    /// Whether its response may come from the cache, as one that asks for a state must not.
    var isCacheable = true
    /// Whether an address was at another origin than the response that named it: from then on, no credentials are sent.
    var hasLeftOrigin = false
    /// The rows of the first request, which count for all that follow: a table that changes meanwhile may name another server,
    /// whose credentials this one must not get. `nil` without a route.
    var plan: RoutePlan?

    /// The text by which a loop is recognized, and by which messages show it.
    var name: String {
        address ?? parameters.map { "\($0.key) = \($0.value)" }.sorted().joined(separator: ", ")
    }

    var shown: String { URLText.visible(String(address.map(URLParts.redacted) ?? name)) }

    /// Notes whether the address leaves the origin that gets credentials.
    ///
    /// - Parameters:
    ///   - what: the response that named it, for messages.
    ///   - before: the request of that response.
    /// - Throws: ``NetworkError/Kind/redirect`` for an address that is not encrypted, named by a response that was.
    mutating func leave(
        _ response: HTTPResponse, _ what: @autoclosure () -> String, after before: FollowUp, allowsInsecure: Bool
    ) throws(NetworkError) {
        hasLeftOrigin = before.hasLeftOrigin
        guard let address else { return }
        if response.redirects.isEmpty, URLReference.hasSameServer(address, as: response.url) { return }
        let (origin, ownOrigin) = (URLReference.origin(of: address), URLReference.origin(of: response.url))
        // A redirect of the response has left the origin that gets credentials, too.
        if response.redirects.contains(where: { URLReference.origin(of: $0.url) != ownOrigin }) { hasLeftOrigin = true }
        guard origin != ownOrigin else { return }
        if !allowsInsecure, origin?.hasPrefix("http:") == true, response.url.lowercased().hasPrefix("https:") {
            throw NetworkError(
                .redirect,
                message: "\(what()) is encrypted and names \(shown) as the next address, which is not; have the server "
                    + "write https, or set followsInsecureRedirects", response: response)
        }
        hasLeftOrigin = true
    }

    /// An address without the parameters of the step, which it may have for the first page.
    func removingParameters(from url: String) -> String {
        URLParts.removing(parameters: Array(parameters.keys), from: url)
    }

    /// Turns a request of the central API into this one.
    func apply(to request: inout HTTPRequest, _ parts: inout CallArguments) {
        if let address {
            request.url = address
            if asks || request.method.encodesParametersInQuery {
                parts.linkedNames = (parts.parameters ?? [:]).keys.sorted()
                parts.parameters = nil
            }
        }
        if !parameters.isEmpty {
            request.url = removingParameters(from: request.url)
            parts.parameters = (parts.parameters ?? [:]).merging(parameters.mapValues(Optional.some)) { $1 }
        }
        if asks { (parts.files, parts.body) = ([], nil) }
        ask(&request)
    }

    /// Turns a request into one that asks what has become of it.
    func ask(_ request: inout HTTPRequest) {
        if !isCacheable { request.cachePolicy = .networkOnly }
        // A server that knows the key responds with the page that it was sent for. The repetitions of one page have one key.
        if page > 1, let key = request.idempotencyKey {
            let isQuoted = key.count > 1 && key.hasSuffix("\"")
            request.idempotencyKey = isQuoted ? "\(key.dropLast())-\(page)\"" : "\(key)-\(page)"
        }
        guard asks else { return }
        request.method = .get
        RedirectRule.dropBody(&request)
    }
}

/// The JSON of a response in which a walk finds its way.
struct WayMarks {
    let response: HTTPResponse
    /// The response and the setting that named the place, for messages.
    let what: String
    let setting: String

    func value(at path: String) throws(NetworkError) -> JSONDocument? {
        do {
            return try response.document()[path: path]
        } catch {
            throw error as? NetworkError ?? NetworkError(.decoding(path: path), message: "\(error)", response: response)
        }
    }

    /// A text or a number as it is written; `nil` for what says that there is none.
    func text(at path: String) throws(NetworkError) -> String? {
        guard !response.hasNoContent, let found = try value(at: path) else { return nil }
        if let number = found.numberText { return number }
        if found.isNull || found.bool == false { return nil }
        guard let text = found.string else {
            throw shape("\(path) is \(found.kindName), not a text or a number", path)
        }
        return text.isEmpty ? nil : text
    }

    /// The absolute URL at a place; `nil` when there is none.
    func address(at path: String) throws(NetworkError) -> String? {
        guard let text = try text(at: path) else { return nil }
        guard let url = URLReference.link(text, at: response.url) else {
            throw shape("\(path) is \"\(Self.shown(text))\", not a URL", path)
        }
        return url
    }

    /// - Parameter path: the place; empty for the field that `what` names.
    func shape(_ problem: String, _ path: String) -> NetworkError {
        NetworkError(
            .decoding(path: path), message: "\(what) cannot be followed: \(problem); name the place in \(setting)",
            response: response)
    }

    /// A field whose value is no URL must not count as one that is not there.
    ///
    /// - Parameter wanted: what it should be, and what to do.
    func unusable(
        _ field: String, _ value: String, wanted: String = "a URL; have the server write an absolute URL or a path"
    ) -> NetworkError {
        NetworkError(
            .protocolViolation,
            message:
                "\(what) cannot be followed: its field \(field) has \"\(Self.shown(value))\", "
                + "which is not \(wanted)", response: response)
    }
    /// What a server gave as a URL, without a query, which may have secrets.
    private static func shown(_ url: String) -> String { URLText.visible(String(URLParts.redacted(url).prefix(60))) }
}
