/// The header fields that hold secrets: never sent to another origin, never logged.
public struct SecretHeaders: Hashable, Sendable, ExpressibleByArrayLiteral {
    private var names: Set<String>

    /// `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, and the fields in which services take keys and
    /// tokens: `X-Api-Key`, `Api-Key`, `X-Goog-Api-Key`, `X-Auth-Token`, `X-Access-Token`, `X-CSRF-Token`,
    /// `X-Amz-Security-Token`.
    public static let standard: SecretHeaders = [
        "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
        "X-Auth-Token", "X-Access-Token", "X-CSRF-Token", "X-Amz-Security-Token",
    ]

    /// The given names, in any case.
    public init(arrayLiteral elements: String...) { names = Set(elements.map { $0.lowercased() }) }

    /// The names of both.
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
