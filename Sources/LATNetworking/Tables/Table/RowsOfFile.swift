import CurlTransport
import DomainTableFormat
import HTTPCore

extension DomainTable.DomainRow {
    /// Creates a row from its entry in the file. The paths in it are relative to `folder`.
    init(_ entry: DomainEntry, folder: String?) {
        self.init()
        $baseURL = DomainTable.Tracked(entry.baseURL)
        for (name, urls) in entry.environments { environments[name] = urls.value }
        for (name, urls) in entry.environments { environmentOrigins[name] = .file(urls.position) }
        $mirrors = DomainTable.Tracked(entry.mirrors)
        settings = DomainTable.RouteSettings(entry.settings, folder: folder)
    }
}

extension DomainTable.ServerRow {
    init(_ entry: ServerEntry, folder: String?) {
        self.init()
        $domain = DomainTable.Tracked(entry.domain) { DomainName($0) }
        $path = DomainTable.Tracked(entry.path)
        $method = DomainTable.Tracked(entry.method) { HTTPMethod($0) }
        $allowsAbsolute = DomainTable.Tracked(entry.allowsAbsolute)
        if entry.hasSettings { settings = DomainTable.RouteSettings(entry.settings, folder: folder) }
    }
}

extension DomainTable.RouteSettings {
    init(_ entry: SettingsEntry, folder: String?) {
        self.init()
        $timeout = DomainTable.Tracked(entry.timeout)
        $connectTimeout = DomainTable.Tracked(entry.connectTimeout)
        $idleTimeout = DomainTable.Tracked(entry.idleTimeout)
        $maxConnectionsPerHost = DomainTable.Tracked(entry.maxConnectionsPerHost)
        $retries = DomainTable.Tracked(entry.retries)
        retry.$statuses = DomainTable.Tracked(entry.retry.statuses)
        retry.$firstWait = DomainTable.Tracked(entry.retry.firstWait)
        retry.$longestWait = DomainTable.Tracked(entry.retry.longestWait)
        retry.$longestRetryAfter = DomainTable.Tracked(entry.retry.longestRetryAfter)
        retry.$repeatsOnlyIdempotent = DomainTable.Tracked(entry.retry.repeatsOnlyIdempotent)
        events.$reconnect = DomainTable.Tracked(entry.events.reconnect)
        events.$firstWait = DomainTable.Tracked(entry.events.firstWait)
        events.$longestWait = DomainTable.Tracked(entry.events.longestWait)
        events.$attempts = DomainTable.Tracked(entry.events.attempts)
        events.$statuses = DomainTable.Tracked(entry.events.statuses)
        events.$endsAt = DomainTable.Tracked(entry.events.endsAt)
        events.$eventLimit = DomainTable.Tracked(entry.events.eventLimit)
        tls.$caFile = DomainTable.Tracked(entry.tls.caFile) { Self.path($0, in: folder) }
        tls.$clientCertificate = DomainTable.Tracked(entry.tls.clientCertificate) {
            DomainTable.ClientCertificateRule($0, in: folder)
        }
        tls.$minimumVersion = DomainTable.Tracked(entry.tls.minimumVersion) { $0 == .v1_3 ? .v1_3 : .v1_2 }
        tls.$pins = DomainTable.Tracked(entry.tls.pins)
        $limits = DomainTable.Tracked(entry.limits) { RequestLimits($0) }
        $circuit = DomainTable.Tracked(entry.circuit) { RequestLimits.CircuitChoice($0) }
        $cache = DomainTable.Tracked(entry.cache) { CacheChoice(rawValue: $0.rawValue) }
        $ttl = DomainTable.Tracked(entry.ttl) { ttl in
            switch ttl {
            case .fixed(let duration): .fixed(duration)
            case .sliding(let duration): .sliding(duration)
            case .forever: .forever
            }
        }
        $parameterEncoding = DomainTable.Tracked(entry.parameterEncoding) { ParameterEncoding(rawValue: $0.rawValue) }
        $dates = DomainTable.Tracked(entry.dates) { dates in
            switch dates {
            case .iso8601: .iso8601
            case .unixSeconds: .unixSeconds
            case .unixMilliseconds: .unixMilliseconds
            case .secondsSince2001: .secondsSince2001
            case .pattern(let text): .pattern(text)
            }
        }
        $keys = DomainTable.Tracked(entry.keys) { Coding.Keys(rawValue: $0.rawValue) }
        $proxy = DomainTable.Tracked(entry.proxy) { proxy in
            switch proxy {
            case .environment: .environment
            case .direct: ProxyPolicy.none
            case .url(let url): .url(url)
            }
        }
        $redirects = DomainTable.Tracked(entry.redirects) { redirects in
            switch redirects {
            case .automatic: .automatic
            case .none: RedirectPolicy.none
            case .follow(let limit): .follow(limit: limit)
            }
        }
        $simulation = DomainTable.Tracked(entry.simulate) { simulation in
            switch simulation {
            case .off: .off
            case .directory(let path, let delay):
                .directory(Self.path(path, in: folder), delay: delay)
            case .baseURL(let url, let delay): .baseURL(url, delay: delay)
            }
        }
        $envelope = DomainTable.Tracked(entry.envelope) { choice in
            switch choice {
            case .none: DomainTable.EnvelopeChoice.none
            case .envelope(let entry): .rule(Envelope.Rule(entry))
            }
        }
        $volatileParameters = DomainTable.Tracked(entry.volatileParameters)
        $cachePartition = DomainTable.Tracked(entry.cachePartition)
        $authenticator = DomainTable.Tracked(entry.authenticator) { authenticator in
            switch authenticator {
            case .none: .off
            case .named(let name): .named(name)
            }
        }
        $sealing = DomainTable.Tracked(entry.sealer) { sealer in
            switch sealer {
            case .none: .unsealed
            case .named(let name): .sealed(by: name)
            }
        }
        $compressesBody = DomainTable.Tracked(entry.compressBody) { $0 == .gzip }
        $secretHeaders = DomainTable.Tracked(entry.secretHeaders)
        for (name, value) in entry.headers {
            headers[name] = value.value
            headerOrigins.set(value.value, of: name.lowercased(), from: .file(value.position))
        }
        for (name, node) in entry.parameters {
            let value = JSONValue(node.value)
            parameters[name] = value
            parameterOrigins.set(value, of: name, from: .file(node.position))
        }
    }

