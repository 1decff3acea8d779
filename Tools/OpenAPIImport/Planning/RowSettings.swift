import HTTPCore

/// What the row of a call and that of its domain have.
enum RowSettings {
    static func add(to plan: inout EntityPlan, _ api: API, warn: (String) -> Void) {
        let operation = plan.operation
        addQuery(to: &plan, warn)
        if let security = operation.security, security != api.security {
            plan.settings.append(("authenticator", authenticator(security)))
        }
        if let pages = pages(of: plan) { plan.settings.append(("pages", pages)) }
        if let poll = poll(of: plan) { plan.settings.append(("poll", poll)) }
        if let server = operation.servers.first { addServer(server, to: &plan, api, warn) }
        let documented = documented(plan)
        if documented.members?.names.isEmpty == false { plan.settings.append(("documented", documented)) }
    }

    /// The address of a server; a relative one is on another's host.
    private static func address(of server: Server, on host: String = "http://localhost") -> String {
        let url = server.url.hasSuffix("/") ? String(server.url.dropLast()) : server.url
        return url.contains("://") ? url : host + (url.hasPrefix("/") || url.isEmpty ? url : "/" + url)
    }

    /// An operation with a server of its own is not below the address of the domain.
    private static func addServer(
        _ server: Server, to plan: inout EntityPlan, _ api: API, _ warn: (String) -> Void
    ) {
        let base = api.servers.first.map { address(of: $0) }
        var own = address(of: server)
        if !server.url.contains("://"), own != base {
            guard let base, api.servers[0].url.contains("://") else {
                return warn("the server \(server.url) of this call has no host; correct its path in the table")
            }
            own = address(of: server, on: String(URLParts(base).beforePath))
            warn("the server \(server.url) of this call has no host; its row has \(own), in every environment")
        }
        guard own != base else { return }
        plan.path = own + plan.path
        plan.settings.append(("allowsAbsolute", Node(.bool(true))))
    }

    /// The statuses that the document has, unless it has `default` for all others, and the parameters of query and body.
    private static func documented(_ plan: EntityPlan) -> Node {
        var members: [(String, Node)] = []
        let statuses = plan.operation.responses.map(\.status)
        if !statuses.isEmpty, !statuses.contains("default") {
            let nodes = statuses.compactMap { status in
                Int(status).map { (100...599).contains($0) } == true
                    ? Node(.number(status)) : Self.classes.contains(status) ? Node.text(status) : nil
            }
            if nodes.count == statuses.count { members.append(("statuses", .array(nodes))) }
        }
        let parameters = plan.properties.filter {
            [.query, .body].contains($0.location) && !$0.property.member.isEmpty
        }
        .map(\.property)
        if !parameters.isEmpty {
            let types = parameters.map { property in
                // Nobody has to be asked for the only value, and `null` is a value too.
                let isNeeded = property.isRequired && property.constant == nil
                let word = isNeeded && property.isNullable ? "any" : word(for: property.type)
                return (property.member, Node.text(word + (isNeeded ? "" : "?")))
            }
            members.append(("parameters", .object(types)))
        }
        return .object(members)
    }

    private static let classes = ["1XX", "2XX", "3XX", "4XX", "5XX"]

    private static func word(for type: SwiftType) -> String {
        switch TypeMaker.kind(of: type) {
        case .object: "object"
        case .array: "array"
        case .string: "string"
        case .integer: "integer"
        case .number: "number"
        case .bool: "boolean"
        case .any: "any"
        }
    }

    /// The first scheme of the first set. An operation that may be called without one has none.
    static func authenticator(_ security: [[String]]) -> Node {
        guard !security.contains(where: \.isEmpty), let name = security.first?.first else { return Node(.null) }
        return .text(name)
    }

