public import HTTPCore

/// Rows that the program sets. They override the file's rows, also when the file changes, until they are discarded.
extension DomainTable {
    /// Sends all calls to a domain to another base URL, whatever the environment; the row's mirrors are then not used.
    /// `nil` restores the file's URL.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` for a domain that is not in the table,
    ///   ``NetworkError/Kind/invalidRequest`` for an invalid base URL. The table is then unchanged.
    public mutating func setBaseURL(_ url: String?, forDomain name: DomainName) throws(NetworkError) {
        _ = try domain(name)
        if let url { try Self.checkAddress(url, "the base URL of \"\(name)\"") }
        change { $0.baseURLs[name] = url }
    }

    /// Adds a row of `domains`, or replaces the one of this name.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for an invalid address, pin or header; nothing changes then.
    public mutating func setDomain(_ name: DomainName, _ row: DomainRow) throws(NetworkError) {
        guard let base = row.baseURL else {
            throw .invalidRequest("the domain \"\(name)\" has no base URL; set row.baseURL")
        }
        try Self.checkAddress(base, "the base URL of \"\(name)\"")
        for url in row.mirrors ?? [] { try Self.checkAddress(url, "a mirror of \"\(name)\"") }
        for (environment, urls) in row.environments {
            guard !urls.isEmpty else {
                throw .invalidRequest("the environment \"\(environment)\" of \"\(name)\" has no URL; give one")
            }
            for url in urls { try Self.checkAddress(url, "the environment \"\(environment)\" of \"\(name)\"") }
        }
        try Self.check(row.settings, of: "the domain \"\(name)\"")
        try checkFaults(row.settings, of: "the domain \"\(name)\"")
        change { Self.set(row, of: name, in: &$0.domains) }
    }

    /// Adds a row of `servers`, or replaces the one of this name.
    ///
    /// - Throws: ``NetworkError/Kind/unknownName`` for a domain that is not in the table,
    ///   ``NetworkError/Kind/invalidRequest`` for an invalid path, method or header. The table is then unchanged.
    public mutating func setServer(_ name: ServerName, _ row: ServerRow) throws(NetworkError) {
        guard let domain = row.domain, let path = row.path else {
            throw .invalidRequest("the server \"\(name)\" needs a domain and a path; set row.domain and row.path")
        }
        _ = try self.domain(domain)
        do throws(PathTemplate.Problem) {
            _ = try PathTemplate(path)
        } catch {
            throw .invalidRequest("the path \(QuotedText.of(path)) of \"\(name)\" cannot be used: \(error.reason)")
        }
        if HTTPAddress.isAbsolute(path) {
            guard row.allowsAbsolute == true else {
                throw .invalidRequest(
                    "the path \(QuotedText.of(path)) of \"\(name)\" is an absolute URL and would leave the domain; "
                        + "give a path, or set row.allowsAbsolute")
            }
            try Self.checkAddress(String(path.prefix { $0 != "{" }), "the path of \"\(name)\"")
        }
        if let method = row.method, !method.isToken {
            throw .invalidRequest(
                "the method \(QuotedText.of(method.rawValue)) of \"\(name)\" is not a token; use letters, such as GET")
        }
        try Self.check(row.settings, of: "the server \"\(name)\"")
        try checkFaults(row.settings, of: "the server \"\(name)\"")
        change { Self.set(row, of: name, in: &$0.servers) }
    }

    /// Removes a row of `domains`. Its servers stay, and throw ``NetworkError/Kind/unknownName`` when resolved.
    public mutating func removeDomain(_ name: DomainName) {
        change { contents in
            Self.set(nil, of: name, in: &contents.domains)
            contents.baseURLs[name] = nil
        }
    }

    /// Removes a row of `servers`.
    public mutating func removeServer(_ name: ServerName) {
        change { Self.set(nil, of: name, in: &$0.servers) }
    }

    /// - Parameter row: `nil` for a removed row.
    private static func set<Name: Equatable, Row>(
        _ row: Row?, of name: Name, in edits: inout [(name: Name, row: Row?)]
    ) {
        edits.removeAll { $0.name == name }
        edits.append((name, row))
    }

    /// The settings of all rows: those of the file's `defaults`, unless set in code.
    public var defaults: RouteSettings {
        get { current.defaults }
        set { change { $0.defaults = newValue } }
    }

    /// Discards everything that was set in code. The environment becomes that of the process again (`LAT_ENVIRONMENT`), or none.
    public mutating func discardChanges() {
        change { contents in
            contents.defaults = nil
            contents.domains = []
            contents.servers = []
            contents.baseURLs = [:]
            contents.environment = Tracked(Self.environmentOfProcess, from: .variable(Self.environmentVariable))
        }
    }

    private static func checkAddress(_ url: String, _ what: String) throws(NetworkError) {
        do throws(HTTPAddress.Problem) {
            _ = try HTTPAddress(url)
        } catch {
            let suggestion = error.suggestion.map { "; did you mean \(QuotedText.of($0))?" } ?? ""
            throw .invalidRequest(
                "\(what) must be \(HTTPAddress.expectation); \(QuotedText.of(url)) \(error.reason)\(suggestion)")
        }
    }

    package static func check(_ settings: RouteSettings, of what: String) throws(NetworkError) {
        if case .pattern(let text) = settings.dates {
            do throws(DatePattern.Problem) {
                _ = try DatePattern(text)
            } catch {
                throw .invalidRequest("\(error.reason) (`dates` of \(what))")
            }
        }
        if let limit = settings.maxConnectionsPerHost, limit < 1 {
            throw .invalidRequest("maxConnectionsPerHost of \(what) is \(limit); give 1 or more")
        }
        try settings.limits?.check(of: what)
        try settings.hedge?.check("the hedge of \(what)")
        try settings.chaos?.check("chaos of \(what)")
        if case .breaker(let policy) = settings.circuit { try policy.check("the circuit of \(what)") }
        try RetryPolicy(
            retries: settings.retries ?? 0, firstWait: settings.retry.firstWait ?? .zero,
            longestWait: settings.retry.longestWait ?? .zero,
            longestRetryAfter: settings.retry.longestRetryAfter ?? .zero
        ).check("retry of \(what)")
        for pin in settings.tls.pins ?? [] where !HTTPText.isPin(pin) {
            throw .invalidRequest(
                "a pin of \(what) is \(QuotedText.of(pin)); expected \"sha256//\" and the Base64 of 32 bytes")
        }
        for field in settings.headers.fields {
            guard HTTPText.isToken(field.name) else {
                throw .invalidRequest(
                    "\(QuotedText.of(field.name)) of \(what) is not the name of a header; use letters, digits and hyphens"
                )
            }
            guard HTTPText.isFieldValue(field.value ?? "") else {
                throw .invalidRequest(
                    "the header \"\(field.name)\" of \(what) holds a control character; remove or encode it")
            }
        }
    }
}
