import FoundationEssentials
public import HTTPCore

/// The domains and API calls of an app, with their URLs and settings, usually read from `Config/domains.json5`.
///
/// ```swift
/// var table = try DomainTable(contentsOf: "Config/domains.json5")
/// table.environment = "staging"
/// let route = try table.resolve(server: "user.detail")
/// try route.url(["id": "42"])                 // https://staging.example.org/api/v1/users/42
/// print(table.explain("user.detail"))         // which line set which value
/// ```
///
/// A table is a value: changing a copy changes no other. Copies are cheap. A manager follows the changes of a table's
/// file; see `CentralRequestManager.Configuration.domains`.
public struct DomainTable: Sendable {
    /// The environment variable that names the environment when the program does not.
    public static let environmentVariable = "LAT_ENVIRONMENT"

    /// One reference, so that copies are cheap.
    private var snapshot: TableSnapshot
    private static let empty = TableSnapshot(TableContents(name: ""))

    /// Creates a table without rows, to be filled in code.
    public init() {
        self.init(TableContents(name: "the table"))
    }

    /// Reads a file.
    ///
    /// - Parameters:
    ///   - path: the file; messages name it as given.
    ///   - environment: the environment; `nil` for none. Default: the value of `LAT_ENVIRONMENT`.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for an unreadable or invalid file, with a ``DomainTableError`` as
    ///   its ``NetworkError/underlying`` error; ``NetworkError/Kind/unknownName`` for an environment that no row has.
    public init(
        contentsOf path: String, environment: String? = DomainTable.environmentOfProcess
    ) throws(NetworkError) {
        try self.init(bytes: Self.bytes(of: path), path: path, environment: environment)
    }

