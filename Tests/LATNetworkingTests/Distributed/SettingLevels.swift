import DomainTables
import FoundationEssentials
import Testing

@testable import LATClient

typealias ManagerConfiguration = CentralRequestManager.Configuration

/// Where a setting may be set. Each level wins over those before it.
enum Level: Int, CaseIterable {
    case manager, defaults, domain, server, entity, call
}

/// A POST of an encoded entity by the row `s`.
struct LeveledCall: RequestEntity, Encodable {
    static let route = Route(server: "s")
    var userName = "ada"
    var day = Date(timeIntervalSince1970: 1_000_000_000)
    var price: Decimal = 9.5
    var options = RequestOptions()

    enum CodingKeys: String, CodingKey { case userName, day, price }
}

/// What a call sent and got.
struct Observation: Sendable {
    var configuration = ManagerConfiguration()
    /// The request as interceptors saw it.
    var intercepted = HTTPRequest("GET", "")
    /// The request as the transport got it.
    var sent = HTTPRequest("GET", "")
    var reply: Reply<JSONValue>?

    var body: String {
        switch sent.body?.content {
        case .data(let data): String(decoding: data, as: UTF8.self)
        case .encoded(let encoder): String(decoding: (try? encoder.encode()) ?? Data(), as: UTF8.self)
        default: ""
        }
    }
}

/// A setting: how each level sets it to a value of its own, and how the effective value is read.
struct LeveledSetting: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The value of each level, as `read` returns it.
    let values: [String]
    /// The settings of `RequestOptions` and the keys of rows that are set.
    var options: Set<String> = []
    var rows: Set<String> = []
    var manager: (@Sendable (inout ManagerConfiguration, Int) -> Void)?
    /// The members of a row.
    var row: (@Sendable (Int) -> String)?
    var entity: (@Sendable (inout RequestOptions, Int) -> Void)?
    var call: (@Sendable (EntityCall<JSONValue>, Int) -> EntityCall<JSONValue>)?
    let read: @Sendable (Observation) -> String

    var levels: [Level] {
        Level.allCases.filter { level in
            switch level {
            case .manager: manager != nil
            case .defaults, .domain, .server: row != nil
            case .entity: entity != nil
            case .call: call != nil
            }
        }
    }

    func rowText(_ level: Level, _ levels: Set<Level>) -> String {
        levels.contains(level) ? row?(level.rawValue) ?? "" : ""
    }
}

extension LeveledSetting {
    /// A setting with a property of `RequestOptions` whose `nil` is "not set here".
    static func option<Value: Sendable>(
        _ name: String, _ path: WritableKeyPath<RequestOptions.Values, Value?> & Sendable, _ values: [Value],
        row: (@Sendable (Value) -> String)? = nil, key: String? = nil,
        manager: (@Sendable (inout ManagerConfiguration, Value) -> Void)? = nil,
        read: @escaping @Sendable (HTTPRequest, ManagerConfiguration) -> Value?
    ) -> LeveledSetting {
        var wrappedRow: (@Sendable (Value?) -> String)?
        if let row { wrappedRow = { value in value.map(row) ?? "" } }
        var wrappedManager: (@Sendable (inout ManagerConfiguration, Value?) -> Void)?
        if let manager {
            wrappedManager = { configuration, value in if let value { manager(&configuration, value) } }
        }
        let optionals: [Value?] = values.map { Optional($0) }
        return .plain(
            name, path, optionals, key: key, row: wrappedRow, manager: wrappedManager,
            read: { (seen: Observation) -> Value? in read(seen.sent, seen.configuration) })
    }

    /// A setting with a property of `RequestOptions` that has a default.
    static func plain<Value: Sendable>(
        _ name: String, _ path: WritableKeyPath<RequestOptions.Values, Value> & Sendable, _ values: [Value],
        key: String? = nil, row: (@Sendable (Value) -> String)? = nil,
        manager: (@Sendable (inout ManagerConfiguration, Value) -> Void)? = nil,
        read: @escaping @Sendable (Observation) -> Value
    ) -> LeveledSetting {
        let values = (0..<6).map { values[$0 % values.count] }
        var setting = LeveledSetting(
            testDescription: name, values: values.map { "\($0)" }, read: { "\(read($0))" })
        setting.options = [name]
        if let row {
            setting.rows = [key ?? name]
            setting.row = { row(values[$0]) }
        }
        if let manager { setting.manager = { manager(&$0, values[$1]) } }
        setting.entity = { options, level in options[dynamicMember: path] = values[level] }
        setting.call = { call, level in call.setting(path, values[level]) }
        return setting
    }

