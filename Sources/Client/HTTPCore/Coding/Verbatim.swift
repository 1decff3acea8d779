public import FoundationEssentials

/// A text of a server as it was written, beside the value that it means: a URL, a UUID, or bytes as base64.
///
/// ```swift
/// struct Film: Codable {
///     var id: Verbatim<UUID>                   // 8C0F7A4E…, sent back in upper case as it came
///     var homepage: Verbatim<URL>?
/// }
/// let film = Film(id: Verbatim(UUID()), homepage: "https://example.org/{id}")
/// let homepage = film.homepage?.value          // nil for "", with which some servers mean none
/// ```
///
/// A `UUID`, a `URL` and `Data` are written in one form only, and a response with one text of another form cannot be decoded.
/// This type keeps every text, also in equality. Use it for values that go back to the server.
public struct Verbatim<Value: Sendable>: RawRepresentable, Codable, Hashable, Sendable, ExpressibleByStringLiteral {
    /// The text in JSON.
    public var rawValue: String

    /// Takes a text as it is.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Takes a text as it is.
    public init(stringLiteral value: String) { rawValue = value }
}

extension Verbatim where Value == URL {
    /// The text of a URL.
    public init(_ url: URL) { rawValue = url.absoluteString }

    /// The URL; `nil` if the text is none.
    public var value: URL? { URL(string: rawValue) }
}

extension Verbatim where Value == UUID {
    /// The text of a UUID, in lower case.
    public init(_ uuid: UUID) { rawValue = uuid.uuidString.lowercased() }

    /// The UUID; `nil` if the text is none. It may be in braces, and without hyphens.
    public var value: UUID? {
        let digits = rawValue.filter { !"-{}".contains($0) }
        guard digits.utf8.count == 32 else { return nil }
        let ends = [0, 8, 12, 16, 20, 32].map { digits.utf8.index(digits.startIndex, offsetBy: $0) }
        return UUID(uuidString: zip(ends, ends.dropFirst()).map { String(digits[$0..<$1]) }.joined(separator: "-"))
    }
}

extension Verbatim where Value == Data {
    /// Bytes as base64.
    public init(_ data: Data) { rawValue = data.base64EncodedString() }

    /// The bytes; `nil` if the text is no base64. It may be that of URLs, without padding, and on several lines.
    public var value: Data? { Base64.data(of: rawValue.filter { !$0.isWhitespace }) }
}
