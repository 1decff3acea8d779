import DomainTableFormat
import HTTPCore

/// A table with its rows merged, so that a look-up has nothing to compute. Rebuilt at every change.
final class TableSnapshot: Sendable {
    let contents: TableContents
    let defaults: DomainTable.RouteSettings
    let domains: RowList<DomainName, DomainTable.DomainRow>
    let servers: RowList<ServerName, DomainTable.ServerRow>
    let environmentNames: [String]
    let isEnvironmentKnown: Bool
    let routes: [ServerName: DomainTable.ResolvedRoute]
    private let domainRoutes: [DomainName: DomainRoute]

    /// What all calls to a domain share.
    private struct DomainRoute: Sendable {
        var bases: [RouteBase]
        var settings: DomainTable.RouteSettings
    }

    init(_ contents: TableContents) {
        var domains = contents.fileDomains
        domains.apply(contents.domains)
        var servers = contents.fileServers
        servers.apply(contents.servers)
        let defaults = contents.defaults ?? contents.fileDefaults
        let environment = contents.environment.wrappedValue
        let environments = Set(domains.names.flatMap { domains[$0].map { Array($0.environments.keys) } ?? [] })

        var domainRoutes: [DomainName: DomainRoute] = [:]
        for name in domains.names {
            guard let row = domains[name] else { continue }
            domainRoutes[name] = DomainRoute(
                bases: Self.bases(row, environment: environment, override: contents.baseURLs[name]),
                settings: row.settings.over(defaults))
        }
        var routes: [ServerName: DomainTable.ResolvedRoute] = [:]
        for name in servers.names {
            guard let row = servers[name], let domain = row.domain, let shared = domainRoutes[domain] else { continue }
            routes[name] = try? DomainTable.ResolvedRoute(
                server: name, domain: domain, row: row, bases: shared.bases,
                settings: row.settings.over(shared.settings))
        }
        self.contents = contents
        self.defaults = defaults
        self.domains = domains
        self.servers = servers
        self.routes = routes
        self.domainRoutes = domainRoutes
        environmentNames = environments.sorted()
        isEnvironmentKnown = environment.map { environments.contains($0) } ?? true
    }

    /// The base URLs of all domains, including mirrors.
    var baseURLs: [String] { domainRoutes.values.flatMap { $0.bases.map(\.url) } }

    /// Requires that the domain exists.
    func route(domain name: DomainName, path: String) throws(PathTemplate.Problem) -> DomainTable.ResolvedRoute {
        let shared = domainRoutes[name] ?? DomainRoute(bases: [], settings: defaults)
        return try DomainTable.ResolvedRoute(
            server: nil, domain: name, row: DomainTable.ServerRow(domain: name, path: path), bases: shared.bases,
            settings: shared.settings)
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
struct RouteBase: Sendable {
    enum Role: Hashable, Sendable {
        case base
        case environment(String)
        case mirror
    }

    var url: String
    var role: Role
    var origin: DomainTable.SettingOrigin
}