    private static let durations: [Duration] = (1...6).map { .seconds($0 * 10) }
    private static let sizes: [Int64] = (1...6).map { $0 << 20 }
    private static let flags = [false, true]
    private static let trailers = (1...6).map { number in HTTPRequest.Trailers(["X-\(number)"]) { [:] } }

    static let all: [LeveledSetting] = ofConnections + ofTLS + ofCalls + ofContent

    private static let ofConnections: [LeveledSetting] = [
        .option(
            "timeout", \.timeout, durations, row: { "timeout: \"\(DurationText.text($0))\"" },
            manager: { $0.timeout = $1 }, read: { $0.timeout ?? $1.timeout }),
        .option(
            "staleAfter", \.staleAfter, durations, row: { "staleAfter: \"\(DurationText.text($0))\"" },
            manager: { $0.staleAfter = $1 }, read: { $0.staleAfter ?? $1.staleAfter }),
        .option(
            "usesDictionaries", \.usesDictionaries, flags, row: { "usesDictionaries: \($0)" },
            manager: { $0.usesDictionaries = $1 }, read: { $0.usesDictionaries ?? $1.usesDictionaries }),
        .option(
            "chaos", \.chaos, (1...6).map { RequestOptions.Chaos(seed: $0) },
            row: { "chaos: { seed: \($0.seed ?? 0) }" }, manager: { $0.chaos = $1 }, read: { $0.chaos ?? $1.chaos }),
        .option(
            "connectTimeout", \.connectTimeout, durations, row: { "connectTimeout: \"\(DurationText.text($0))\"" },
            manager: { $0.connectTimeout = $1 }, read: { $0.connectTimeout ?? $1.connectTimeout }),
        .option(
            "idleTimeout", \.idleTimeout, durations, row: { "idleTimeout: \"\(DurationText.text($0))\"" },
            manager: { $0.idleTimeout = $1 }, read: { $0.idleTimeout ?? $1.idleTimeout }),
        .option(
            "maxConnectionsPerHost", \.maxConnectionsPerHost, [1, 2, 3, 4, 5, 6],
            row: { "maxConnectionsPerHost: \($0)" },
            manager: { $0.maxConnectionsPerHost = $1 },
            read: { $0.maxConnectionsPerHost ?? $1.maxConnectionsPerHost }),
        .option(
            "addresses", \.addresses, RequestOptions.Addresses.allCases, row: { "addresses: \"\($0.rawValue)\"" },
            manager: { $0.addresses = $1 }, read: { $0.addresses ?? $1.addresses }),
        .option(
            "proxy", \.proxy, (1...6).map { ProxyPolicy.url("http://127.0.0.1:\($0)") },
            row: { if case .url(let url) = $0 { "proxy: \"\(url)\"" } else { "" } },
            manager: { $0.proxy = $1 }, read: { $0.proxy ?? $1.proxy }),
        .plain(
            "version", \.version, [.http1, .http2PriorKnowledge, .http3], manager: { $0.version = $1 },
            read: { $0.sent.version == .automatic ? $0.configuration.version : $0.sent.version }),
        .option(
            "unixSocketPath", \.unixSocketPath, (1...6).map { "/s\($0)" }, manager: { $0.unixSocketPath = $1 },
            read: { $0.unixSocketPath ?? $1.unixSocketPath }),
        .option(
            "maxBodySize", \.maxBodySize, sizes, manager: { $0.maxBodySize = $1 },
            read: { $0.maxBodySize ?? $1.maxBodySize }),
        .option(
            "maxReceiveRate", \.maxReceiveRate, sizes, read: { request, _ in request.maxReceiveRate }),
        .option("maxSendRate", \.maxSendRate, sizes, read: { request, _ in request.maxSendRate }),
        .option(
            "waitsForConnectivity", \.waitsForConnectivity, flags,
            manager: { $0.reachability.waitsForConnectivity = $1 },
            read: { $0.waitsForConnectivity ?? $1.reachability.waitsForConnectivity }),
        .option("decompresses", \.decompresses, flags, read: { request, _ in request.decompresses }),
        digests("digests.checks", \.checks, flags) { "checks: \($0)" },
        digests("digests.sends", \.sends, [.sha256, .sha512]) { "sends: \"\($0.rawValue)\"" },
        digests("digests.wants", \.wants, [.sha256, .sha512]) { "wants: \"\($0.rawValue)\"" },
    ]

