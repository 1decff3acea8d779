import HTTPCore

/// A key of the rows of a table: its name, the setting that it sets, and the kind of its value. Reading, merging, explaining
/// and comparing rows, the JSON schema and the table of keys in the documentation are made from this list.
package struct RowKey: Sendable {
    typealias Settings = DomainTable.RouteSettings

    /// The name, such as `timeout`, or `retry.firstWait` for a member of an object.
    package let name: String
    /// The object that it is a member of; `nil` for a key of the row itself.
    package let group: TableKey.Place?
    /// The name without that of the object.
    package let member: String
    /// What a value means, as documentation.
    package let meaning: String
    /// The notation of a value.
    package let form: ValueForm
    /// The name under which the origin of the value is kept: that of another key, where two set the same.
    let settingName: String
    /// Reads a value, and returns whether it was valid.
    let read: @Sendable (inout TableReader, JSON5Node, inout Settings) -> Bool
    let isSet: @Sendable (Settings) -> Bool
    /// Copies the value of the second settings to the first.
    let copy: @Sendable (inout Settings, Settings) -> Void
    let areEqual: @Sendable (Settings, Settings) -> Bool
    /// The value as `explain` shows it.
    let text: @Sendable (Settings) -> String

    /// Whether another key is the name of its setting.
    package var isShort: Bool { settingName != name }

    /// A key of a setting that is `nil` where it is not set.
    private init<Value>(
        _ name: String, _ path: WritableKeyPath<Settings, Value?> & Sendable, _ kind: ValueKind<Value>,
        sameAs other: String? = nil, _ meaning: String
    ) {
        self.init(
            name, path, kind.form, other, meaning, read: { kind.read(&$0, $1, $2).map(Optional.some) },
            text: { $0.map(kind.text) ?? "" })
    }

    /// A key of a setting with a value of its own for "not set".
    private init<Value: Setting>(
        _ name: String, _ path: WritableKeyPath<Settings, Value> & Sendable, _ kind: ValueKind<Value>, _ meaning: String
    ) {
        self.init(name, path, kind.form, nil, meaning, read: kind.read, text: kind.text)
    }

    private init<Value: Setting>(
        _ name: String, _ path: WritableKeyPath<Settings, Value> & Sendable, _ form: ValueForm, _ other: String?,
        _ meaning: String, read: @escaping @Sendable (inout TableReader, JSON5Node, String) -> Value?,
        text: @escaping @Sendable (Value) -> String
    ) {
        let steps = name.split(separator: ".").map(String.init)
        let member = steps.last ?? name
        self.name = name
        group = steps.count > 1 ? TableKey.Place(rawValue: steps[0]) : nil
        self.member = member
        self.meaning = meaning
        self.form = form
        settingName = other ?? name
        self.read = { reader, node, settings in
            guard let value = read(&reader, node, member) else { return false }
            settings[keyPath: path] = value
            return true
        }
        isSet = { $0[keyPath: path].isSet }
        copy = { $0[keyPath: path] = $1[keyPath: path] }
        areEqual = { $0[keyPath: path] == $1[keyPath: path] }
        self.text = { text($0[keyPath: path]) }
    }

    /// All keys but `headers`, `parameters` and `secretHeaders`, whose values of several rows are joined.
    package static let all: [RowKey] = [
        RowKey("timeout", \.options.timeout, .duration(), "The longest time of the whole transfer."),
        RowKey("connectTimeout", \.options.connectTimeout, .duration(), "The longest time to connect, TLS included."),
        RowKey("idleTimeout", \.options.idleTimeout, .duration(), "The longest silence on an open connection."),
        RowKey(
            "deadline", \.options.deadline, .duration(), "The longest time of the whole call, repetitions included."),
        RowKey(
            "maxConnectionsPerHost", \.options.maxConnectionsPerHost, .integer(1...10_000),
            "The largest number of connections to one host."),
        RowKey(
            "addresses", \.options.addresses, ValueKind.word(RequestOptions.Addresses.self),
            "Which address of a name a new connection goes to."),
        RowKey(
            "retries", \.options.retries, .integer(0...100),
            "How often a request is repeated, in the cases that `retry` names."),
        RowKey(
            "retry.retries", \.options.retries, .integer(0...100), sameAs: "retries",
            "The same as `retries` of the row."),
        RowKey("retry.statuses", \.retry.statuses, .statuses, "The statuses after which a request is repeated."),
        RowKey(
            "retry.problems", \.retry.problems, .names(#"the type of a problem, such as "https://h/problems/busy""#),
            "The types of problems (RFC 9457) after which a request is repeated."),
        RowKey("retry.firstWait", \.retry.firstWait, .duration(), "The upper bound of the first wait, which doubles."),
        RowKey("retry.longestWait", \.retry.longestWait, .duration(), "The largest upper bound of a wait."),
        RowKey(
            "retry.longestRetryAfter", \.retry.longestRetryAfter, .duration(isZeroAllowed: true),
            "The longest `Retry-After` that is waited for; `\"0s\"` ignores the field."),
        RowKey(
            "retry.repeatsOnlyIdempotent", \.retry.repeatsOnlyIdempotent, .flag,
            "Whether only idempotent requests are repeated."),
        RowKey(
            "hedge", \.options.hedge, .hedge,
            "When a safe request that takes long is sent a second time, so that the faster response counts."),
        RowKey("events.reconnect", \.events.reconnect, .flag, "Whether a lost stream of a GET is opened again."),
        RowKey(
            "events.firstWait", \.events.firstWait, .duration(), "The upper bound of the first wait, which doubles."),
        RowKey("events.longestWait", \.events.longestWait, .duration(), "The largest upper bound of a wait."),
        RowKey(
            "events.attempts", \.events.attempts, .integer(1...1_000_000),
            "How many attempts in a row may bring no event."),
        RowKey("events.statuses", \.events.statuses, .statuses, "The statuses after which another attempt is made."),
        RowKey(
            "events.endsAt", \.events.endsAt,
            .name(#"the data of an event that ends the stream, such as "[DONE]""#, QuotedText.of),
            "The data of the event that ends the stream, or its type."),
        RowKey(
            "events.eventLimit", \.events.eventLimit, .integer(1...1_073_741_824),
            "The largest size of an event, in bytes."),
        RowKey(
            "query.arrays", \.query.arrays, ValueKind.word(ParameterEncoding.Arrays.self),
            "How arrays are written in query and forms: `ids[]=1`, `ids=1&ids=2`, `ids=1,2` and so on."),
        RowKey(
            "query.styles", \.query.styles, .styles,
            "The same for single parameters, arrays and objects: `filter[a]=1`, `a=1`, `filter=a,1` and so on."),
        RowKey(
            "query.names", \.query.names, .names("the name of a parameter"),
            "Parameters that go into the query although the method has a body."),
        RowKey(
            "query.takesAll", \.query.takesAll, .flag,
            "Whether all parameters go into the query, and there is no body of parameters."),
        RowKey(
            "limits", \.limits, .limits,
            "The limits of each domain, or of the calls of one server row, in addition to the manager's."),
        RowKey(
            "circuit", \.circuit, .circuit,
            "When requests to a failing host are held back, in place of the manager's circuit breaker."),
        RowKey(
            "documented.statuses", \.documented.statuses, .documentedStatuses,
            "The statuses that the document has. Another one is an event for observers, `undocumentedStatus`."),
        RowKey(
            "documented.parameters", \.documented.parameters, .documentedParameters,
            "The parameters of query and body, which `lat start` completes and asks for."),
        RowKey("cache", \.cache, ValueKind.word(DomainTable.RouteSettings.CacheChoice.self), "How the cache is used."),
        RowKey(
            "staleAfter", \.options.staleAfter, .duration(),
            "For `\"http\"`: after what time a stale stored response is delivered instead of waiting for the network."),
        RowKey(
            "cacheStatus", \.options.cacheStatus, .cacheStatus,
            "The name under which the cache adds itself to `Cache-Status` of responses."),
        RowKey(
            "usesDictionaries", \.options.usesDictionaries, .flag,
            "For `\"http\"`: whether stored responses serve as compression dictionaries (RFC 9842)."),
        RowKey("ttl", \.ttl, .timeToLive, "For `\"cacheElseNetwork\"`: how long a stored response may be used."),
        RowKey(
            "parameterEncoding", \.options.parameterEncoding, ValueKind.word(ParameterEncoding.self),
            "How parameters are encoded as a body."),
        RowKey("dates", \.dates, .dates, "How dates are written and read."),
        RowKey(
            "keys", \.keys, ValueKind.word(Coding.Keys.self),
            "How the names of properties become the names of members: `userName` is `user_name` with `\"snakeCase\"`."),
        RowKey(
            "decimals", \.decimals, ValueKind.word(Coding.Decimals.self),
            "How `Decimal` is written and read: as a number, or as a text that keeps its digits."),
        RowKey("proxy", \.options.proxy, .proxy, "The proxy."),
        RowKey(
            "tls.caFile", \.tls.caFile, .file("the path of a PEM file of trusted certificates"),
            "A PEM file of trusted certificates, in place of the system's."),
        RowKey(
            "tls.clientCertificate", \.tls.clientCertificate, .clientCertificate,
            "The certificate with which the client identifies itself."),
        RowKey("tls.minimumVersion", \.tls.minimumVersion, .tlsVersion, "The oldest version that is offered."),
        RowKey(
            "tls.crlFile", \.tls.crlFile, .file("the path of a PEM file of revocation lists"),
            "A file of revocation lists (CRLs) with which certificates are checked."),
        RowKey(
            "tls.crlURL", \.tls.crlURL, .listAddress,
            "The URL of the revocation list, in place of those that the certificates name."),
        RowKey(
            "tls.revocation", \.tls.revocation, ValueKind.word(HTTPRequest.TLS.Revocation.self),
            "Whether certificates are checked for revocation, and refused (`hard`) if they cannot be."),
        RowKey("tls.pins", \.tls.pins, .pins, "The public keys that the server's certificate may have."),
        RowKey(
            "digests.checks", \.options.digests.checks, .flag,
            "Whether bodies are compared with the digests of their responses (RFC 9530)."),
        RowKey(
            "digests.sends", \.options.digests.sends, ValueKind.word(RequestOptions.Digests.Algorithm.self),
            "The function of the `Content-Digest` that is sent with a body."),
        RowKey(
            "digests.wants", \.options.digests.wants, ValueKind.word(RequestOptions.Digests.Algorithm.self),
            "The function of the digest that the server is asked for."),
        RowKey("redirects", \.options.redirects, .redirects, "Whether redirects are followed, and how many."),
        RowKey("chaos", \.options.chaos, .chaos, "The faults that are made on purpose in staging."),
        RowKey("simulation", \.simulation, .simulation, "Where responses come from instead of the server."),
        RowKey("envelope", \.envelope, .envelope, "Where a response says whether the call has succeeded."),
        RowKey("errors", \.errors, .errors, "Where a response that is not a success reports its failure."),
        RowKey("pages", \.pages, .pages, "Where a page of a list says which one is next."),
        RowKey("poll", \.poll, .poll, "How a job that takes longer than a request is followed to its end."),
        RowKey("uploads", \.uploads, .uploads, "How a file is uploaded so that the upload can go on after a failure."),
        RowKey(
            "volatileParameters", \.volatileParameters, .names("the name of a parameter"),
            "Parameters that do not distinguish requests in the cache."),
        RowKey(
            "cachePartition", \.options.cachePartition, .name("the name of a cache partition"),
            "The user whose responses are stored and found."),
        RowKey(
            "authenticator", \.options.authenticator, .authenticator,
            "A key of `configuration.authenticators`: who puts a token on requests."),
        RowKey(
            "oauth2", \.oauth2, .oauth2,
            "How tokens are got by OAuth 2.0, in place of the manager's authenticator."),
        RowKey(
            "sealing", \.options.sealing, .sealer,
            "A key of `configuration.sealers`: who seals requests and opens responses."),
        RowKey(
            "signer", \.options.signer, .signer, "A key of `configuration.signers`: who signs requests."),
        RowKey("contentCoding", \.options.contentCoding, .contentCoding, "The coding in which bodies are sent."),
    ]

    /// The short form of `tls.pins` in a domain.
    static let pinsOfDomain = RowKey("pins", \.tls.pins, .pins, sameAs: "tls.pins", "Short for `tls.pins`.")

    private static let named = Dictionary(all.map { ($0.name, $0) }) { first, _ in first }

    /// Former names of keys, which are still read.
    static let formerNames = ["compressBody": "contentCoding", "simulate": "simulation", "sealer": "sealing"]

    private static let byGroup = Dictionary(grouping: all, by: \.group)

    /// The members of an object, or the keys of the row itself for `nil`.
    static func members(of group: TableKey.Place?) -> [RowKey] { byGroup[group] ?? [] }

    static subscript(name: String) -> RowKey? { named[name] }

    /// The names in a row: those of keys and objects, in the order of the list.
    package static let names: [String] = all.reduce(into: []) { names, key in
        let name = key.group?.rawValue ?? key.name
        if names.last != name { names.append(name) }
    }
}
