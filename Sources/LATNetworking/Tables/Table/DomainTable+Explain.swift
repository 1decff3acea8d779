import DomainTableFormat
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
    public func explain(_ name: String) -> String {
        do throws(NetworkError) {
            let route = try route(for: name)
            let rows = explanations(of: route)
            let url = route.isAbsolute ? route.path : RequestBuilder.join(route.baseURLs.first ?? "", route.path)
            var title = route.server.map(\.rawValue) ?? route.domain.rawValue
            if let method = route.method { title += "  \(method)" }
            title += "  " + HTTPAddress.redacted(url)
            let columns = (
                rows.map(\.setting.count).max() ?? 0, min(60, rows.map(\.value.count).max() ?? 0)
            )
            let lines = rows.map { row in
                "  \(Self.padded(row.setting, columns.0))  \(Self.padded(row.value, columns.1))  \(row.origin)"
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
            throw unknown("server", name, serverNames.map(\.rawValue) + domainNames.map(\.rawValue))
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
            list.add("table", origin.description, .file(SourcePosition(file: name, line: 1, column: 1)))
        }
        if route.server != nil {
            list.add("domain", route.row.$domain) { $0.rawValue }
            list.add("method", route.row.$method) { $0.rawValue }
            list.add("path", route.row.$path) { $0 }
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
        list.add("pins", route.settings.tls.$pins) { $0.joined(separator: ", ") }
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
        add("timeout", settings.$timeout, DurationText.text)
        add("connectTimeout", settings.$connectTimeout, DurationText.text)
        add("idleTimeout", settings.$idleTimeout, DurationText.text)
        add("maxConnectionsPerHost", settings.$maxConnectionsPerHost) { "\($0)" }
        add("retries", settings.$retries) { "\($0)" }
        add("retry.statuses", settings.retry.$statuses, Self.list)
        add("retry.firstWait", settings.retry.$firstWait, DurationText.text)
        add("retry.longestWait", settings.retry.$longestWait, DurationText.text)
        add("retry.longestRetryAfter", settings.retry.$longestRetryAfter, DurationText.text)
        add("retry.repeatsOnlyIdempotent", settings.retry.$repeatsOnlyIdempotent) { "\($0)" }
        add("events.reconnect", settings.events.$reconnect) { "\($0)" }
        add("events.firstWait", settings.events.$firstWait, DurationText.text)
        add("events.longestWait", settings.events.$longestWait, DurationText.text)
        add("events.attempts", settings.events.$attempts) { "\($0)" }
        add("events.statuses", settings.events.$statuses, Self.list)
        add("events.endsAt", settings.events.$endsAt) { QuotedText.of($0) }
        add("events.eventLimit", settings.events.$eventLimit) { "\($0)" }
        add("limits", settings.$limits) { $0.text }
        if let domainLimits { add("limits of the domain", domainLimits) { $0.text } }
        add("circuit", settings.$circuit) { circuit in
            switch circuit {
            case .off: "null"
            case .breaker(let policy):
                "\(policy.failures) failures, pause \(DurationText.text(policy.pause)), statuses "
                    + Self.list(policy.statuses)
            }
        }
        add("cache", settings.$cache) { $0.rawValue }
        add("ttl", settings.$ttl) { ttl in
            switch ttl {
            case .fixed(let duration): DurationText.text(duration)
            case .sliding(let duration): "sliding " + DurationText.text(duration)
            case .forever: "forever"
            }
        }
        add("parameterEncoding", settings.$parameterEncoding) { $0.rawValue }
        add("dates", settings.$dates) { dates in
            switch dates {
            case .iso8601, .iso8601WithFractionalSeconds: "iso8601"
            case .unixSeconds: "unixSeconds"
            case .unixMilliseconds: "unixMilliseconds"
            case .secondsSince2001: "secondsSince2001"
            case .pattern(let text): text
            }
        }
        add("keys", settings.$keys) { $0.rawValue }
        add("proxy", settings.$proxy) { proxy in
            switch proxy {
            case .environment: "environment"
            case .none: "direct"
            case .url(let url): HTTPAddress.redacted(url)
            }
        }
        add("tls.caFile", settings.tls.$caFile) { $0 }
        add("tls.clientCertificate", settings.tls.$clientCertificate) { rule in
            "\(rule.certificate)" + (rule.passwordVariable.map { ", password in \($0)" } ?? "")
        }
        add("tls.minimumVersion", settings.tls.$minimumVersion) { String($0.rawValue.dropFirst("TLS ".count)) }
        add("redirects", settings.$redirects) { redirects in
            switch redirects {
            case .automatic: "automatic"
            case .none: "none"
            case .follow(let limit): "\(limit)"
            }
        }
        add("simulate", settings.$simulation) { simulation in
            switch simulation {
            case .off: "null"
            case .directory(let path, _): "directory \(path)"
            case .baseURL(let url, _): "baseURL \(HTTPAddress.redacted(url))"
            }
        }
        add("envelope", settings.$envelope) { choice in
            switch choice {
            case .none: "null"
            case .rule(let rule): "\(rule.code) of \(rule.success.sorted().joined(separator: ", "))"
            }
        }
        add("volatileParameters", settings.$volatileParameters) { $0.joined(separator: ", ") }
        add("cachePartition", settings.$cachePartition) { $0 }
        add("authenticator", settings.$authenticator) { authenticator in
            switch authenticator {
            case .automatic: "automatic"
            case .off: "null"
            case .named(let name): name
            }
        }
        add("sealer", settings.$sealing) { sealing in
            switch sealing {
            case .automatic: "automatic"
            case .unsealed: "null"
            case .sealed(let name): name
            }
        }
        add("compressBody", settings.$compressesBody) { $0 ? "gzip" : "null" }
        add("secretHeaders", settings.$secretHeaders) { $0.joined(separator: ", ") }
        for field in settings.headers.fields {
            let origin = settings.headerOrigins[field.name.lowercased(), field.value]
            add("headers.\(field.name)", shown(field), origin)
        }
        for (name, value) in settings.parameters.sorted(by: { $0.key < $1.key }) {
            let isSecret = Secrets.standard.contains(parameter: name)
            add(
                "parameters.\(name)", isSecret ? Secrets.placeholder : value.description,
                settings.parameterOrigins[name, value])
        }
    }

    private static func list(_ numbers: Set<Int>) -> String {
        numbers.isEmpty ? "none" : numbers.sorted().map { "\($0)" }.joined(separator: ", ")
    }

    private func shown(_ field: HTTPHeaders.Field) -> String {
        guard let value = field.value else { return "null" }
        let isSecret =
            Secrets.standard.contains(header: field.name)
            || secrets.contains { $0.equalsIgnoringASCIICase(field.name) }
        return isSecret ? Secrets.placeholder : value
    }
}

extension RequestLimits {
    fileprivate var text: String {
        var parts: [String] = []
        if let maxConcurrentRequests { parts.append("\(maxConcurrentRequests) at once") }
        if let maxConcurrentRequestsPerHost { parts.append("\(maxConcurrentRequestsPerHost) at once per host") }
        if let rate { parts.append("\(rate.perSecond) per second, burst \(rate.burst)") }
        if let ratePerHost { parts.append("\(ratePerHost.perSecond) per second per host, burst \(ratePerHost.burst)") }
        return parts.isEmpty ? "null" : parts.joined(separator: ", ")
    }
}