    /// A member of `digests`.
    private static func digests<Value: Sendable>(
        _ name: String, _ path: WritableKeyPath<RequestOptions.Digests, Value?> & Sendable, _ values: [Value],
        row: @escaping @Sendable (Value) -> String
    ) -> LeveledSetting {
        let values = (0..<6).map { values[$0 % values.count] }
        var setting = LeveledSetting(testDescription: name, values: values.map { "\($0)" }) { observation in
            observation.sent.digests[keyPath: path].map { "\($0)" } ?? "nil"
        }
        setting.options = ["digests"]
        setting.rows = ["digests"]
        setting.row = { "digests: { \(row(values[$0])) }" }
        setting.entity = { options, level in options.digests[keyPath: path] = values[level] }
        setting.call = { call, level in
            let digests: WritableKeyPath<RequestOptions.Values, RequestOptions.Digests> = \.digests
            let whole = digests.appending(path: path as WritableKeyPath<RequestOptions.Digests, Value?>)
            return call.setting(whole, values[level])
        }
        return setting
    }

    private static let ofTLS: [LeveledSetting] = [
        tls(
            "tls.caFile", \.caFile, (1...6).map { "/ca\($0).pem" }, { "caFile: \"\($0)\"" }, { $0.caFile = $1 },
            { $0.caFile }),
        tls(
            "tls.crlFile", \.crlFile, (1...6).map { "/crl\($0).pem" }, { "crlFile: \"\($0)\"" }, { $0.crlFile = $1 },
            { $0.crlFile }),
        tls(
            "tls.crlURL", \.crlURL, (1...6).map { "http://127.0.0.1:\($0)/crl" }, { "crlURL: \"\($0)\"" },
            { $0.crlURL = $1 }, { $0.crlURL }),
        tls(
            "tls.revocation", \.revocation, [HTTPRequest.TLS.Revocation.off, .soft, .hard],
            { "revocation: \"\($0.rawValue)\"" }, { $0.revocation = $1 }, { $0.revocation }),
        tls(
            "tls.minimumVersion", \.minimumVersion, [TLSVersion.v1_2, .v1_3],
            { "minimumVersion: \"\($0.rawValue.dropFirst(4))\"" }, { $0.minimumVersion = $1 }, { $0.minimumVersion }),
        tls(
            "tls.clientCertificate", \.clientCertificate,
            (1...6).map { ClientCertificate.pkcs12(path: "/\($0).p12", password: "") },
            { if case .pkcs12(let path, _) = $0 { "clientCertificate: { file: \"\(path)\" }" } else { "" } },
            { $0.clientCertificate = $1 }, { $0.clientCertificate }),
        tls(
            "tls.pins", \.pins,
            (1...6).map { ["sha256//" + Data(repeating: $0, count: 32).base64EncodedString()] },
            { "pins: [\"\($0.joined())\"]" }, nil, { _ in nil }),
    ]

    /// A member of `tls`.
    private static func tls<Value: Sendable>(
        _ name: String, _ path: WritableKeyPath<HTTPRequest.TLS, Value?> & Sendable, _ values: [Value],
        _ row: @escaping @Sendable (Value) -> String,
        _ manager: (@Sendable (inout TLSConfiguration, Value) -> Void)?,
        _ ofManager: @escaping @Sendable (TLSConfiguration) -> Value?
    ) -> LeveledSetting {
        let values = (0..<6).map { values[$0 % values.count] }
        var setting = LeveledSetting(testDescription: name, values: values.map { "\($0)" }) { observation in
            let value = observation.sent.tls[keyPath: path] ?? ofManager(observation.configuration.engine.tls)
            return value.map { "\($0)" } ?? "nil"
        }
        setting.options = ["tls"]
        setting.rows = ["tls"]
        if let manager { setting.manager = { manager(&$0.tls, values[$1]) } }
        setting.row = { "tls: { \(row(values[$0])) }" }
        setting.entity = { options, level in options.tls[keyPath: path] = values[level] }
        setting.call = { call, level in
            let tls: WritableKeyPath<RequestOptions.Values, HTTPRequest.TLS> = \.tls
            return call.setting(tls.appending(path: path as WritableKeyPath<HTTPRequest.TLS, Value?>), values[level])
        }
        return setting
    }

