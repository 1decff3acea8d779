import DomainTables
import FoundationEssentials
import LATInspect
import LATNetworking

/// `lat login DOMAIN`: lets a user sign in as `oauth2` of a domain says, and keeps the token for later commands.
struct LoginCommand: Command {
    let sign: SignArgument
    let usesBrowser: Bool?
    /// `nil` for that of the browser or of the code.
    let limit: Duration?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        sign = try SignArgument(arguments, Self.name)
        try arguments.refuse(Self.browser, with: Self.device)
        usesBrowser = arguments.contains(Self.browser) ? true : arguments.contains(Self.device) ? false : nil
        limit = try DurationArgument.parse(arguments, of: Self.timeout)
    }

    func run(_ console: Console) async throws -> ExitCode {
        var rule = try sign.rule()
        // A user's token would not be used: the calls of the row get their own by the secret.
        guard rule.effectiveGrant != .clientCredentials else {
            throw UsageError(
                "\"\(sign.domain)\" gets its tokens by the secret of its client (clientCredentials), so that nobody has to "
                    + "sign in; call it with lat start, or write grant: \"deviceCode\" for a user who signs in")
        }
        let isInBrowser = usesBrowser ?? (rule.effectiveGrant == .authorizationCode)
        rule.grant = isInBrowser ? .authorizationCode : .deviceCode
        do {
            let oauth = try OAuth2(rule, store: OAuth2.store(for: rule))
            let manager = try sign.manager()
            if isInBrowser {
                try await oauth.signInWithBrowser(on: manager, within: limit ?? .seconds(300)) { url in
                    console.note("Open this page in a browser of this machine:\n\n  \(SafeText.line(url))\n")
                }
            } else {
                try await oauth.signInWithDeviceCode(on: manager, within: limit) { prompt in
                    console.note(
                        "Open \(SafeText.line(prompt.url)) and enter the code \(SafeText.line(prompt.userCode)).")
                    if let url = prompt.completeURL { console.note("Or open \(SafeText.line(url))") }
                }
            }
            try console.print(Self.words(sign.domain, oauth.token))
            return .success
        } catch let error as NetworkError {
            guard error.kind != .cancelled else { return .interrupted }
            return console.fail(error, sign.arguments)
        }
    }

    private static func words(_ domain: String, _ token: OAuth2.Token?) -> String {
        let end = token?.expires.map { " until \($0.formatted(.iso8601))" } ?? ""
        let renewal = token?.refresh == nil ? "; there is no refresh token, so sign in again then" : ""
        return "signed in to \(domain)\(end)\(renewal)"
    }

    static let name = "login"
    static let summary = "Signs in to a domain, and keeps its token for later commands."
    static let usage = "DOMAIN [options]"
    static let device = Option("--device", help: "Shows a code to enter in a browser anywhere (RFC 8628).")
    static let browser = Option(
        "--browser", help: "Waits for a browser of this machine, on a port of 127.0.0.1 (RFC 8252).")
    static let timeout = Option(
        "--timeout", value: "TIME",
        help: "How long to wait for the user. Default: 5m for a browser, and until the code expires for a code.")
    static let options = [TableArgument.table, TableArgument.environment, device, browser, timeout, Option.authority]

    static func operandKind(after operands: [String]) -> ValueKind { operands.isEmpty ? .domain : .text }

    static let details = """
        The key oauth2 of the domain names the server and the client. The grant of the
        table decides how to sign in, unless --device or --browser does. The token is in
        a file that only you can read, in $XDG_STATE_HOME/latnetworking/tokens, or in the
        keyring of the desktop (store: "secretService" in oauth2), and is renewed when it
        ends. lat start uses it, and so does a program with this table.

        Examples
          lat login shop
          lat login shop --browser --table Config/domains.json5

        Exit codes: 0 success, 2 the command line or the table cannot be used, 3 the
        server refused or did not respond, 130 interrupted.
        """
}

/// `lat logout DOMAIN`: forgets the token of a domain.
struct LogoutCommand: Command {
    let sign: SignArgument

    init(_ arguments: ParsedArguments) throws(UsageError) { sign = try SignArgument(arguments, Self.name) }

    func run(_ console: Console) async throws -> ExitCode {
        let rule = try sign.rule()
        do {
            let store = try OAuth2.store(for: rule)
            guard try await store.token() != nil else {
                try console.print("there is no token of \(sign.domain)")
                return .success
            }
            let isRevoked = try await OAuth2(rule, store: store).signOut(on: sign.manager())
            try console.print(
                isRevoked
                    ? "signed out of \(sign.domain)"
                    : "signed out of \(sign.domain); the server was not told, so that the token is valid there until its end"
            )
            return .success
        } catch let error as NetworkError {
            return console.fail(error, sign.arguments)
        }
    }

    static let name = "logout"
    static let summary = "Forgets the token of a domain."
    static let usage = "DOMAIN [options]"
    static let options = [TableArgument.table, TableArgument.environment, Option.authority]

    static func operandKind(after operands: [String]) -> ValueKind { operands.isEmpty ? .domain : .text }

    static let details = """
        Removes the token from its store, and revokes it at the server if the server can
        (RFC 7009).

        Example
          lat logout shop

        Exit codes: 0 success, 2 the command line or the table cannot be used, 3 the token
        cannot be removed.
        """
}

/// The domain to sign in to.
struct SignArgument: Sendable {
    let domain: String
    let table: TableArgument
    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments, _ command: String) throws(UsageError) {
        guard let domain = arguments.operands.first else {
            throw UsageError("DOMAIN is missing; write lat \(command) DOMAIN, a name under domains in the table")
        }
        try UsageError.refuse(arguments.operands, after: 1, "write lat \(command) DOMAIN")
        self.domain = domain
        self.arguments = arguments
        table = try TableArgument(arguments)
    }

    /// The settings of the domain.
    ///
    /// - Throws: ``TableProblem``; ``UsageError`` for an unknown domain, and one without such settings.
    func rule() throws -> DomainTable.OAuth2Rule {
        let table = try table.read()
        let route = try UsageError.checked(table.resolve(domain: DomainName(domain), path: "/"))
        guard let rule = route.settings.oauth2 else {
            throw UsageError(
                "\"\(SafeText.line(domain))\" in \(table.name) does not say how to sign in; add oauth2: { issuer: "
                    + "\"https://…\", clientID: \"…\" } to it")
        }
        return rule
    }

    func manager() throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration.inspected
        configuration.headers = RequestSettings.headers
        if let authority = arguments.value(Option.authority) { configuration.tls.caFile = authority }
        configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
        return try CentralRequestManager(configuration: configuration)
    }
}
