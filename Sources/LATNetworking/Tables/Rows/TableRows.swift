public import HTTPCore

/// A row of `domains`: a base URL, its stand-ins, and the settings of all calls to it.
public struct DomainRow: Sendable {
    /// What paths are joined to. Its own path and query are kept.
    @Tracked public var baseURL: String?
    /// For each environment its base URL, then its mirrors. An environment that is not named here has ``baseURL`` and
    /// ``mirrors``.
    public var environments: [String: [String]] = [:] {
        didSet { environmentOrigins = environmentOrigins.filter { environments[$0.key] == oldValue[$0.key] } }
    }
    /// Stand-ins for ``baseURL``, tried in order when no connection comes about. They do not stand in for the URL of an
    /// environment, so that tests never reach the real server; an environment names its own.
    @Tracked public var mirrors: [String]?
    /// Pins of public keys, `sha256//…` (`CURLOPT_PINNEDPUBLICKEY`).
    @Tracked public var pins: [String]?
    /// The settings of all calls to this domain.
    public var settings = RouteSettings()

    var environmentOrigins: [String: SettingOrigin] = [:]

    /// Makes a row.
    public init(baseURL: String) { self.baseURL = baseURL }

    init() {}
}

/// A row of `servers`: one call, by its domain and path.
public struct ServerRow: Sendable {
    /// The domain.
    @Tracked public var domain: DomainName?
    /// The path with its parameters, `v1/users/{id}`.
    @Tracked public var path: String?
    /// The method, for calls that name none. Default `nil`.
    @Tracked public var method: HTTPMethod?
    /// Whether ``path`` may be an absolute URL, which then leaves the domain and takes its headers with it. Default
    /// `nil`, which is no.
    @Tracked public var allowsAbsolute: Bool?
    /// The settings of this call.
    public var settings = RouteSettings()

    /// Makes a row.
    public init(domain: DomainName, path: String, method: HTTPMethod? = nil) {
        self.domain = domain
        self.path = path
        self.method = method
    }

    init() {}
}

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

/// What set a value of the table.
public enum SettingOrigin: Hashable, Sendable, CustomStringConvertible {
    /// A place of the file.
    case file(SourcePosition)
    /// The program, at run time.
    case code
    /// A variable of the process's environment, `LAT_ENVIRONMENT`.
    case variable(String)

    /// `file:line`, `code`, or the variable's name.
    public var description: String {
        switch self {
        case .file(let position): position.fileAndLine
        case .code: "code"
        case .variable(let name): name
        }
    }
}

/// A value that may be unset, and what set it. Setting it in code makes ``SettingOrigin/code`` the origin.
///
/// ```swift
/// row.settings.timeout = .seconds(5)
/// row.settings.$timeout.origin   // .code
/// ```
@propertyWrapper
public struct Tracked<Value: Sendable>: Sendable {
    /// The value, `nil` when nothing set it.
    public var wrappedValue: Value? {
        didSet { origin = wrappedValue == nil ? nil : .code }
    }
    /// What set the value, `nil` when nothing did.
    public private(set) var origin: SettingOrigin?

    /// A value set in code, or none.
    public init(wrappedValue: Value?) {
        self.wrappedValue = wrappedValue
        origin = wrappedValue == nil ? nil : .code
    }

    /// A value with its origin.
    package init(_ value: Value?, from origin: SettingOrigin?) {
        wrappedValue = value
        self.origin = value == nil ? nil : origin
    }

    /// The value with its origin.
    public var projectedValue: Tracked {
        get { self }
        set { self = newValue }
    }

    /// This one, or the other when this one is unset.
    func over(_ other: Tracked) -> Tracked { wrappedValue == nil ? other : self }
}

/// Where the values of a dictionary came from. A value that was changed since came from code.
struct OriginMap<Value: Equatable & Sendable>: Sendable {
    private var entries: [String: (value: Value, origin: SettingOrigin)] = [:]

    subscript(name: String, value: Value) -> SettingOrigin {
        guard let entry = entries[name], entry.value == value else { return .code }
        return entry.origin
    }

    mutating func set(_ value: Value, of name: String, from origin: SettingOrigin) { entries[name] = (value, origin) }
}