    private static func addQuery(to plan: inout EntityPlan, _ warn: (String) -> Void) {
        let parameters = plan.members.filter { $0.location == .query }
        let isInQuery = ["GET", "HEAD", "DELETE"].contains(plan.operation.head.method)
        var names: [Node] = []
        var styles: [(String, Node)] = []
        for member in parameters + plan.properties.filter({ $0.location == .body }) {
            let name = member.property.member
            if member.location == .query, plan.bodyDeclaration != nil { names.append(.text(name)) }
            if let style = style(of: member, in: plan, warn) { styles.append((name, .text(style.rawValue))) }
        }
        var query: [(String, Node)] = []
        // A body that is no object of parameters holds none of them, and may be left out.
        if !isInQuery, plan.bodyDeclaration == nil, !parameters.isEmpty {
            query.append(("takesAll", Node(.bool(true))))
        }
        if !names.isEmpty { query.append(("names", .array(names))) }
        if !styles.isEmpty { query.append(("styles", .object(styles))) }
        if !query.isEmpty { plan.settings.append(("query", .object(query))) }
    }

    /// How an array or an object is written, where that is not the rule of the domain, `repeated`, or of all objects,
    /// `brackets`.
    private static func style(
        of member: EntityPlan.Member, in plan: EntityPlan, _ warn: (String) -> Void
    ) -> Parameter.Style? {
        let name = member.property.member
        let kind = TypeMaker.kind(of: member.property.type)
        var style: Parameter.Style?
        if member.location == .query {
            let parameter = plan.operation.parameters.first {
                $0.location == .query && $0.spot.key == member.property.spot?.key
            }
            style = parameter?.style ?? (kind == .array ? parameter?.standardStyle : nil)
            if style == nil, kind == .object {
                warn(
                    "the document does not say how the object \(name) is written: it is \(name)[member]=value; for "
                        + "member=value, set query.styles of its row to repeated")
            }
            if kind == .array, parameter?.name.hasSuffix("[]") == true { style = .brackets }
        } else if let styles = plan.formStyles {
            // An object is a part of JSON; a list whose name has brackets needs no more of them.
            style = styles[name] ?? (plan.body == .multipart && kind == .object ? .json : nil)
            if style == .brackets, name.hasSuffix("[]") { style = nil }
        }
        switch kind {
        case .object: return style == .brackets ? nil : style
        case .array, .any: return style == .repeated ? nil : style
        case .string, .integer, .number, .bool: return nil
        }
    }

    /// How a list is read page by page: by the field `Link`, or a member that has the address or the cursor of the next one.
    private static func pages(of plan: EntityPlan) -> Node? {
        guard plan.operation.head.method == "GET" else { return nil }
        if plan.operation.responses.contains(where: {
            $0.isSuccess && $0.headers.contains { $0.lowercased() == "link" }
        }) {
            return .text("link")
        }
        guard case .named(let model) = plan.model, case .object = model.kind else { return nil }
        let hasList = model.properties.contains { if case .array = $0.type { true } else { false } }
        guard hasList else { return nil }
        func members(_ declaration: Declaration, _ path: String, _ depth: Int) -> [(path: String, type: SwiftType)] {
            declaration.properties.flatMap { property -> [(path: String, type: SwiftType)] in
                let name = path + property.member
                if depth < 2, case .named(let inner) = property.type, case .object = inner.kind {
                    return members(inner, name + ".", depth + 1)
                }
                return [(name, property.type)]
            }
        }
        let all = members(model, "", 0)
        let query = plan.members.filter { $0.location == .query }.map(\.property.member)
        for (path, type) in all {
            let last = path.split(separator: ".").last.map { $0.lowercased().filter { $0.isLetter } } ?? ""
            if type.isAddress, ["next", "nexturl", "nextlink", "nextpageurl"].contains(last),
                type.isURL || last != "next"
            {
                return .object([("address", .text(path))])
            }
            let cursors = [
                "nextcursor": ["cursor", "after"], "nextpagetoken": ["page_token", "pageToken"],
                "nexttoken": ["next_token", "nextToken"],
            ]
            if let parameter = cursors[last]?.first(where: query.contains) {
                return .object([("cursor", .text(path)), ("parameter", .text(parameter))])
            }
        }
        return nil
    }

