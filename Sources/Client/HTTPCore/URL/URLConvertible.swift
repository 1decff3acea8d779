public import FoundationEssentials

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
