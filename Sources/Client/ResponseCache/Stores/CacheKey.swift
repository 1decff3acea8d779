internal import HTTPCore

/// The key of a stored response: digests of what identifies a request, which reveal no secrets.
///
/// Keys are compared byte by byte, unlike strings, which are equal if they are canonically equivalent.
public struct CacheKey: Sendable {
    /// The digest of method, URL, parameters, body, partition and schema version: 64 hexadecimal digits.
    public let primary: String
    /// The digest of what else selects the response: the request fields that `Vary` names (RFC 9111 §4.1), the
    /// credentials, and whether a coded body is decoded; empty when nothing else selects it.
    public var variant: String

    /// Creates a key from its parts. The variant is empty by default.
    public init(primary: String, variant: String = "") {
        self.primary = primary
        self.variant = variant
    }
}

extension String {
    /// The group of a primary key among `count` groups, which must be a power of two.
    func index(among count: Int) -> Int {
        var hasher = Hasher()
        hashBytes(into: &hasher)
        return Int(truncatingIfNeeded: UInt(bitPattern: hasher.finalize())) & (count - 1)
    }
}

extension CacheKey: Hashable {
    /// Whether the bytes of both parts are the same.
    public static func == (a: CacheKey, b: CacheKey) -> Bool {
        a.primary.hasSameBytes(as: b.primary) && a.variant.hasSameBytes(as: b.variant)
    }

    /// Hashes the bytes of both parts.
    public func hash(into hasher: inout Hasher) {
        primary.hashBytes(into: &hasher)
        variant.hashBytes(into: &hasher)
    }
}
