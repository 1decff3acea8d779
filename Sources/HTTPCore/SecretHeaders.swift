/// The header fields that hold secrets. They are never sent to another origin and never logged.
public struct SecretHeaders: Hashable, Sendable, ExpressibleByArrayLiteral {
    private var names: Set<String>

    /// `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, and common fields for keys and tokens:
    /// `X-Api-Key`, `Api-Key`, `X-Goog-Api-Key`, `X-Auth-Token`, `X-Access-Token`, `X-CSRF-Token`,
    /// `X-Amz-Security-Token`.
    public static let standard: SecretHeaders = [
        "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
        "X-Auth-Token", "X-Access-Token", "X-CSRF-Token", "X-Amz-Security-Token",
    ]

    /// Makes a set of names, ignoring case.
    public init(arrayLiteral elements: String...) { names = Set(elements.map { $0.lowercased() }) }

    package func union(_ other: SecretHeaders) -> SecretHeaders {
        var both = self
        both.names.formUnion(other.names)
        return both
    }

    /// Adds a name.
    public mutating func insert(_ name: String) { names.insert(name.lowercased()) }

    /// Whether a field of this name holds a secret.
    public func contains(_ name: String) -> Bool { names.contains(name.lowercased()) }
}
