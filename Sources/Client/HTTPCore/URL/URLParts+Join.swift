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
        let joined = stem + "/" + path.drop { $0 == "/" }
        guard !baseQuery.isEmpty else { return String(joined) }
        let ownQueryStart = joined.firstIndex { $0 == "?" || $0 == "#" } ?? joined.endIndex
        let rest = joined[ownQueryStart...]
        let separator = rest.first == "?" ? "&" : ""
        return joined[..<ownQueryStart] + "?" + baseQuery + separator + (rest.first == "?" ? rest.dropFirst() : rest)
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
