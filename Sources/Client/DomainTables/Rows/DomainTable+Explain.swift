public import HTTPCore

extension DomainTable {
    /// One value of a route, and its source.
    public struct Explanation: Hashable, Sendable, CustomStringConvertible {
        /// The key in the table, such as `timeout`, or `headers.X-App` for one of the headers.
        public var setting: String
        /// The value as text; secrets are masked.
        public var value: String
        /// The source of the value: a line of the file, code, or an environment variable.
        public var origin: SettingOrigin

        /// `timeout = 5s (Config/domains.json5:12)`.
        public var description: String { "\(setting) = \(value) (\(origin))" }
    }

    /// Explains which line set each value of a call, as text.
    ///
    /// ```
    /// user.detail  GET  https://app.example.org/api/v1/users/{id}
    ///   baseURL        https://app.example.org/api   Config/domains.json5:12
    ///   path           v1/users/{id}                 Config/domains.json5:31
    ///   timeout        60s                           Config/domains.json5:4
    /// ```
    ///
    /// - Parameter name: the name of a server or a domain, or a URL, whose row is then looked up.
    /// - Returns: the text; for an unknown name, the error's message.
    public func explain(_ name: String) -> String { explain(name) { _ in [] } }

    /// - Parameter state: what else is known of the row, as setting, value and place.
    package func explain(_ name: String, _ state: (ResolvedRoute) -> [(String, String, String)]) -> String {
        do throws(NetworkError) {
            let route = try route(for: name)
            let rows = explanations(of: route).map { ($0.setting, $0.value, "\($0.origin)") } + state(route)
            let url = route.isAbsolute ? route.path : URLParts.join(route.baseURLs.first ?? "", route.path)
            var title = route.server.map(\.rawValue) ?? route.domain.rawValue
            if let method = route.method { title += "  \(method)" }
            title += "  " + HTTPAddress.redacted(url)
            let columns = (
                rows.map(\.0.count).max() ?? 0, min(60, rows.map(\.1.count).max() ?? 0)
            )
            let lines = rows.map { row in
                "  \(Self.padded(row.0, columns.0))  \(Self.padded(row.1, columns.1))  \(row.2)"
            }
            return ([title] + lines).joined(separator: "\n")
        } catch {
            return error.message
        }
    }

    /// Returns the values of a call, each with its source. Values that no row sets are the manager's, and not listed.
    ///
    /// - Parameter name: as in ``explain(_:)``.
    /// - Throws: ``NetworkError/Kind/unknownName`` for an unknown name, and for a URL that belongs to no domain;
    ///   ``NetworkError/Kind/invalidRequest`` for an invalid URL.
    public func explanations(of name: String) throws(NetworkError) -> [Explanation] {
        explanations(of: try route(for: name))
    }

    // MARK: Finding the row

    private func route(for name: String) throws(NetworkError) -> ResolvedRoute {
        if current.servers[ServerName(name)] != nil { return try resolve(server: ServerName(name)) }
        if current.domains[DomainName(name)] != nil { return try resolve(domain: DomainName(name), path: "") }
        guard URLParts(name).isAbsolute else {
            throw unknown(
                "server", name, serverNames.map(\.rawValue) + domainNames.map(\.rawValue),
                allCalled: "servers and domains")
        }
        let bare = String(name.prefix { $0 != "#" })
        guard let address = try? HTTPAddress(bare) else {
            throw .invalidRequest(
                "\(QuotedText.of(name)) is not \(HTTPAddress.expectation); give one, or a server's name")
        }
        guard let (domain, rest) = owner(of: address) else {
            throw NetworkError(
                .unknownName,
                message: "no domain in \(self.name) has a base URL that \(QuotedText.of(bare)) begins with; "
                    + "lat domains list shows them")
        }
        let candidates = serverNames.compactMap { current.routes[$0] }.filter { $0.domain == domain }
        let matching = candidates.compactMap { route in
            Self.literals(of: route, matching: rest, bare).map { (route, $0) }
        }
        if let best = matching.max(by: { $0.1 < $1.1 })?.0 { return try resolve(server: best.server ?? "") }
        return try resolve(domain: domain, path: "")
    }

    /// The domain with the longest base URL that is a prefix of a URL, and the rest of the URL's path.
    private func owner(of address: HTTPAddress) -> (DomainName, String)? {
        var best: (domain: DomainName, length: Int, rest: String)?
        for name in domainNames {
            guard let row = current.domains[name] else { continue }
            let override = contents.baseURLs[name].map { [$0] } ?? []
            let bases = override + [row.baseURL ?? ""] + (row.mirrors ?? []) + row.environments.values.flatMap { $0 }
            for base in bases.compactMap({ try? HTTPAddress($0) }) {
                guard base.scheme == address.scheme, base.authority == address.authority else { continue }
                guard address.path == base.path || address.path.hasPrefix(base.path + "/") else { continue }
                guard base.path.utf8.count > best?.length ?? -1 else { continue }
                best = (name, base.path.utf8.count, String(address.path.dropFirst(base.path.count)))
            }
        }
        return best.map { ($0.domain, $0.rest) }
    }

