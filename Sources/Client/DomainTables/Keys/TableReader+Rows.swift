import HTTPCore

/// Readers of the rows of `domains` and `servers`.
extension TableReader {
    mutating func domain(_ member: JSON5Member) -> DomainTable.DomainRow {
        var entry = DomainTable.DomainRow()
        let name = "the domain \(QuotedText.of(member.key))"
        guard let row = fields(of: member.value, in: .domain, called: name) else { return entry }
        let base = address(row["baseURL"], "baseURL")
        entry.$baseURL = DomainTable.Tracked(base?.0)
        if row.lacks("baseURL") {
            report(
                member.keyRange, "\(name) has no \"baseURL\"; write baseURL: \"https://…\"", expected: "\"baseURL\"")
        }
        let environments = environments(row["environments"])
        for (name, urls) in environments { entry.environments[name] = urls.value }
        for (name, urls) in environments { entry.environmentOrigins[name] = .file(urls.position) }
        if let node = row["mirrors"], let elements = array(node, "mirrors", of: "URLs") {
            let mirrors = mirrors(elements[...], "mirrors", besides: base?.1)
            entry.$mirrors = DomainTable.Tracked(located(mirrors, node))
        }
        entry.settings = settings(row)
        return entry
    }

    private mutating func environments(_ node: JSON5Node?) -> [(name: String, urls: Located<[String]>)] {
        var environments: [(name: String, urls: Located<[String]>)] = []
        for (member, isFirst) in entries(of: node, called: "\"environments\"", each: "environment") {
            let urls: [String]?
            if case .array(let elements) = member.value.value {
                guard let first = elements.first else {
                    reportType(member.value, QuotedText.of(member.key), "a URL, or an array of a URL and its mirrors")
                    continue
                }
                let base = address(first, member.key)
                let mirrors = mirrors(elements.dropFirst(), member.key, besides: base?.1)
                urls = base.map { [$0.0.value] + mirrors }
            } else {
                urls = address(member.value, member.key).map { [$0.0.value] }
            }
            if isFirst, let urls { environments.append((member.key, located(urls, member.value))) }
        }
        return environments
    }

    private mutating func mirrors(
        _ elements: ArraySlice<JSON5Node>, _ key: String, besides base: HTTPAddress?
    ) -> [String] {
        var seen: [String: Int] = [:]
        if let base { seen[base.normalized] = 0 }
        var mirrors: [String] = []
        for (number, element) in elements.enumerated() {
            guard let (url, address) = address(element, key) else { continue }
            if let other = seen[address.normalized] {
                let twin = other == 0 ? "the base URL" : "mirror \(other)"
                report(element.range, "mirror \(number + 1) is the same as \(twin); mirrors must differ")
                continue
            }
            seen[address.normalized] = number + 1
            mirrors.append(url.value)
        }
        return mirrors
    }

    mutating func server(_ member: JSON5Member) -> DomainTable.ServerRow {
        var entry = DomainTable.ServerRow()
        let name = "the server \(QuotedText.of(member.key))"
        guard let row = fields(of: member.value, in: .server, called: name) else { return entry }
        entry.$domain = DomainTable.Tracked(text(row["domain"], "domain", "the name of a domain")) { DomainName($0) }
        entry.$path = DomainTable.Tracked(text(row["path"], "path", "a path such as \"v1/users/{id}\""))
        entry.$method = DomainTable.Tracked(method(row["method"])) { HTTPMethod($0) }
        entry.$allowsAbsolute = DomainTable.Tracked(flag(row["allowsAbsolute"], "allowsAbsolute"))
        if row.hasSettings { entry.settings = settings(row) }
        if let node = row["hedge"], entry.settings.hedge.map({ $0 != .off }) ?? false, let method = entry.method,
            !method.isSafe
        {
            report(
                node.range, "\"hedge\" has an effect on \(method.rawValue) only with an idempotency key",
                severity: .warning)
        }
        for key in ["domain", "path"] where row.lacks(key) {
            report(member.keyRange, "\(name) has no \"\(key)\"", expected: "\"\(key)\"")
        }
        if let node = row["domain"], let domain = entry.domain { checkDomain(domain.rawValue, node) }
        if let node = row["path"], let path = entry.path {
            checkPath(path, node, allowsAbsolute: entry.allowsAbsolute ?? false)
        }
        return entry
    }

