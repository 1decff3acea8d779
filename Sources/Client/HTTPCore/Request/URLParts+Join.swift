public import FoundationEssentials

extension URLParts {
    /// Joins a path to a base URL by exactly one slash. A path that is only a query is appended without a slash. The
    /// base keeps its own path and query; the path's query follows the base's.
    package static func join(_ base: String, _ path: String) -> String {
        let fragmentless = base.prefix { $0 != "#" }
        var stem = Substring(fragmentless.prefix { $0 != "?" })
        let baseQuery = fragmentless.dropFirst(stem.count).dropFirst()
        guard !path.isEmpty else { return String(fragmentless) }
        if path.first == "?" {
            return ParameterEncoder.appending(query: String(path.dropFirst()), to: String(fragmentless))
        }
        while stem.last == "/" { stem.removeLast() }
        // The colon ends the path of a socket.
        if UnixAddress.isOne(stem), !stem.dropFirst(5).contains(":") { stem += ":" }
        let joined = stem + "/" + path.drop { $0 == "/" }
        guard !baseQuery.isEmpty else { return String(joined) }
        let ownQueryStart = joined.firstIndex { $0 == "?" || $0 == "#" } ?? joined.endIndex
        let rest = joined[ownQueryStart...]
        let separator = rest.first == "?" ? "&" : ""
        return joined[..<ownQueryStart] + "?" + baseQuery + separator + (rest.first == "?" ? rest.dropFirst() : rest)
    }
}

extension URLParts {
    /// The URL without the parameters of these names in its query, and without the members of such: `a[b]` is one of `a`.
    package static func removing(parameters names: [String], from url: String) -> String {
        let parts = URLParts(url)
        guard let query = parts.query, !names.isEmpty else { return url }
        let kept = query.split(separator: "&", omittingEmptySubsequences: false).filter { parameter in
            let name = parameter.prefix { $0 != "=" }.percentDecoded(plusIsSpace: true)
            return !names.contains { name == $0 || name.hasPrefix("\($0)[") }
        }
        guard kept.count < query.split(separator: "&", omittingEmptySubsequences: false).count else { return url }
        let stem = parts.withoutFragment.dropLast(query.count + 1)
        let fragment = parts.fragment.map { "#" + $0 } ?? ""
        return stem + (kept.isEmpty ? "" : "?" + kept.joined(separator: "&")) + fragment
    }
}

/// What a call takes as its address: text, or a Foundation `URL`. A type of the app that knows its address may conform.
public protocol URLConvertible: Sendable {
    /// The URL as text: an absolute URL, or a path below the base URL. It is checked when the request is made.
    var urlText: String { get }
}

extension String: URLConvertible {
    /// The text itself.
    public var urlText: String { self }
}

extension Substring: URLConvertible {
    /// The text itself.
    public var urlText: String { String(self) }
}

extension URL: URLConvertible {
    /// The absolute URL as text.
    public var urlText: String { absoluteString }
}