    /// How many segments of a route's path equal the URL's exactly; `nil` when the paths do not match.
    private static func literals(of route: ResolvedRoute, matching rest: String, _ url: String) -> Int? {
        let segments = { (path: String) in path.prefix { $0 != "?" && $0 != "#" }.split(separator: "/") }
        let own = segments(route.path)
        let asked = segments(route.isAbsolute ? url : rest)
        guard own.count == asked.count else { return nil }
        var literals = own.count
        for (template, segment) in zip(own, asked) where template != segment {
            guard template.contains("{") else { return nil }
            literals -= 1
        }
        return literals
    }

    // MARK: Explanations

    private func explanations(of route: ResolvedRoute) -> [Explanation] {
        var list = ExplanationList(secrets: route.settings.secretHeaders ?? [])
        if let origin = contents.origin {
            list.add("table", origin.description, .file(DomainTable.Position(file: name, line: 1, column: 1)))
        }
        if let place = productionPlace { list.add("production", "true", place) }
        if route.server != nil {
            list.add("domain", route.row.$domain) { $0.rawValue }
            list.add("method", route.row.$method) { $0.rawValue }
            list.add("path", route.row.$path, HTTPAddress.redacted)
            list.add("allowsAbsolute", route.row.$allowsAbsolute) { "\($0)" }
        }
        list.add("environment", contents.environment) { $0 }
        if !route.isAbsolute {
            for base in route.bases {
                let key =
                    switch base.role {
                    case .base: "baseURL"
                    case .environment(let name): "environments.\(name)"
                    case .mirror: "mirrors"
                    }
                list.add(key, HTTPAddress.redacted(base.url), base.origin)
            }
        }
        if let pins = route.settings.tls.pins, let origin = route.settings.origin(of: "tls.pins") {
            list.add("pins", pins.joined(separator: ", "), origin)
        }
        // The limits of both rows apply, unless the server row frees its calls from those of the domain.
        let own = route.row.settings.limits
        list.add(route.settings, domainLimits: own == nil || own?.isUnlimited == true ? nil : route.domainLimits)
        return list.rows
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

private struct ExplanationList {
    var rows: [DomainTable.Explanation] = []
    let secrets: [String]

    mutating func add(_ setting: String, _ value: String, _ origin: DomainTable.SettingOrigin) {
        rows.append(DomainTable.Explanation(setting: setting, value: value, origin: origin))
    }

    mutating func add<Value>(_ setting: String, _ tracked: DomainTable.Tracked<Value>, _ text: (Value) -> String) {
        guard let value = tracked.wrappedValue, let origin = tracked.origin else { return }
        add(setting, text(value), origin)
    }

    /// - Parameter domainLimits: The limits of the domain that apply in addition to the row's own.
    mutating func add(
        _ settings: DomainTable.RouteSettings, domainLimits: DomainTable.Tracked<RequestLimits>?
    ) {
        // The pins are beside the base URL.
        for key in RowKey.all where !key.isShort && key.name != "tls.pins" {
            if let origin = settings.origin(of: key) { add(key.name, key.text(settings), origin) }
            if key.name == "limits", let domainLimits {
                add("limits of the domain", domainLimits, ValueKind.limits.text)
            }
        }
        if let secrets = settings.secretHeaders, let origin = settings.origin(of: "secretHeaders") {
            add("secretHeaders", secrets.joined(separator: ", "), origin)
        }
        for field in settings.headers.fields { add("headers.\(field.name)", shown(field), settings.origin(of: field)) }
        for (name, value) in settings.parameters.sorted(by: { $0.key < $1.key }) {
            let isSecret = Secrets.standard.contains(parameter: name)
            add(
                "parameters.\(name)",
                isSecret
                    ? Secrets.placeholder
                    : Secrets.standard.replaced(json: value) { _ in Secrets.placeholder }.description,
                settings.origin(of: "parameters.\(name)") ?? .code)
        }
    }

    private func shown(_ field: HTTPHeaders.Field) -> String {
        guard let value = field.value else { return "null" }
        let isSecret =
            Secrets.standard.contains(header: field.name)
            || secrets.contains { $0.equalsIgnoringASCIICase(field.name) }
        return isSecret ? Secrets.placeholder : value
    }
}
