public import HTTPCore
import Synchronization

extension DomainTable {
    /// The route of a call: the addresses to try, the path, and the merged settings of all rows.
    ///
    /// ```swift
    /// let route = try table.resolve(server: "user.detail")
    /// route.method                                // GET
    /// route.settings.timeout                      // the server's, else the domain's, else the defaults'
    /// try route.url(["id": "a b"])                // https://app.example.org/api/v1/users/a%20b
    /// ```
    public struct ResolvedRoute: Sendable {
        fileprivate let storage: Storage

        fileprivate final class Storage: Sendable {
            let server: ServerName?
            let domain: DomainName
            let row: ServerRow
            let bases: [RouteBase]
            let settings: RouteSettings
            let domainLimits: Tracked<RequestLimits>
            let domainCircuit: RequestLimits.CircuitChoice?
            /// For each base URL, the whole URL with its parameters.
            let templates: [PathTemplate]
            let pathParameters: [String]
            let isAbsolute: Bool
            let key: String

            init(
                server: ServerName?, domain: DomainName, row: ServerRow, bases: [RouteBase],
                settings: RouteSettings, ofDomain shared: RouteSettings
            ) throws(PathTemplate.Problem) {
                let path = row.path ?? ""
                isAbsolute = HTTPAddress.isAbsolute(path)
                let own = RouteBase(url: path, role: .base, origin: row.$path.origin ?? .code)
                pathParameters = try PathTemplate(path).parameters
                self.bases = isAbsolute ? [own] : bases
                var templates: [PathTemplate] = []
                for base in bases where !isAbsolute {
                    templates.append(try PathTemplate(URLParts.join(base.url, path)))
                }
                self.templates = isAbsolute ? [try PathTemplate(path)] : templates
                key = ([domain.rawValue] + self.bases.map(\.url)).joined(separator: " ")
                self.server = server
                self.domain = domain
                self.row = row
                self.settings = settings
                domainLimits = Tracked(shared.limits, from: shared.origin(of: "limits"))
                domainCircuit = shared.circuit
            }
        }

        /// The server; `nil` for a route made from a domain and a path.
        public var server: ServerName? { storage.server }
        /// The domain.
        public var domain: DomainName { storage.domain }
        /// The method of the row; `nil` when it has none.
        public var method: HTTPMethod? { storage.row.method }
        /// The path with its parameters, `v1/users/{id}`.
        public var path: String { storage.row.path ?? "" }
        /// The names of the path's parameters, in order, without duplicates.
        public var pathParameters: [String] { storage.pathParameters }
        /// The URLs that the path is joined to, in the order in which they are tried: the base URL, then its mirrors. For a
        /// path that is an absolute URL, only that URL.
        public var baseURLs: [String] { storage.bases.map(\.url) }
        /// The merged settings of `defaults`, domain and server, each with its origin.
        public var settings: RouteSettings { storage.settings }
        /// The pins of the rows; empty for none.
        public var pins: [String] { settings.tls.pins ?? [] }
        /// Whether the path is an absolute URL, so that the domain's base URLs are not used.
        public var isAbsolute: Bool { storage.isAbsolute }

        /// The domain and its base URLs in one text, so that failed addresses are forgotten when the row changes.
        package var key: String { storage.key }

        package var bases: [RouteBase] { storage.bases }
        package var row: ServerRow { storage.row }
        package var domainLimits: Tracked<RequestLimits> { storage.domainLimits }
        package var domainCircuit: RequestLimits.CircuitChoice? { storage.domainCircuit }

        /// Returns the whole URL.
        ///
        /// - Parameters:
        ///   - parameters: the unescaped values of the path's parameters; others are ignored.
        ///   - index: the index in ``baseURLs``. Default 0.
        /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter with a missing or empty value, for values that
        ///   would make a segment `.` or `..`, and for an index out of range.
        public func url(_ parameters: [String: String] = [:], base index: Int = 0) throws(NetworkError) -> String {
            guard storage.templates.indices.contains(index) else {
                throw .invalidRequest(
                    "\(subject) has no base URL of index \(index); give 0 to \(storage.templates.count - 1)")
            }
            return try storage.templates[index].filled(with: PathValues(parameters), of: subject)
        }