    fileprivate static func path(_ path: String, in folder: String?) -> String {
        guard let folder, !path.hasPrefix("/") else { return path }
        return "\(folder)/\(path)"
    }
}

extension DomainTable.ClientCertificateRule {
    fileprivate init(_ entry: SettingsEntry.ClientCertificate, in folder: String?) {
        func path(_ path: String) -> String { DomainTable.RouteSettings.path(path, in: folder) }
        switch entry {
        case .pkcs12(let file, let password):
            self.init(.pkcs12(path: path(file), password: password.text ?? ""), passwordVariable: password.variable)
        case .pem(let certificate, let key, let password):
            self.init(
                .pem(certificate: path(certificate), key: path(key), password: password.text),
                passwordVariable: password.variable)
        }
    }
}

extension SettingsEntry.Password {
    fileprivate var text: String? { if case .text(let text) = self { text } else { nil } }
    fileprivate var variable: String? { if case .variable(let name) = self { name } else { nil } }
}

extension RequestLimits {
    fileprivate init(_ entry: SettingsEntry.Limits) {
        self.init()
        maxConcurrentRequests = entry.maxConcurrentRequests
        rate = entry.perSecond.map { RateLimit(perSecond: $0, burst: entry.burst ?? 1) }
    }
}

extension RequestLimits.CircuitChoice {
    fileprivate init(_ entry: SettingsEntry.Circuit) {
        guard case .breaker(let failures, let pause, let statuses) = entry else {
            self = .off
            return
        }
        var policy = RequestLimits.CircuitBreakerPolicy()
        if let failures { policy.failures = failures }
        if let pause { policy.pause = pause }
        if let statuses { policy.statuses = statuses }
        self = .breaker(policy)
    }
}

extension Envelope.Rule {
    fileprivate init(_ entry: EnvelopeEntry) {
        let codes = entry.success.map { code in
            switch code {
            // In the same form as the number in a response: 10000 also for 1e4 and 0x2710.
            case .number(let number): JSONValue(number).description
            case .text(let text): text
            }
        }
        self.init(
            code: entry.code.joined(separator: "."), message: entry.message?.joined(separator: "."),
            data: entry.data?.joined(separator: "."), success: Set(codes),
            messages: Dictionary(entry.messages.map { ($0.code, $0.text) }) { first, _ in first })
    }
}

extension DomainTable.Tracked {
    fileprivate init(_ located: Located<Value>?) {
        self.init(located?.value, from: located.map { .file($0.position) })
    }

    fileprivate init<Written>(_ located: Located<Written>?, _ convert: (Written) -> Value?) {
        self.init(located.flatMap { convert($0.value) }, from: located.map { .file($0.position) })
    }
}

extension JSONValue {
    fileprivate init(_ node: JSON5Node) {
        switch node.value {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .number(let number): self = JSONValue(number)
        case .string(let text): self = .string(text)
        case .array(let elements): self = .array(elements.map { JSONValue($0) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.key, JSONValue($0.value)) }) { first, _ in first })
        }
    }

    fileprivate init(_ number: JSON5Number) {
        if let integer = number.integer { self = .int(integer) } else { self = .double(number.double) }
    }
}