    /// How a job is followed: 202 with the address to ask in a field, or in the body beside the state; or a request that is sent
    /// again while it is answered with 202.
    private static func poll(of plan: EntityPlan) -> Node? {
        guard let accepted = plan.operation.responses.first(where: { $0.status == "202" }) else { return nil }
        let fields = ["location", "operation-location", "azure-asyncoperation"]
        if let field = accepted.headers.first(where: { fields.contains($0.lowercased()) }) {
            return field.lowercased() == "location" ? .text("location") : .object([("header", .text(field))])
        }
        let isSafe = ["GET", "HEAD", "QUERY"].contains(plan.operation.head.method)
        if isSafe { return plan.operation.responses.contains { $0.status == "200" } ? .text("location") : nil }
        guard case .named(let model) = plan.model, case .object = model.kind else { return nil }
        let addresses: Set<String> = [
            "statusurl", "statusuri", "statuslink", "pollurl", "pollingurl", "operationurl", "joburl", "monitorurl",
        ]
        func isAddress(_ property: Property) -> Bool {
            property.type.isAddress
                && addresses.contains(property.member.lowercased().filter(\.isLetter))
        }
        guard let address = model.properties.first(where: isAddress) else { return nil }
        // The usual words for the end of a job are those of `poll`.
        let state = model.properties.first { property in
            guard ["status", "state"].contains(property.member.lowercased()), case .named(let type) = property.type,
                case .openEnum(let shape) = type.kind
            else { return false }
            return shape.cases.contains { Polling.location.hasSucceeded(.string($0.name)) == true }
        }
        return .object(
            (state.map { [("status", Node.text($0.member))] } ?? []) + [("address", .text(address.member))])
    }

    /// The rows of the domain.
    static func domain(_ api: API, warn: (String) -> Void) -> Node {
        var members: [(String, Node)] = []
        let base = api.servers.first.map { address(of: $0) }
        var others: [(String, String)] = []
        var names = NameSet()
        for server in api.servers.dropFirst() where server.url.contains("://") && address(of: server) != base {
            let words = SwiftName.member(
                server.description.map { SwiftName.words($0).prefix(2).joined(separator: " ") } ?? "server")
            others.append((names.claim(words), address(of: server)))
        }
        if base == nil
            || base?.hasPrefix("http://localhost") == true
                && !api.servers.contains(where: { $0.url.hasPrefix("http://localhost") })
        {
            warn("the document has no absolute address; set baseURL of the domain in the table")
        }
        members.append(("baseURL", .text(base ?? "http://localhost")))
        if !others.isEmpty { members.append(("environments", .object(others.map { ($0.0, .text($0.1)) }))) }
        if let security = api.security, !authenticator(security).isNull {
            members.append(("authenticator", authenticator(security)))
        }
        let secrets = api.schemes.compactMap(\.header).filter { $0.lowercased() != "authorization" }
        if !secrets.isEmpty { members.append(("secretHeaders", .array(secrets.map(Node.text)))) }
        members.append(("query", .object([("arrays", .text("repeated"))])))
        return .object(members)
    }

    static func row(_ plan: EntityPlan, domain: String) -> Node {
        .object(
            [("domain", .text(domain)), ("path", .text(plan.path)), ("method", .text(plan.operation.head.method))]
                + joined(plan.settings))
    }

    /// Members that occur twice, such as `headers`, are one.
    private static func joined(_ settings: [(String, Node)]) -> [(String, Node)] {
        var list: [(String, Node)] = []
        for (name, value) in settings {
            guard let known = list.firstIndex(where: { $0.0 == name }), let new = value.members,
                let old = list[known].1.members
            else {
                list.append((name, value))
                continue
            }
            list[known].1 = .object(zip(old.names + new.names, old.values + new.values).map { ($0, $1) })
        }
        return list
    }
}