        package func url(_ values: PathValues, base index: Int) throws(NetworkError) -> String {
            try storage.templates[index].filled(with: values, of: subject)
        }

        private var subject: String {
            if let server { "the server \"\(server)\"" } else { "the path \(QuotedText.of(path)) of \"\(domain)\"" }
        }
    }
}

extension PathTemplate {
    /// Returns the text with its parameters filled in, percent-encoded.
    ///
    /// - Parameter subject: the owner of the path, for messages; `nil` when it has no name.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a parameter with a missing or empty value, and for values
    ///   that would make a segment `.` or `..`.
    package func filled(with values: PathValues, of subject: @autoclosure () -> String?) throws(NetworkError) -> String
    {
        if pieces.count == 1, case .literal(let text) = pieces[0] { return text }
        var text = ""
        text.reserveCapacity(128)
        var mayBeDots = false
        for piece in pieces {
            switch piece {
            case .literal(let literal): text += literal
            case .parameter(let name):
                guard let value = values[name] else {
                    let near = NearestName.of(name, among: values.list.map(\.name).sorted())
                    let advice =
                        near.map { "; did you mean {\($0)}?" } ?? "; give a parameter or a property \"\(name)\""
                    throw .invalidRequest("the path parameter {\(name)}\(Self.owner(subject())) has no value\(advice)")
                }
                guard !value.isEmpty else {
                    throw .invalidRequest(
                        "the path parameter {\(name)}\(Self.owner(subject())) is empty, which would change the path; give a value"
                    )
                }
                if value.utf8.allSatisfy({ $0 == UInt8(ascii: ".") }) { mayBeDots = true }
                text += value.percentEncodedComponent
            }
        }
        // Only values can make a segment `.` or `..`: no valid template has one, and `%2E` in a value becomes `%252E`.
        guard !mayBeDots || Self.dotSegment(Array(text.utf8)) == nil else {
            throw .invalidRequest(
                "the values of the path parameters\(Self.owner(subject())) make the segment \"..\" or \".\", which would change the path; "
                    + "give other values")
        }
        return text
    }

    private static func owner(_ subject: String?) -> String { subject.map { " of \($0)" } ?? "" }
}

/// The unescaped values of a path's parameters, by name.
package struct PathValues: Sendable {
    private(set) var list: [(name: String, value: String)] = []

    package init() {}

    init(_ values: [String: String]) { list = values.map { ($0.key, $0.value) } }

    subscript(name: String) -> String? { list.first { $0.name == name }?.value }

    /// Removes the values of a path's parameters from the members.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a value that is not a text, number or Boolean.
    package init(_ names: [String], from members: inout EncodedMembers) throws(NetworkError) {
        for name in names {
            guard let value = members.remove(name) else { continue }
            switch value {
            case .string(let text): list.append((name, text))
            case .int, .double, .decimal, .bool: list.append((name, value.description))
            case .null, .array, .object:
                throw .invalidRequest("the path parameter {\(name)} is \(value); give a text, number or Boolean")
            }
        }
    }
}