    private static let ofCalls: [LeveledSetting] = [
        .option(
            "hedge", \.hedge, (1...6).map { RequestOptions.Hedge(after: .percentile(Double(90 + $0))) },
            row: { hedge in
                if case .percentile(let percentile) = hedge.after { "hedge: { after: \"p\(percentile)\" }" } else { "" }
            }, manager: { $0.hedge = $1 }, read: { $0.hedge ?? $1.hedge }),
        .option(
            "retries", \.retries, [1, 2, 3, 4, 5, 6], row: { "retries: \($0)" }, manager: { $0.retries = $1 },
            read: { $0.retries ?? $1.retries }),
        LeveledSetting(
            testDescription: "retry", values: (1...6).map { "\($0)" }, options: ["retryPolicy"], rows: ["retry"],
            manager: { $0.retryPolicy.longestWait = .seconds($1 + 1) },
            row: { "retry: { longestWait: \"\($0 + 1)s\" }" },
            entity: { $0.retryPolicy = RetryPolicy(longestWait: .seconds($1 + 1)) },
            call: { $0.retryPolicy(RetryPolicy(longestWait: .seconds($1 + 1))) },
            read: { observation in
                let policy = observation.sent.retryPolicy ?? observation.configuration.retryPolicy
                return "\(policy.longestWait.components.seconds)"
            }),
        LeveledSetting(
            testDescription: "retry.retries", values: (1...6).map { "\($0)" }, options: ["retries"], rows: ["retries"],
            manager: { $0.retryPolicy.retries = $1 + 1 }, row: { "retry: { retries: \($0 + 1) }" },
            entity: { $0.retries = $1 + 1 }, call: { $0.retries($1 + 1) },
            read: { "\($0.sent.retries ?? $0.configuration.retryPolicy.retries)" }),
        .plain(
            "redirects", \.redirects, (1...6).map { RedirectPolicy.follow(limit: $0) },
            row: { if case .follow(let limit) = $0 { "redirects: \(limit)" } else { "" } },
            manager: { $0.redirects = $1 },
            read: { $0.sent.redirects == .automatic ? $0.configuration.redirects : $0.sent.redirects }),
        .option(
            "cachePolicy", \.cachePolicy,
            [
                .networkOnly, .writeOnly, .cacheElseNetwork(.fixed(.seconds(300))), .networkElseCache, .http,
                .cacheElseNetwork(.forever),
            ],
            row: { policy in
                switch policy {
                case .writeOnly: #"cache: "writeOnly""#
                case .cacheElseNetwork(.fixed): #"cache: "cacheElseNetwork", ttl: "5m""#
                case .networkElseCache: #"cache: "networkElseCache""#
                default: ""
                }
            }, key: "cache", manager: { $0.cachePolicy = $1 }, read: { $0.cachePolicy ?? $1.cachePolicy }),
        .option(
            "cacheStatus", \.cacheStatus, (1...6).map { "c\($0)" }, row: { "cacheStatus: \"\($0)\"" },
            manager: { $0.cacheStatus = $1 }, read: { $0.cacheStatus ?? $1.cacheStatus }),
        .option(
            "cachePartition", \.cachePartition, (1...6).map { "u\($0)" }, row: { "cachePartition: \"\($0)\"" },
            manager: { $0.cachePartition = $1 }, read: { $0.cachePartition ?? $1.cachePartition }),
        .option(
            "cachesUnsafeMethods", \.cachesUnsafeMethods, flags, manager: { $0.cachesUnsafeMethods = $1 },
            read: { $0.cachesUnsafeMethods ?? $1.cachesUnsafeMethods }),
        .option(
            "duplicates", \.duplicates, [.allow, .coalesce, .reject], manager: { $0.duplicates = $1 },
            read: { $0.duplicates ?? $1.duplicates }),
        .option(
            "deadline", \.deadline, durations, row: { "deadline: \"\(DurationText.text($0))\"" },
            manager: { $0.deadline = $1 }, read: { $0.deadline ?? $1.deadline }),
        .option("priority", \.priority, [.low, .normal, .high], read: { request, _ in request.priority }),
        .option("isBarrier", \.isBarrier, flags, read: { request, _ in request.isBarrier }),
        .option("ignoresLimits", \.ignoresLimits, flags, read: { request, _ in request.ignoresLimits }),
        .option("tag", \.tag, (1...6).map { "t\($0)" }, read: { request, _ in request.tag }),
        .option(
            "acceptedStatuses", \.acceptedStatuses, (201...206).map { [$0] },
            read: { request, _ in request.acceptedStatuses }),
        .plain("userInfo", \.userInfo, (1...6).map { ["row": .int($0)] }, read: { $0.sent.userInfo }),
        .option(
            "idempotencyKey", \.idempotencyKey, (1...6).map { "k\($0)" }, read: { request, _ in request.idempotencyKey }
        ),
        .option(
            "traceParent", \.traceParent, (1...6).map { _ in TraceParent() },
            read: { request, _ in request.traceParent }),
        .option(
            "authentication", \.authentication, (1...6).map { .bearer(token: "\($0)") },
            read: { request, _ in request.authentication }),
        LeveledSetting(
            testDescription: "authenticator", values: (0..<6).map { "token \($0)" }, options: ["authenticator"],
            rows: ["authenticator"], manager: { $0.authenticator = Token(number: $1) },
            row: { "authenticator: \"\($0)\"" }, entity: { $0.authenticator = .named("\($1)") },
            call: { $0.authenticator(.named("\($1)")) }, read: { $0.sent.headers["Authorization"] ?? "none" }),
        LeveledSetting(
            testDescription: "sealing", values: (0..<6).map { "\(SealingPolicy.sealed(by: "\($0)"))" },
            options: ["sealing"], rows: ["sealing"], row: { "sealing: \"\($0)\"" },
            entity: { $0.sealing = .sealed(by: "\($1)") }, call: { $0.sealing(.sealed(by: "\($1)")) },
            read: { "\($0.intercepted.sealing)" }),
        LeveledSetting(
            testDescription: "oauth2", values: (0..<6).map { "http://127.0.0.1:9/\($0)" }, rows: ["oauth2"],
            // The request for a token is the only one, since its response has none.
            row: { "oauth2: { tokenURL: \"http://127.0.0.1:9/\($0)\", clientID: \"c\", secretVariable: \"PATH\" }" },
            read: { $0.sent.url }),
        .plain(
            "signer", \.signer, (0..<6).map { .named("\($0)") },
            row: { if case .named(let name) = $0 { "signer: \"\(name)\"" } else { "" } },
            read: { $0.intercepted.signer }),
        LeveledSetting(
            testDescription: "simulation", values: (0..<6).map { "http://127.0.0.1:\($0 + 1)/x" }, rows: ["simulation"],
            manager: { $0.simulation = .server("http://127.0.0.1:\($1 + 1)") },
            row: { "simulation: { baseURL: \"http://127.0.0.1:\($0 + 1)\" }" },
            call: { $0.simulated(.server("http://127.0.0.1:\($1 + 1)")) }, read: { $0.sent.url }),
        LeveledSetting(
            testDescription: "envelope", values: (0..<6).map { "\($0)" }, rows: ["envelope"],
            row: { "envelope: { code: \"c\($0)\", success: [\($0)] }" },
            read: { $0.reply?.envelope?.code?.description ?? "none" }),
        LeveledSetting(
            testDescription: "pages", values: (1...6).map { "\($0)" }, rows: ["pages"],
            row: { "pages: { number: \"p\", maxPages: \($0 + 1) }" },
            read: { observation in
                let row = try? observation.configuration.domains?.resolve(server: "s")
                return row?.settings.pages?.rule?.limit.map { "\($0)" } ?? "none"
            }),
        LeveledSetting(
            testDescription: "poll", values: (1...6).map { "\($0)" }, rows: ["poll"],
            row: { "poll: { attempts: \($0 + 1) }" },
            read: { observation in
                let row = try? observation.configuration.domains?.resolve(server: "s")
                return row?.settings.poll?.rule?.attempts.map { "\($0)" } ?? "none"
            }),
        LeveledSetting(
            testDescription: "uploads", values: (1...6).map { "\($0)" }, rows: ["uploads"],
            row: { "uploads: { protocol: \"s3\", parallel: \($0 + 1) }" },
            read: { observation in
                let row = try? observation.configuration.domains?.resolve(server: "s")
                return row?.settings.uploads?.rule.map { "\($0.parallel)" } ?? "none"
            }),
        LeveledSetting(
            testDescription: "errors", values: (0..<6).map { "c\($0)" }, rows: ["errors"],
            row: { "errors: { code: \"c\($0)\" }" },
            read: { observation in
                let row = try? observation.configuration.domains?.resolve(server: "s")
                return if case .rule(let rule)? = row?.settings.errors { rule.code } else { "none" }
            }),
    ]

