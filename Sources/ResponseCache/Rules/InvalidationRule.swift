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
}
