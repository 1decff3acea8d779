import HTTPCore

/// The keys of `oauth2`.
enum OAuth2Keys {
    static let all = [
        "issuer", "tokenURL", "authorizationURL", "deviceURL", "clientID", "secretVariable", "secretFile",
        "clientAuthentication", "grant", "scopes", "parameters", "leeway", "store",
    ]
}

extension ValueKind<DomainTable.OAuth2Rule> {
    static var oauth2: Self {
        ValueKind(
            ValueForm(
                "`{ \(OAuth2Keys.all.joined(separator: ", ")) }`", schema: ##"{ "$ref": "#/$defs/oauth2Rule" }"##,
                durations: [["leeway"]]),
            read: { reader, node, _ in reader.oauth2(node) },
            text: { rule in
                "\(rule.effectiveGrant.rawValue) of \(rule.clientID) at \(HTTPAddress.redacted(rule.place))"
                    + (rule.scopes.isEmpty ? "" : " for \(rule.scopes.joined(separator: " "))")
            })
    }
}

/// The reader of `oauth2`.
extension TableReader {
    mutating func oauth2(_ node: JSON5Node) -> DomainTable.OAuth2Rule? {
        guard let row = fields(of: node, in: .oauth2, called: "\"oauth2\"") else { return nil }
        if row.lacks("clientID") {
            report(
                node.range, "\"oauth2\" lacks \"clientID\"; add the identifier by which the server knows the client",
                expected: "\"clientID\"")
        }
        var rule = DomainTable.OAuth2Rule(
            issuer: address(row["issuer"], "issuer")?.0.value, tokenURL: address(row["tokenURL"], "tokenURL")?.0.value,
            authorizationURL: address(row["authorizationURL"], "authorizationURL")?.0.value,
            deviceURL: address(row["deviceURL"], "deviceURL")?.0.value,
            clientID: name(row["clientID"], "clientID", "the identifier of the client")?.value ?? "")
        if let node = row["secretVariable"],
            let variable = name(node, "secretVariable", "the name of an environment variable")
        {
            checkVariable(variable.value, "secretVariable", node)
            rule.secret = .variable(variable.value)
        }
        if let node = row["secretFile"], let path = name(node, "secretFile", "the path of a file") {
            if rule.secret != nil {
                report(
                    node.range, "\"secretVariable\" and \"secretFile\" both say where the secret is; leave one of them")
            }
            rule.secret = .file(file(path.value, "secretFile", node))
        }
        rule.clientAuthentication =
            choice(
                row["clientAuthentication"], "clientAuthentication", DomainTable.OAuth2Rule.ClientAuthentication.self)?
            .value
        rule.grant = choice(row["grant"], "grant", DomainTable.OAuth2Rule.Grant.self)?.value
        rule.scopes = (texts(row["scopes"], "scopes", each: "the name of a scope") ?? []).map(\.0)
        rule.parameters = oauth2Parameters(row["parameters"])
        if let leeway = duration(row["leeway"], "leeway", isZeroAllowed: true)?.value { rule.leeway = leeway }
        rule.store = choice(row["store"], "store", DomainTable.OAuth2Rule.Store.self)?.value ?? .file
        // A key that could not be read has its own message.
        let isComplete = row.mistyped.isEmpty && !rule.clientID.isEmpty
        if isComplete, !Self.lacksAddress(rule, row), let problem = rule.problem {
            report(node.range, "\"oauth2\": \(problem)")
        }
        return rule
    }

    /// Whether an address is missing because it could not be read.
    private static func lacksAddress(_ rule: DomainTable.OAuth2Rule, _ row: Fields) -> Bool {
        [
            ("issuer", rule.issuer), ("tokenURL", rule.tokenURL), ("authorizationURL", rule.authorizationURL),
            ("deviceURL", rule.deviceURL),
        ].contains { row[$0.0] != nil && $0.1 == nil }
    }

    private mutating func oauth2Parameters(_ node: JSON5Node?) -> [String: String] {
        var parameters: [String: String] = [:]
        for (member, isFirst) in entries(of: node, called: "\"parameters\" of \"oauth2\"", each: "parameter") {
            guard let value = text(member.value, member.key)?.value, isFirst else { continue }
            if Secrets.standard.contains(parameter: member.key) {
                report(
                    member.keyRange,
                    "\(QuotedText.of(member.key)) would be a secret in the table; give it with \"secretVariable\" or \"secretFile\"",
                    found: QuotedText.of(member.key))
            }
            parameters[member.key] = value
        }
        return parameters
    }
}