    private static let ofContent: [LeveledSetting] = [
        .option(
            "contentCoding", \.contentCoding, [.gzip, .identity, .br],
            row: { "contentCoding: \($0 == .identity ? "null" : "\"\($0)\"")" },
            read: { request, _ in request.contentCoding }),
        .option(
            "trailers", \.trailers, trailers,
            read: { request, _ in request.trailers }),
        .option(
            "parameterEncoding", \.parameterEncoding, [.json, .form],
            row: { "parameterEncoding: \"\($0 == .json ? "json" : "form")\"" }, manager: { $0.parameterEncoding = $1 },
            read: { request, _ in request.body?.contentType?.contains("form") == true ? .form : .json }),
        LeveledSetting(
            testDescription: "dates",
            values: ["2001-09-09", "09.09.2001", "2001/09/09", "09/09/2001", "2001.09.09", "2001 09 09"],
            options: ["coding"], rows: ["dates"], manager: { $0.coding.dates = dates($1) },
            row: { if case .pattern(let text) = dates($0) { "dates: \"\(text)\"" } else { "" } },
            entity: { $0.coding = Coding(dates: dates($1)) }, call: { $0.coding(Coding(dates: dates($1))) },
            read: { (try? JSONValue(parsing: Data($0.body.utf8)))?["day"].string ?? $0.body }),
        LeveledSetting(
            testDescription: "keys", values: (0..<6).map { $0 % 2 == 0 ? "userName" : "user_name" },
            options: ["coding"],
            rows: ["keys"], manager: { $0.coding.keys = keys($1) }, row: { "keys: \"\(keys($0).rawValue)\"" },
            entity: { $0.coding = Coding(keys: keys($1)) }, call: { $0.coding(Coding(keys: keys($1))) },
            read: { $0.body.contains("user_name") ? "user_name" : "userName" }),
        LeveledSetting(
            testDescription: "decimals", values: (0..<6).map { $0 % 2 == 0 ? "9.5" : "\"9.5\"" }, options: ["coding"],
            rows: ["decimals"], manager: { $0.coding.decimals = decimals($1) },
            row: { "decimals: \"\(decimals($0).rawValue)\"" },
            entity: { $0.coding = Coding(decimals: decimals($1)) }, call: { $0.coding(Coding(decimals: decimals($1))) },
            read: { (try? JSONValue(parsing: Data($0.body.utf8)))?["price"].description ?? $0.body }),
        LeveledSetting(
            testDescription: "headers", values: (0..<6).map { "\($0)" }, options: ["headers"], rows: ["headers"],
            manager: { $0.headers["X-Level"] = "\($1)" }, row: { "headers: { \"X-Level\": \"\($0)\" }" },
            entity: { $0.headers["X-Level"] = "\($1)" }, call: { $0.header("X-Level", "\($1)") },
            read: { $0.sent.headers["X-Level"] ?? "none" }),
        LeveledSetting(
            testDescription: "parameters", values: (0..<6).map { "\($0)" }, rows: ["parameters"],
            manager: { configuration, level in configuration.parameterProvider = { _ in ["level": "\(level)"] }
            },
            row: { "parameters: { level: \"\($0)\" }" }, call: { $0.parameters(["level": "\($1)"]) },
            read: { (try? JSONValue(parsing: Data($0.body.utf8)))?["level"].string ?? $0.body }),
        .option(
            "replacesGlobalHeaders", \.replacesGlobalHeaders, flags,
            read: { request, _ in request.replacesGlobalHeaders }),
    ]

    private static func dates(_ level: Int) -> Coding.Dates {
        .pattern(["yyyy-MM-dd", "dd.MM.yyyy", "yyyy/MM/dd", "dd/MM/yyyy", "yyyy.MM.dd", "yyyy MM dd"][level])
    }

    private static func decimals(_ level: Int) -> Coding.Decimals { level % 2 == 0 ? .number : .text }

    private static func keys(_ level: Int) -> Coding.Keys { level % 2 == 0 ? .asDeclared : .snakeCase }
}

/// Puts a token on requests.
struct Token: Authenticator {
    let number: Int

    func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "token \(number)" }
}
