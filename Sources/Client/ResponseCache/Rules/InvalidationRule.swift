package import HTTPCore

/// Which stored responses a response makes invalid (RFC 9111 §4.4).
package enum InvalidationRule {
    /// Whether a response invalidates what is stored for its URL: the method is unsafe and the response is not an error.
    package static func invalidates(_ response: HTTPResponse, to request: HTTPRequest) -> Bool {
        !request.method.isSafe && (200...399).contains(response.status)
    }

    /// The URI references in a response that are invalidated too if they have the same origin.
    package static func references(in response: HTTPResponse) -> [String] {
        ["Location", "Content-Location"].compactMap { response.headers[$0] }.filter { !$0.isEmpty }
    }

    /// The tags that a server gives a response, so that responses can be removed by tag: the elements of `Cache-Tag`,
    /// separated by commas, and of `Surrogate-Key`, separated by spaces. At most 100, of at most 1,024 bytes each.
    package static func tags(of headers: HTTPHeaders) -> [String] {
        let tags =
            headers[values: "Cache-Tag"].flatMap { FieldList.elements(of: $0) }
            + headers[values: "Surrogate-Key"].flatMap { $0.split(separator: " ").map(String.init) }
        var seen: Set<String> = []
        return Array(tags.filter { $0.utf8.count <= 1_024 && seen.insert($0).inserted }.prefix(100))
    }
}
