import DomainTables
import LATNetworking

/// The output of `lat domains`: lines for people, one object for programs. A pure value.
struct TableReport {
    let table: DomainTable

    // MARK: check

    /// A summary such as `Config/domains.json5 is valid: 2 domains, 5 servers, environments dev and staging`.
    var summary: String {
        var parts = [
            Self.count(table.domainNames.count, "domain"), Self.count(table.serverNames.count, "server"),
        ]
        let environments = table.environmentNames
        if !environments.isEmpty {
            parts.append((environments.count == 1 ? "environment " : "environments ") + environments.listed)
        }
        if !table.warnings.isEmpty { parts.append(TableProblem.count(table.warnings)) }
        return "\(table.name) is valid: " + parts.joined(separator: ", ")
    }

    /// The output of `check --format json`.
    static func check(_ file: String, _ table: DomainTable?, _ problem: TableProblem?) -> JSONValue {
        let diagnostics = problem?.diagnostics ?? table?.warnings ?? []
        return [
            "file": .string(file),
            "isValid": .bool(problem == nil),
            "message": .text(problem?.message),
            "problems": .array(diagnostics.map(value)),
            "domains": table.map { .int(Int64($0.domainNames.count)) } ?? .null,
            "servers": table.map { .int(Int64($0.serverNames.count)) } ?? .null,
            "environments": table.map { .array($0.environmentNames.map { .string($0) }) } ?? .null,
        ]
    }

    private static func value(_ diagnostic: DomainTable.Diagnostic) -> JSONValue {
        [
            "severity": .string(diagnostic.severity.rawValue),
            "file": .string(diagnostic.position.file),
            "line": .int(Int64(diagnostic.position.line)),
            "column": .int(Int64(diagnostic.position.column)),
            "message": .string(diagnostic.message),
            "expected": .text(diagnostic.expected),
            "found": .text(diagnostic.found),
            "suggestion": .text(diagnostic.suggestion),
            "excerpt": .array(diagnostic.excerpt.map { .string($0) }),
        ]
    }

    // MARK: list

    /// Domains with their base URLs, servers with their methods and paths, in columns.
    func list(_ style: Style) -> [String] {
        let environment = table.environment.map { style.dim("  environment " + SafeText.line($0)) } ?? ""
        var lines = [style.bold(SafeText.line(table.name)) + environment]
        let domains = table.domainNames.map { name in
            let (first, others) = addresses(of: name)
            return [name.rawValue, first] + (others.isEmpty ? [] : ["mirrors " + others.joined(separator: " ")])
        }
        lines += section("Domains", domains, style)
        let servers = table.serverNames.map { name in
            let row = try? table.server(name)
            return [
                name.rawValue, row?.method?.rawValue ?? style.sign("–", "-"), row?.domain?.rawValue ?? "",
                row?.path.map(HTTPAddress.redacted) ?? "",
            ]
        }
        return lines + section("Servers", servers, style)
    }

    private func section(_ title: String, _ rows: [[String]], _ style: Style) -> [String] {
        guard !rows.isEmpty else { return [] }
        let lines = rows.map { $0.map(SafeText.line) }.aligned.map { row in
            "  " + ([style.name(row[0])] + row.dropFirst()).joined(separator: "  ")
        }
        return ["", title] + lines
    }

    /// The domain's base URL and its mirrors: those of the environment if it sets any, else the row's. Passwords are hidden.
    private func addresses(of domain: DomainName) -> (first: String, others: [String]) {
        let urls = (try? table.resolve(domain: domain, path: ""))?.baseURLs.map(HTTPAddress.redacted) ?? []
        return (urls.first ?? "", Array(urls.dropFirst()))
    }

    /// The output of `list --format json`.
    var listValue: JSONValue {
        [
            "file": .string(table.name),
            "environment": .text(table.environment),
            "environments": .array(table.environmentNames.map { .string($0) }),
            "domains": .array(
                table.domainNames.map { name in
                    let (first, others) = addresses(of: name)
                    return [
                        "name": .string(name.rawValue), "baseURL": .string(first),
                        "mirrors": .array(others.map { .string($0) }),
                    ]
                }),
            "servers": .array(
                table.serverNames.map { name in
                    let row = try? table.server(name)
                    return [
                        "name": .string(name.rawValue), "method": .text(row?.method?.rawValue),
                        "domain": .text(row?.domain?.rawValue), "path": .text(row?.path.map(HTTPAddress.redacted)),
                    ]
                }),
        ]
    }

    // MARK: explain

    /// The address of a call, then its values in columns, each with the place that set it.
    func explanation(of name: String, _ style: Style) throws(NetworkError) -> [String] {
        let rows = try table.explanations(of: name).map { row in
            (SafeText.line(row.setting), SafeText.line(row.value), SafeText.line("\(row.origin)"))
        }
        let settingWidth = rows.map(\.0.count).max() ?? 0
        let valueWidth = min(60, rows.map(\.1.count).max() ?? 0)
        let title = table.explain(name).prefix { $0 != "\n" }
        return [style.bold(SafeText.line(String(title)))]
            + rows.map { setting, value, origin in
                "  \(setting.padded(toEnd: settingWidth))  \(value.padded(toEnd: valueWidth))  \(style.dim(origin))"
            }
    }

    /// The output of `explain --format json`.
    func explanationValue(of name: String) throws(NetworkError) -> JSONValue {
        let values = try table.explanations(of: name).map { explanation -> JSONValue in
            var file: JSONValue = .null
            var line: JSONValue = .null
            if case .file(let position) = explanation.origin {
                file = .string(position.file)
                line = .int(Int64(position.line))
            }
            return [
                "setting": .string(explanation.setting), "value": .string(explanation.value),
                "origin": .string("\(explanation.origin)"), "file": file, "line": line,
            ]
        }
        return ["name": .string(name), "environment": .text(table.environment), "values": .array(values)]
    }

    static func count(_ count: Int, _ word: String) -> String { count == 1 ? "1 \(word)" : "\(count) \(word)s" }
}
