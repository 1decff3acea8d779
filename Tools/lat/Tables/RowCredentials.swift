import DomainTables
import LATNetworking

extension DomainTable {
    /// Turns the authenticator of a row off if a secret header field is given in its place, also that of `oauth2`.
    ///
    /// - Throws: ``UsageError`` for a call that needs an authenticator or a sealer, because only a program has those.
    /// - Returns: whether the table was changed.
    @discardableResult
    mutating func replaceAuthenticator(
        of server: String, _ route: ResolvedRoute, by headers: HTTPHeaders
    ) throws(UsageError) -> Bool {
        let settings = route.settings
        func place(_ key: String) -> String { settings.origin(of: key)?.description ?? "code" }
        if case .sealed(let name) = settings.sealing {
            throw UsageError(
                "\"\(server)\" is sealed by the sealer \"\(name)\" (\(place("sealing"))), whose keys only the program has; "
                    + "make this call in the program, or set sealing: null in a copy of the table and name it with --table"
            )
        }
        let hasToken = headers.contains { route.secrets.contains(header: $0.name) }
        guard case .named(let name) = settings.authenticator else {
            guard settings.oauth2 != nil, hasToken else { return false }
            try turnAuthenticatorOff(of: server)
            return true
        }
        guard hasToken else {
            throw UsageError(
                "\"\(server)\" gets its token from the authenticator \"\(name)\" (\(place("authenticator"))), which only the "
                    + "program has; give a token with -H \"Authorization: Bearer TOKEN\"")
        }
        try turnAuthenticatorOff(of: server)
        return true
    }

    private mutating func turnAuthenticatorOff(of server: String) throws(UsageError) {
        var row = try UsageError.checked(self.server(ServerName(server)))
        row.settings.authenticator = .off
        try UsageError.checked(setServer(ServerName(server), row))
    }
}

extension DomainTable.ResolvedRoute {
    /// What must not be shown of a call of the row.
    var secrets: Secrets { Secrets.standard.union(Secrets(headers: settings.secretHeaders ?? [])) }

    /// Whether responses of the row have an envelope.
    var hasEnvelope: Bool { if case .rule = settings.envelope { true } else { false } }
}
