/// The name of a row of `domains` in the table.
///
/// The build plugin makes a member for each row (`DomainName.daxiang`), so that a typing mistake does not compile; a
/// literal or ``init(_:)`` takes any text, checked when it is looked up.
public struct DomainName: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name as in the table.
    public let rawValue: String

    /// Takes any text.
    public init(_ text: String) { rawValue = text }
    /// The same as ``init(_:)``; never fails.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The same as ``init(_:)``.
    public init(stringLiteral value: String) { rawValue = value }

    /// The name.
    public var description: String { rawValue }
}

/// The name of a row of `servers` in the table: one call of an app's server, `user.detail`.
///
/// The build plugin makes a member for each row (`ServerName.userDetail`); see ``DomainName``.
public struct ServerName: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name as in the table.
    public let rawValue: String

    /// Takes any text.
    public init(_ text: String) { rawValue = text }
    /// The same as ``init(_:)``; never fails.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The same as ``init(_:)``.
    public init(stringLiteral value: String) { rawValue = value }

    /// The name.
    public var description: String { rawValue }
}
