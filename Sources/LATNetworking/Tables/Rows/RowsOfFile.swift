import CurlTransport
import DomainTableFormat
import HTTPCore

extension DomainRow {
    /// Creates a row from its entry in the file. The paths in it are relative to `folder`.
    init(_ entry: DomainEntry, folder: String?) {
        self.init()
        $baseURL = Tracked(entry.baseURL)
        for (name, urls) in entry.environments { environments[name] = urls.value }
        for (name, urls) in entry.environments { environmentOrigins[name] = .file(urls.position) }
        $mirrors = Tracked(entry.mirrors)
        settings = RouteSettings(entry.settings, folder: folder)
    }
}

extension ServerRow {
    init(_ entry: ServerEntry, folder: String?) {
        self.init()
        $domain = Tracked(entry.domain) { DomainName($0) }
        $path = Tracked(entry.path)
        $method = Tracked(entry.method) { HTTPMethod($0) }
        $allowsAbsolute = Tracked(entry.allowsAbsolute)
        settings = RouteSettings(entry.settings, folder: folder)
    }
}

extension RouteSettings {
    init(_ entry: SettingsEntry, folder: String?) {
        self.init()
        $timeout = Tracked(entry.timeout)
        $connectTimeout = Tracked(entry.connectTimeout)
        $idleTimeout = Tracked(entry.idleTimeout)
        $maxConnectionsPerHost = Tracked(entry.maxConnectionsPerHost)
        $retries = Tracked(entry.retries)
        retry.$statuses = Tracked(entry.retry.statuses)
        retry.$firstWait = Tracked(entry.retry.firstWait)
        retry.$longestWait = Tracked(entry.retry.longestWait)
        retry.$longestRetryAfter = Tracked(entry.retry.longestRetryAfter)
        retry.$repeatsOnlyIdempotent = Tracked(entry.retry.repeatsOnlyIdempotent)
        tls.$caFile = Tracked(entry.tls.caFile) { Self.path($0, in: folder) }
        tls.$clientCertificate = Tracked(entry.tls.clientCertificate) { ClientCertificateRule($0, in: folder) }
        tls.$minimumVersion = Tracked(entry.tls.minimumVersion) { $0 == .v1_3 ? .v1_3 : .v1_2 }
        tls.$pins = Tracked(entry.tls.pins)
        $limits = Tracked(entry.limits) { RequestLimits($0) }
        $circuit = Tracked(entry.circuit) { CircuitChoice($0) }
        $cache = Tracked(entry.cache) { CacheChoice(rawValue: $0.rawValue) }
        $ttl = Tracked(entry.ttl) { ttl in
            switch ttl {
            case .fixed(let duration): .fixed(duration)
            case .sliding(let duration): .sliding(duration)
            case .forever: .forever
            }
        }
        $parameterEncoding = Tracked(entry.parameterEncoding) { ParameterEncoding(rawValue: $0.rawValue) }
        $dates = Tracked(entry.dates) { dates in
            switch dates {
            case .iso8601: .iso8601
            case .unixSeconds: .unixSeconds
            case .unixMilliseconds: .unixMilliseconds
            case .secondsSince2001: .secondsSince2001
            case .pattern(let text): .pattern(text)
            }
        }
        $keys = Tracked(entry.keys) { Coding.Keys(rawValue: $0.rawValue) }
        $proxy = Tracked(entry.proxy) { proxy in
            switch proxy {
            case .environment: .environment
            case .direct: ProxyPolicy.none
            case .url(let url): .url(url)
            }
        }
        $redirects = Tracked(entry.redirects) { redirects in
            switch redirects {
            case .automatic: .automatic
            case .none: RedirectPolicy.none
            case .follow(let limit): .follow(limit: limit)
            }
        }
        $simulation = Tracked(entry.simulate) { simulation in
            switch simulation {
            case .off: .off
            case .directory(let path, let delay):
                .directory(Self.path(path, in: folder), delay: delay)
            case .baseURL(let url, let delay): .baseURL(url, delay: delay)
            }
        }
        $envelope = Tracked(entry.envelope) { choice in
            switch choice {
            case .none: EnvelopeChoice.none
            case .envelope(let entry): .rule(EnvelopeRule(entry))
            }
        }
        $volatileParameters = Tracked(entry.volatileParameters)
        $cachePartition = Tracked(entry.cachePartition)
        $authenticator = Tracked(entry.authenticator) { authenticator in
            switch authenticator {
            case .none: .off
            case .named(let name): .named(name)
            }
        }
        $sealing = Tracked(entry.sealer) { sealer in
            switch sealer {
            case .none: .unsealed
            case .named(let name): .sealed(by: name)
            }
        }
        $compressesBody = Tracked(entry.compressBody) { $0 == .gzip }
        $secretHeaders = Tracked(entry.secretHeaders)
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
}

extension RouteSettings {
    fileprivate static func path(_ path: String, in folder: String?) -> String {
        guard let folder, !path.hasPrefix("/") else { return path }
        return "\(folder)/\(path)"
    }
}

extension ClientCertificateRule {
    fileprivate init(_ entry: SettingsEntry.ClientCertificate, in folder: String?) {
        func path(_ path: String) -> String { RouteSettings.path(path, in: folder) }
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

extension CircuitChoice {
    fileprivate init(_ entry: SettingsEntry.Circuit) {
        guard case .breaker(let failures, let pause, let statuses) = entry else {
            self = .off
            return
        }
        var policy = CircuitBreakerPolicy()
        if let failures { policy.failures = failures }
        if let pause { policy.pause = pause }
        if let statuses { policy.statuses = statuses }
        self = .breaker(policy)
    }
}

extension EnvelopeRule {
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

extension Tracked {
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
}

extension JSONValue {
    fileprivate init(_ number: JSON5Number) {
        if let integer = number.integer { self = .int(integer) } else { self = .double(number.double) }
    }
}