    private mutating func checkDomain(_ name: String, _ node: JSON5Node) {
        guard !domainNames.contains(name) else { return }
        unknownDomainCount += 1
        // Each piece of advice compares with all domains.
        let names = unknownDomainCount <= Self.mostAdvice ? file.domains.map(\.name.value) : []
        let advice =
            names.isEmpty && !file.domains.isEmpty
            ? "" : NearestName.advice(name, among: names, allCalled: "domains")
        report(
            node.range, "unknown domain \(QuotedText.of(name))\(advice)", expected: "the name of a domain",
            found: node.phrase, suggestion: NearestName.of(name, among: names))
    }

    private mutating func checkPath(_ path: String, _ node: JSON5Node, allowsAbsolute: Bool) {
        let inside = (node.range.lowerBound + 1)..<max(node.range.lowerBound + 1, node.range.upperBound - 1)
        do throws(PathTemplate.Problem) {
            _ = try PathTemplate(path)
        } catch {
            // Offsets are valid only without escapes, when the bytes of the file and of the value are the same.
            let isVerbatim = source.text(inside) == path
            let start = node.range.lowerBound + 1 + error.range.lowerBound
            report(
                isVerbatim ? start..<(start + error.range.count) : node.range,
                "the path \(QuotedText.of(path)) cannot be used: \(error.reason)", found: node.phrase)
            return
        }
        guard HTTPAddress.isAbsolute(path) else { return }
        guard allowsAbsolute else {
            report(
                node.range,
                "the path \(QuotedText.of(path)) is an absolute URL and would leave the domain; write a path, "
                    + "or allowsAbsolute: true when that is meant", expected: "a path", found: node.phrase)
            return
        }
        let target = path.prefix { $0 != "{" }
        do throws(HTTPAddress.Problem) {
            let address = try HTTPAddress(String(target))
            if address.scheme == "unix" { checkSocket(address.authority, "path", node) }
        } catch {
            report(
                node.range, "the path \(QuotedText.of(path)) must be \(HTTPAddress.expectation); it \(error.reason)",
                expected: HTTPAddress.expectation, found: node.phrase)
            return
        }
        if URLParts(path).authority?.contains("{") ?? false {
            report(
                node.range,
                "the path \(QuotedText.of(path)) has a parameter in its host; only what follows the host "
                    + "may vary", found: node.phrase)
        }
    }

    private mutating func method(_ node: JSON5Node?) -> Located<String>? {
        guard let node, let method = text(node, "method", "a method such as \"GET\"") else { return nil }
        let name = method.value.uppercased()
        guard !HTTPText.methods.contains(name), !HTTPText.furtherMethods.contains(method.value) else { return method }
        // Standard methods may be written in any case; other ones are sent as they are.
        let suggestion =
            HTTPText.furtherMethods.contains(name)
            ? name : NearestName.of(method.value.filter { !$0.isWhitespace }, among: HTTPText.methods)
        let advice = suggestion.map { "; did you mean \"\($0)\"?" } ?? ""
        if name == "CONNECT" {
            report(node.range, "the method CONNECT is not for requests; proxies are set with \"proxy\"")
        } else if !HTTPText.isToken(method.value) {
            report(
                node.range, "\"method\" must be a method such as \"GET\", found \(node.phrase)\(advice)",
                expected: "a token of RFC 9110", found: node.phrase, suggestion: suggestion)
        } else if suggestion != nil {
            report(
                node.range, "the method \(QuotedText.of(method.value)) is uncommon\(advice)",
                found: node.phrase, suggestion: suggestion, severity: .warning)
        }
        return method
    }
}
