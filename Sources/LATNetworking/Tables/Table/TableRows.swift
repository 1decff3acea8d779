public import DomainTableFormat
public import HTTPCore

extension DomainTable {
    /// A row of `domains`: a base URL, its mirrors, and the settings of all calls to it.
    public struct DomainRow: Sendable {
        /// The URL that paths are joined to. Its own path and query are kept.
        @Tracked public var baseURL: String?
        /// The URLs of each environment, the base URL first. Default none. Other environments use ``baseURL`` and
        /// ``mirrors``.
        public var environments: [String: [String]] = [:] {
            didSet { environmentOrigins = environmentOrigins.filter { environments[$0.key] == oldValue[$0.key] } }
        }
        /// Alternatives to ``baseURL``, tried in order when no connection can be made. They are not used with the URL of an
        /// environment, so that tests never reach the real server; an environment has mirrors of its own.
        @Tracked public var mirrors: [String]?
        /// Pins of public keys, `sha256//…` (`CURLOPT_PINNEDPUBLICKEY`). Default `nil`: none.
        public var pins: [String]? {
            get { settings.tls.pins }
            set { settings.tls.pins = newValue }
        }
        /// The settings of all calls to this domain.
        public var settings = RouteSettings()

        var environmentOrigins: [String: SettingOrigin] = [:]

        /// Creates a row.
        public init(baseURL: String) { self.baseURL = baseURL }

        init() {}
    }
}

extension DomainTable {
    /// A row of `servers`: one API call, with its domain and path.
    public struct ServerRow: Sendable {
        /// The domain.
        @Tracked public var domain: DomainName?
        /// The path with its parameters, `v1/users/{id}`.
        @Tracked public var path: String?
        /// The method, for routes that set none. Default `nil`.
        @Tracked public var method: HTTPMethod?
        /// Whether ``path`` may be an absolute URL, which then gets the domain's headers. Default `nil`, which means no.
        @Tracked public var allowsAbsolute: Bool?
        /// The settings of this call.
        public var settings = RouteSettings()

        /// Creates a row.
        public init(domain: DomainName, path: String, method: HTTPMethod? = nil) {
            self.domain = domain
            self.path = path
            self.method = method
        }

        init() {}
    }
}

/// The name of a row of `domains` in the table.
///
/// The build plugin generates a member for each row (`DomainName.daxiang`), so that a typo does not compile. A literal
/// or ``init(_:)`` accepts any text, which is checked when the name is looked up.
public struct DomainName: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name as it is in the table.
    public let rawValue: String

    /// Creates a name from any text.
    public init(_ text: String) { rawValue = text }
    /// The same as ``init(_:)``; never fails.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The same as ``init(_:)``.
    public init(stringLiteral value: String) { rawValue = value }

    /// The name.
    public var description: String { rawValue }
}

/// The name of a row of `servers` in the table: one API call, such as `user.detail`.
///
/// The build plugin generates a member for each row (`ServerName.userDetail`); see ``DomainName``.
public struct ServerName: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name as it is in the table.
    public let rawValue: String

    /// Creates a name from any text.
    public init(_ text: String) { rawValue = text }
    /// The same as ``init(_:)``; never fails.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The same as ``init(_:)``.
    public init(stringLiteral value: String) { rawValue = value }

    /// The name.
    public var description: String { rawValue }
}

extension DomainTable {
    /// The source of a value of the table.
    public enum SettingOrigin: Hashable, Sendable, CustomStringConvertible {
        /// A position in the file.
        case file(SourcePosition)
        /// The program, at run time.
        case code
        /// An environment variable of the process, `LAT_ENVIRONMENT`.
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
}

extension DomainTable {
    /// A value that may be unset, and its source. Setting it in code changes the source to ``DomainTable/SettingOrigin/code``.
    ///
    /// ```swift
    /// row.settings.timeout = .seconds(5)
    /// row.settings.$timeout.origin   // .code
    /// ```
    @propertyWrapper
    public struct Tracked<Value: Sendable>: Sendable {
        /// The value; `nil` when nothing set it.
        public var wrappedValue: Value? {
            didSet { origin = wrappedValue == nil ? nil : .code }
        }
        /// The source of the value; `nil` when nothing set it.
        public private(set) var origin: SettingOrigin?

        /// Creates a value that is set in code, or an unset one.
        public init(wrappedValue: Value?) {
            self.wrappedValue = wrappedValue
            origin = wrappedValue == nil ? nil : .code
        }

        /// Creates a value with its origin.
        package init(_ value: Value?, from origin: SettingOrigin?) {
            wrappedValue = value
            self.origin = value == nil ? nil : origin
        }

        /// The value with its origin.
        public var projectedValue: Tracked {
            get { self }
            set { self = newValue }
        }

        /// This value, or the other when this one is unset.
        func over(_ other: Tracked) -> Tracked { wrappedValue == nil ? other : self }
    }
}

/// The origins of a dictionary's values. A value that was changed later has the origin `code`.
struct OriginMap<Value: Equatable & Sendable>: Sendable {
    private var entries: [String: (value: Value, origin: DomainTable.SettingOrigin)] = [:]

    subscript(name: String, value: Value) -> DomainTable.SettingOrigin {
        guard let entry = entries[name], entry.value == value else { return .code }
        return entry.origin
    }

    mutating func set(_ value: Value, of name: String, from origin: DomainTable.SettingOrigin) {
        entries[name] = (value, origin)
    }
}