/// A table with its rows merged. What a look-up needs is computed once, when it is first needed: a table that is filled in code
/// has a snapshot for each change.
package final class TableSnapshot: Sendable {
    private struct Computed {
        var domains: RowList<DomainName, DomainTable.DomainRow>?
        var servers: RowList<ServerName, DomainTable.ServerRow>?
        var merged: Merged?
    }

    /// The rows of the domains over `defaults`, and those of the servers over them.
    private struct Merged {
        var environmentNames: [String]
        var forbidden: NetworkError?
        var routes: [ServerName: DomainTable.ResolvedRoute] = [:]
        var domainRoutes: [DomainName: (bases: [RouteBase], settings: DomainTable.RouteSettings)] = [:]
    }

    let contents: TableContents
    private let computed = Mutex(Computed())

    init(_ contents: TableContents) { self.contents = contents }

    var defaults: DomainTable.RouteSettings { contents.defaults ?? contents.fileDefaults }

    var domains: RowList<DomainName, DomainTable.DomainRow> {
        computed.withLock { computed in
            if let known = computed.domains { return known }
            var domains = contents.fileDomains
            domains.apply(contents.domains)
            computed.domains = domains
            return domains
        }
    }

    var servers: RowList<ServerName, DomainTable.ServerRow> {
        computed.withLock { computed in
            if let known = computed.servers { return known }
            var servers = contents.fileServers
            servers.apply(contents.servers)
            computed.servers = servers
            return servers
        }
    }

    private var merged: Merged {
        let (domains, servers) = (domains, servers)
        return computed.withLock { computed in
            if let known = computed.merged { return known }
            let merged = merged(domains, servers)
            computed.merged = merged
            return merged
        }
    }

    var environmentNames: [String] { merged.environmentNames }
    /// Why no address may be looked up: the table is for production, and a row makes faults on purpose.
    var forbidden: NetworkError? { merged.forbidden }
    var isEnvironmentKnown: Bool { contents.environment.wrappedValue.map(environmentNames.contains) ?? true }
    var routes: [ServerName: DomainTable.ResolvedRoute] { merged.routes }

    private func merged(
        _ domains: RowList<DomainName, DomainTable.DomainRow>, _ servers: RowList<ServerName, DomainTable.ServerRow>
    ) -> Merged {
        let environments = Set(domains.names.flatMap { domains[$0].map { Array($0.environments.keys) } ?? [] })
        var merged = Merged(environmentNames: environments.sorted())
        for name in domains.names {
            guard let row = domains[name] else { continue }
            merged.domainRoutes[name] = (
                Self.bases(
                    row, environment: contents.environment.wrappedValue, override: contents.baseURLs[name]),
                row.settings.over(defaults)
            )
        }
        for name in servers.names {
            guard let row = servers[name], let domain = row.domain, let shared = merged.domainRoutes[domain] else {
                continue
            }
            let storage = try? DomainTable.ResolvedRoute.Storage(
                server: name, domain: domain, row: row, bases: shared.bases,
                settings: row.settings.over(shared.settings), ofDomain: shared.settings)
            merged.routes[name] = storage.map(DomainTable.ResolvedRoute.init(storage:))
        }
        merged.forbidden = contents.productionPlace.flatMap { place in
            let rows: [(String, DomainTable.RouteSettings?)] =
                [("\"defaults\"", defaults)]
                + domains.names.map { ("the domain \"\($0)\"", domains[$0]?.settings) }
                + servers.names.map { ("the server \"\($0)\"", servers[$0]?.settings) }
            let row = rows.first { $0.1?.chaos?.isOn == true }
            return row.map {
                DomainTable.Production.refusal(of: $0.0, $0.1?.origin(of: "chaos"), place, in: contents.name)
            }
        }
        return merged
    }

    /// The base URLs of all domains, including mirrors.
    package var baseURLs: [String] { merged.domainRoutes.values.flatMap { $0.bases.map(\.url) } }

    func route(domain name: DomainName, path: String) throws(PathTemplate.Problem) -> DomainTable.ResolvedRoute {
        let shared = merged.domainRoutes[name] ?? ([], defaults)
        return DomainTable.ResolvedRoute(
            storage: try DomainTable.ResolvedRoute.Storage(
                server: nil, domain: name, row: DomainTable.ServerRow(domain: name, path: path), bases: shared.bases,
                settings: shared.settings, ofDomain: shared.settings))
    }

    /// The URL set in code, else those of the environment, else the row's base URL and mirrors.
    private static func bases(_ row: DomainTable.DomainRow, environment: String?, override: String?) -> [RouteBase] {
        if let override { return [RouteBase(url: override, role: .base, origin: .code)] }
        if let environment, let urls = row.environments[environment] {
            let origin = row.environmentOrigins[environment] ?? .code
            return urls.enumerated().map { index, url in
                RouteBase(url: url, role: index == 0 ? .environment(environment) : .mirror, origin: origin)
            }
        }
        var bases = row.baseURL.map { [RouteBase(url: $0, role: .base, origin: row.$baseURL.origin ?? .code)] } ?? []
        for url in row.mirrors ?? [] {
            bases.append(RouteBase(url: url, role: .mirror, origin: row.$mirrors.origin ?? .code))
        }
        return bases
    }
}

/// One of the URLs that a domain's paths can be joined to.
package struct RouteBase: Sendable {
    package enum Role: Hashable, Sendable {
        case base
        case environment(String)
        case mirror
    }

    package var url: String
    package var role: Role
    package var origin: DomainTable.SettingOrigin
}
