public import FoundationEssentials
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
        public var settings: RouteSettings {
            get { stored.first ?? RouteSettings() }
            set { stored = [newValue] }
        }
        package var hasSettings: Bool { !stored.isEmpty }

        /// Empty, or the settings: most rows of a large table set none.
        private var stored: [RouteSettings] = []

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
        case file(DomainTable.Position)
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

    /// A value that may be unset, and its source. Setting it in code changes the source to ``DomainTable/SettingOrigin/code``.
    ///
    /// ```swift
    /// var row = DomainTable.DomainRow(baseURL: "http://127.0.0.1:8080")
    /// row.$baseURL.origin       // .code
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

        package init(_ value: Value?, from origin: SettingOrigin?) {
            wrappedValue = value
            self.origin = value == nil ? nil : origin
        }

        /// The value with its origin.
        public var projectedValue: Tracked {
            get { self }
            set { self = newValue }
        }

        /// A value of the file, or an unset one.
        init(_ located: Located<Value>?) {
            self.init(located?.value, from: located.map { .file($0.position) })
        }

        init<Written>(_ located: Located<Written>?, _ convert: (Written) -> Value) {
            self.init(located.map { convert($0.value) }, from: located.map { .file($0.position) })
        }
    }
}

/// What a table knows of the source that it was read from.
package protocol TableOriginFacts: Sendable, CustomStringConvertible {
    /// The name of the source.
    var name: String { get }
    var revision: String { get }
    /// Whether the table is the copy on disk, not yet confirmed by the source.
    var isCopy: Bool { get set }
}

/// The parts of a table: the rows of the file, the changes made in code, and the environment.
package struct TableContents: Sendable {
    package var name: String
    package var path: String?
    /// The source of a table that is not from a file.
    package var origin: (any TableOriginFacts)?
    var warnings: [DomainTable.Diagnostic] = []
    var fileProduction: Located<DomainTable.Production>?
    var fileDefaults = DomainTable.RouteSettings()
    var fileDomains = RowList<DomainName, DomainTable.DomainRow>()
    var fileServers = RowList<ServerName, DomainTable.ServerRow>()

    // Set in code, and kept when the file is read again. A `nil` row is a removed one.
    var defaults: DomainTable.RouteSettings?
    var domains: [(name: DomainName, row: DomainTable.DomainRow?)] = []
    var servers: [(name: ServerName, row: DomainTable.ServerRow?)] = []
    var baseURLs: [DomainName: String] = [:]
    var environment = DomainTable.Tracked<String>(wrappedValue: nil)

    init(name: String) { self.name = name }

    package init(
        _ bytes: [UInt8], name: String, folder: String?, files: AllowedFiles = .any
    ) throws(NetworkError) {
        let reading = DomainTableFile.read(bytes, name: name, folder: folder, files: files)
        guard reading.errors.isEmpty else { throw DomainTableError.broken(name, reading.diagnostics) }
        self.name = name
        warnings = reading.diagnostics
        fileProduction = reading.file.production
        fileDefaults = reading.file.defaults
        for entry in reading.file.domains { fileDomains.set(entry.row, for: DomainName(entry.name.value)) }
        for entry in reading.file.servers { fileServers.set(entry.row, for: ServerName(entry.name.value)) }
    }
}

struct RowList<Name: Hashable & Sendable, Row: Sendable>: Sendable {
    private(set) var names: [Name] = []
    private var rows: [Name: Row] = [:]

    subscript(name: Name) -> Row? { rows[name] }

    mutating func set(_ row: Row, for name: Name) {
        if rows.updateValue(row, forKey: name) == nil { names.append(name) }
    }

    /// - Parameter edits: the rows to set and to remove, each name once.
    mutating func apply(_ edits: [(name: Name, row: Row?)]) {
        for (name, row) in edits { if let row { set(row, for: name) } else { rows[name] = nil } }
        if edits.contains(where: { $0.row == nil }) { names.removeAll { rows[$0] == nil } }
    }
}

/// All problems of a table file: the ``NetworkError/underlying`` error of a table that cannot be read.
public struct DomainTableError: Error, Sendable, CustomStringConvertible {
    /// The path of the file as it was given, or the name of a table from text or a source.
    public var file: String
    /// The problems, in the order of the file, including warnings. Empty when the file could not be read at all.
    public var diagnostics: [DomainTable.Diagnostic]
    private var reason: String

    /// Every problem with its line of the file and a caret, as compilers print them.
    public var description: String {
        diagnostics.isEmpty ? reason : diagnostics.map(\.description).joined(separator: "\n")
    }

    static func broken(_ file: String, _ diagnostics: [DomainTable.Diagnostic]) -> NetworkError {
        let errors = diagnostics.filter { $0.severity == .error }
        var message = errors.first?.summary ?? "\(file) cannot be used"
        if errors.count > 1 {
            let others = errors.count == 2 ? "1 more problem" : "\(errors.count - 1) more problems"
            message += " (and \(others); lat domains check \(file) shows all)"
        }
        let error = DomainTableError(file: file, diagnostics: diagnostics, reason: message)
        return NetworkError(.invalidRequest, message: message, underlying: error)
    }

    static func unreadable(_ file: String, _ problem: SourceFile.Problem) -> NetworkError {
        // The words about too many open files have their own advice.
        let advice = problem.lacksDescriptors ? "" : "; check the path"
        let message = "the table \(file) \(problem.isMissing ? "is not there" : problem.reason)\(advice)"
        let error = DomainTableError(file: file, diagnostics: [], reason: message)
        return NetworkError(.invalidRequest, message: message, underlying: error)
    }
}

extension DomainTableError: LocalizedError {
    /// The same as the description, which `localizedDescription` returns too.
    public var errorDescription: String? { "\(self)" }
}
