package import HTTPCore

/// What an answer makes wrong (RFC 9111 §4.4).
package enum InvalidationRule {
    /// Whether the answer to a request changes what its URL holds: the method is unsafe, the answer no error.
    package static func invalidates(_ response: HTTPResponse, to request: HTTPRequest) -> Bool {
        !request.method.isSafe && (200...399).contains(response.status)
    }

    /// The references in the answer whose URLs are changed too, if they are of the same origin.
    package static func references(in response: HTTPResponse) -> [String] {
        ["Location", "Content-Location"].compactMap { response.headers[$0] }.filter { !$0.isEmpty }
    }

    /// The tags that a server gives an answer, so that it can be removed together with others: the elements of `Cache-Tag`,
    /// which are separated by commas, and those of `Surrogate-Key`, by spaces. At most 100 of 1,024 bytes each.
    package static func tags(of headers: HTTPHeaders) -> [String] {
        let tags =
            headers[values: "Cache-Tag"].flatMap { FieldList.elements(of: $0) }
            + headers[values: "Surrogate-Key"].flatMap { $0.split(separator: " ").map(String.init) }
        var seen: Set<String> = []
        return Array(tags.filter { $0.utf8.count <= 1_024 && seen.insert($0).inserted }.prefix(100))
    }
}
