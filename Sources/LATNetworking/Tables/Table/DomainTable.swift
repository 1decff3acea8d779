import DomainTableFormat
import FoundationEssentials
public import HTTPCore

/// The table of an app's servers: which base URLs there are, and which calls, with what settings. People edit it as a
/// file, `Config/domains.json5`.
///
/// ```swift
/// var table = try DomainTable(contentsOf: "Config/domains.json5")
/// table.environment = "staging"
/// let route = try table.resolve(server: "user.detail")
/// try route.url(["id": "42"])                 // https://staging.example.org/api/v1/users/42
/// print(table.explain("user.detail"))         // which line set which value
/// ```
///
/// A table is a value: a change made to one copy is made to no other. Copies are cheap. To follow the changes of the
/// file while the program runs, see ``DomainTableWatcher``.
public struct DomainTable: Sendable {
    /// The variable that names the environment when the program does not.
    public static let environmentVariable = "LAT_ENVIRONMENT"

    /// One reference, so that a copy costs next to nothing.
    private var snapshot: TableSnapshot

    /// A table without rows, to be filled in code.
    public init() {
        self.init(TableContents(name: "the table"))
    }

    /// Reads a file.
    ///
    /// - Parameters:
    ///   - path: the file; messages name it so.
    ///   - environment: the environment; `nil` for none. Default: what `LAT_ENVIRONMENT` says.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file that cannot be read or is wrong, with a
    ///   ``DomainTableError`` as ``NetworkError/underlying`` that lists all that is wrong;
    ///   ``NetworkError/Kind/unknownName`` for an environment that no row has.
    public init(
        contentsOf path: String, environment: String? = DomainTable.environmentOfProcess
    ) throws(NetworkError) {
        try self.init(bytes: Self.bytes(of: path), path: path, environment: environment)
    }

    init(bytes: [UInt8], path: String, environment: String?) throws(NetworkError) {
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) }
        var contents = try TableContents(bytes, name: path, folder: folder)
        contents.path = path
        self.init(contents)
        try activate(environment)
    }

    static func bytes(of path: String) throws(NetworkError) -> [UInt8] {
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
    ///   - name: what messages call it.
    ///   - environment: as in ``init(contentsOf:environment:)``.
    /// - Throws: as ``init(contentsOf:environment:)``.
    public init(
        json5: String, name: String = "inline", environment: String? = DomainTable.environmentOfProcess
    ) throws(NetworkError) {
        self.init(try TableContents(Array(json5.utf8), name: name, folder: nil))
        try activate(environment)
    }

    private init(_ contents: TableContents) { snapshot = TableSnapshot(contents) }

    /// What `LAT_ENVIRONMENT` says; `nil` when it is unset or empty.
    public static var environmentOfProcess: String? {
        ProcessInfo.processInfo.environment[environmentVariable].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The file it was read from; `nil` for a table made of text or in code.
    public var path: String? { contents.path }

    /// What the table is called in messages: the path of its file.
    public var name: String { contents.name }

    /// What is likely not meant as it stands, though the table works.
    public var warnings: [TableDiagnostic] { contents.warnings }

    /// The names of all domains, in the order of the file.
    public var domainNames: [DomainName] { snapshot.domains.names }

    /// The names of all servers, in the order of the file.
    public var serverNames: [ServerName] { snapshot.servers.names }

    /// The environments that rows name, sorted.
    public var environmentNames: [String] { snapshot.environmentNames }

    /// The environment whose base URLs are used; `nil` for none. A domain that does not name it keeps its `baseURL`.
    ///
    /// A name that no row has makes every later look-up of an address throw ``NetworkError/Kind/unknownName``.
    public var environment: String? {
        get { contents.environment.wrappedValue }
        set { change { $0.environment = Tracked(wrappedValue: newValue.flatMap { $0.isEmpty ? nil : $0 }) } }
    }

    // MARK: Rows

    /// A row of `domains`.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName``, with the nearest name.
    public func domain(_ name: DomainName) throws(NetworkError) -> DomainRow {
        guard let row = snapshot.domains[name] else {
            throw unknown("domain", name.rawValue, domainNames.map(\.rawValue))
        }
        return row
    }

    /// A row of `servers`.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName``, with the nearest name.
    public func server(_ name: ServerName) throws(NetworkError) -> ServerRow {
        guard let row = snapshot.servers[name] else {
            throw unknown("server", name.rawValue, serverNames.map(\.rawValue))
        }
        return row
    }

    // MARK: Routes

    /// Where and how a call of the server table goes.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` for a server, domain or environment that is not there.
    public func resolve(server name: ServerName) throws(NetworkError) -> ResolvedRoute {
        try checkEnvironment()
        if let route = snapshot.routes[name] { return route }
        let row = try server(name)
        let domain = row.domain ?? ""
        _ = try self.domain(domain)
        // Every row whose domain is there has a route.
        throw NetworkError.invalidRequest("the server \"\(name)\" in \(self.name) has a path that cannot be used")
    }

    /// Where and how a call to a domain goes that has no row of its own.
    ///
    /// - Parameter path: a path, with parameters like `{id}`; an absolute URL is refused.
    /// - Throws: ``NetworkError/Kind/unknownName`` for a domain or environment that is not there,
    ///   ``NetworkError/Kind/invalidRequest`` for a path that cannot be used.
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
        guard let environment, !snapshot.isEnvironmentKnown else { return }
        let advice = NearestName.advice(environment, among: environmentNames, allCalled: "environments")
        var cause = ""
        if case .variable(let variable) = contents.environment.origin { cause = " (from \(variable))" }
        throw NetworkError(
            .unknownName, message: "unknown environment \(QuotedText.of(environment))\(cause) in \(name)\(advice)")
    }

    func unknown(_ kind: String, _ text: String, _ names: [String]) -> NetworkError {
        let advice = NearestName.advice(text, among: names, allCalled: kind + "s")
        return NetworkError(.unknownName, message: "unknown \(kind) \(QuotedText.of(text)) in \(name)\(advice)")
    }

    // MARK: Changes

    var current: TableSnapshot { snapshot }

    var contents: TableContents { snapshot.contents }

    mutating func change(_ change: (inout TableContents) -> Void) {
        var contents = snapshot.contents
        change(&contents)
        snapshot = TableSnapshot(contents)
    }

    /// Takes the rows of a newly read file; what was set in code stays set.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` when the file no longer knows the environment. The table is then as
    ///   before.
    mutating func replaceFile(by other: DomainTable) throws(NetworkError) {
        var copy = self
        copy.change { contents in
            contents.fileDefaults = other.contents.fileDefaults
            contents.fileDomains = other.contents.fileDomains
            contents.fileServers = other.contents.fileServers
            contents.warnings = other.contents.warnings
        }
        try copy.checkEnvironment()
        self = copy
    }

    private mutating func activate(_ environment: String?) throws(NetworkError) {
        guard let environment, !environment.isEmpty else { return }
        let isOfProcess = environment == Self.environmentOfProcess
        change { contents in
            contents.environment = Tracked(environment, from: isOfProcess ? .variable(Self.environmentVariable) : .code)
        }
        try checkEnvironment()
    }
}