    package init(bytes: [UInt8], path: String, environment: String?) throws(NetworkError) {
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) }
        var contents = try TableContents(bytes, name: path, folder: folder)
        contents.path = path
        self.init(contents)
        try activate(environment)
    }

    package static func bytes(of path: String) throws(NetworkError) -> [UInt8] {
        do throws(SourceFile.Problem) {
            return try SourceFile.bytes(of: path)
        } catch {
            throw DomainTableError.unreadable(path, error)
        }
    }

    /// Reads a table from text.
    ///
    /// - Parameters:
    ///   - json5: the text of a table file.
    ///   - name: the table's name in messages.
    ///   - environment: as in ``init(contentsOf:environment:)``.
    /// - Throws: as ``init(contentsOf:environment:)``.
    public init(
        json5: String, name: String = "inline", environment: String? = DomainTable.environmentOfProcess
    ) throws(NetworkError) {
        self.init(try TableContents(Array(json5.utf8), name: name, folder: nil))
        try activate(environment)
    }

    package init(_ contents: TableContents) { snapshot = TableSnapshot(contents) }

    /// The value of `LAT_ENVIRONMENT`; `nil` when it is unset or empty.
    public static var environmentOfProcess: String? {
        ProcessInfo.processInfo.environment[environmentVariable].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The file that the table was read from; `nil` for any other table.
    public var path: String? { contents.path }

    /// The source that the table was read from, such as `redis://redis.example.org:6379 lat:table:domains`; `nil` for a
    /// table from a file or text, or made in code.
    public var source: String? { contents.origin?.name }

    /// The revision of a table from a source: on Redis a number that grows, at a URL the entity tag, or a digest of the
    /// table if the server sends no entity tag. `nil` for any other table.
    public var revision: String? { contents.origin?.revision }

    /// Whether the table was read from the copy on disk, and its source has not confirmed it yet.
    public var isCopy: Bool { contents.origin?.isCopy ?? false }

    /// The table's name in messages: the path of its file, the name given with its text, or that of its source.
    public var name: String { contents.name }

    /// Likely mistakes in the file that do not prevent its use.
    public var warnings: [DomainTable.Diagnostic] { contents.warnings }

    /// The names of all domains, in the order of the file.
    public var domainNames: [DomainName] { snapshot.domains.names }

    /// The names of all servers, in the order of the file.
    public var serverNames: [ServerName] { snapshot.servers.names }

    /// The names of all environments in the rows, sorted.
    public var environmentNames: [String] { snapshot.environmentNames }

    /// The environment whose base URLs are used; `nil` for none. A domain without that environment uses its `baseURL`.
    ///
    /// With a name that no row has, every later look-up of an address throws ``NetworkError/Kind/unknownName``.
    public var environment: String? {
        get { contents.environment.wrappedValue }
        set {
            change { $0.environment = Tracked(wrappedValue: newValue.flatMap { $0.isEmpty ? nil : $0 }) }
        }
    }

    /// Whether the table is for production, in its environment; without one, also if it is in any environment. No row may then
    /// make faults on purpose. A new version of the file or source does not change `true` to `false`.
    public var isProduction: Bool { productionPlace != nil }

    /// Where the table says that it is for production; `nil` where it does not.
    package var productionPlace: SettingOrigin? { contents.productionPlace }

    // MARK: Rows

    /// Returns a row of `domains`.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName``, with the nearest name.
    public func domain(_ name: DomainName) throws(NetworkError) -> DomainRow {
        guard let row = snapshot.domains[name] else {
            throw unknown("domain", name.rawValue, domainNames.map(\.rawValue))
        }
        return row
    }

    /// Returns a row of `servers`.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName``, with the nearest name.
    public func server(_ name: ServerName) throws(NetworkError) -> ServerRow {
        guard let row = snapshot.servers[name] else {
            throw unknown("server", name.rawValue, serverNames.map(\.rawValue))
        }
        return row
    }

    // MARK: Routes

    /// Resolves a row of `servers` to its addresses and settings.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` for a server, domain or environment that is not in the table.
    public func resolve(server name: ServerName) throws(NetworkError) -> ResolvedRoute {
        try checkEnvironment()
        if let route = snapshot.routes[name] { return route }
        _ = try domain(try server(name).domain ?? "")
        // Every valid row whose domain exists has a route.
        throw NetworkError.invalidRequest("the server \"\(name)\" in \(self.name) has a path that cannot be used")
    }

    /// Resolves a path of a domain, without a row of `servers`, to its addresses and settings.
    ///
    /// - Parameters:
    ///   - name: the name of the domain.
    ///   - path: a path, with parameters such as `{id}`; an absolute URL is an error.
    /// - Throws: ``NetworkError/Kind/unknownName`` for a domain or environment that is not in the table,
    ///   ``NetworkError/Kind/invalidRequest`` for an invalid path.
    public func resolve(domain name: DomainName, path: String) throws(NetworkError) -> ResolvedRoute {
        try checkEnvironment()
        _ = try domain(name)
        if HTTPAddress.isAbsolute(path) {
            throw .invalidRequest(
                "the path \(QuotedText.of(path)) is an absolute URL and would leave the domain \"\(name)\"; give a path, "
                    + "or call startRequest(_:_:) with the URL")
        }
        do throws(PathTemplate.Problem) {
            return try snapshot.route(domain: name, path: path)
        } catch {
            throw .invalidRequest("the path \(QuotedText.of(path)) cannot be used: \(error.reason)")
        }
    }

    private func checkEnvironment() throws(NetworkError) {
        if let forbidden = snapshot.forbidden { throw forbidden }
        guard let environment, !snapshot.isEnvironmentKnown else { return }
        let advice = NearestName.advice(environment, among: environmentNames, allCalled: "environments")
        var cause = ""
        if case .variable(let variable) = contents.environment.origin { cause = " (from \(variable))" }
        throw NetworkError(
            .unknownName, message: "unknown environment \(QuotedText.of(environment))\(cause) in \(name)\(advice)")
    }

    func unknown(_ kind: String, _ text: String, _ names: [String], allCalled all: String? = nil) -> NetworkError {
        let advice = NearestName.advice(text, among: names, allCalled: all ?? kind + "s")
        return NetworkError(.unknownName, message: "unknown \(kind) \(QuotedText.of(text)) in \(name)\(advice)")
    }

    // MARK: Changes

    package var current: TableSnapshot { snapshot }

    package var contents: TableContents { snapshot.contents }

    package mutating func change(_ change: (inout TableContents) -> Void) {
        var contents = snapshot.contents
        // Released, so that what is changed is not copied unless another table has it too.
        snapshot = Self.empty
        change(&contents)
        snapshot = TableSnapshot(contents)
    }

    /// Adopts the rows of a newly read table; what was set in code is kept, and a table for production stays one.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` when the file no longer has the environment; nothing changes then.
    package mutating func replaceFile(by other: DomainTable) throws(NetworkError) {
        var copy = self
        copy.change { contents in
            contents.name = other.contents.name
            contents.origin = other.contents.origin
            contents.fileProduction = Production.joined(contents.fileProduction, other.contents.fileProduction)
            contents.fileDefaults = other.contents.fileDefaults
            contents.fileDomains = other.contents.fileDomains
            contents.fileServers = other.contents.fileServers
            contents.warnings = other.contents.warnings
        }
        try copy.checkEnvironment()
        self = copy
    }

    package mutating func activate(_ environment: String?) throws(NetworkError) {
        // Without an environment the program may still set one; until then, look-ups refuse what production forbids.
        guard let environment, !environment.isEmpty else { return }
        let isOfProcess = environment == Self.environmentOfProcess
        change { contents in
            contents.environment = Tracked(
                environment, from: isOfProcess ? .variable(Self.environmentVariable) : .code)
        }
        try checkEnvironment()
    }
}
