/// What a stored response is found by: a digest of what makes two requests the same, never the secrets themselves.
public struct CacheKey: Hashable, Sendable {
    /// The digest of method, URL, parameters, partition and schema version: 64 hexadecimal digits.
    public let primary: String
    /// The digest of the request's fields that `Vary` selects (RFC 9111 §4.1); empty when it selects none.
    public var variant: String

    /// A key of its parts.
    public init(primary: String, variant: String = "") {
        self.primary = primary
        self.variant = variant
    }
}
