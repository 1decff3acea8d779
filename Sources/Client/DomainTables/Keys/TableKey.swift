/// The keys of a table file, and the kinds of rows that may contain them.
package enum TableKey {
    package enum Place: String, CaseIterable {
        case table, defaults, domain, server, envelope, errors, pages, poll, uploads, oauth2, simulation, retry, events,
            query, documented, limits, rate, circuit, hedge, tls, digests, clientCertificate, chaos

        /// The name in messages.
        var phrase: String {
            switch self {
            case .table: "the table"
            case .domain: "a domain"
            case .server: "a server"
            case .envelope: "an envelope"
            case .rate: "a rate"
            case .clientCertificate: "a client certificate"
            case .defaults, .errors, .pages, .poll, .uploads, .oauth2, .simulation, .retry, .events, .query,
                .documented,
                .limits, .circuit, .hedge, .tls, .digests, .chaos:
                rawValue
            }
        }

        var keys: [String] {
            switch self {
            case .table: ["$schema", "production", "defaults", "domains", "servers"]
            case .defaults: TableKey.settings
            case .domain: ["baseURL", "environments", "mirrors", "pins"] + TableKey.settings
            case .server: ["domain", "path", "method", "allowsAbsolute"] + TableKey.settings
            case .envelope: ["code", "message", "data", "success", "messages"]
            case .errors: ["code", "message", "details", "messages", "names"]
            case .pages: ["link", "address", "cursor", "parameter", "number", "offset", "first", "items", "maxPages"]
            case .poll:
                [
                    "status", "done", "failed", "message", "address", "header", "result", "interval", "longestInterval",
                    "deadline", "attempts",
                ]
            case .uploads: ["protocol", "partSize", "parallel", "checksums"]
            case .oauth2: OAuth2Keys.all
            case .simulation: ["directory", "baseURL", "delay"]
            case .retry, .events, .query, .documented, .tls, .digests: RowKey.members(of: self).map(\.member)
            case .limits: ["maxConcurrentRequests", "rate", "followsServer", "concurrency", "floor", "ceiling"]
            case .rate: ["perSecond", "burst"]
            case .circuit: ["failures", "pause", "statuses"]
            case .chaos: ["failures", "latency", "cut", "seed"]
            case .hedge: ["after", "initially", "share", "attempts"]
            case .clientCertificate: ["file", "certificate", "key", "password", "passwordVariable"]
            }
        }
    }

    /// What every row may set.
    static let settings: [String] = RowKey.names + ["headers", "parameters", "secretHeaders"]
    static let settingNames = Set(settings)

    /// Keys of other programs, and the keys of a table with the same meaning.
    private static let synonyms = [
        "url": "baseURL", "base": "baseURL", "host": "baseURL", "endpoint": "baseURL", "uri": "path", "verb": "method",
        "env": "environments", "failover": "mirrors", "policy": "cache", "cachepolicy": "cache", "expires": "ttl",
        "balance": "addresses", "loadbalancing": "addresses", "dns": "addresses",
        "ssl": "tls", "ca": "caFile", "cacert": "caFile", "cert": "certificate", "throttle": "limits",
        "circuitbreaker": "circuit", "attempts": "retries", "backoff": "firstWait", "sse": "events", "stream": "events",
        "reconnection": "reconnect", "hedging": "hedge", "delay": "after", "percentile": "after",
        "secret": "secretVariable", "clientsecret": "secretVariable", "scope": "scopes",
        "tokenendpoint": "tokenURL",
        "done": "endsAt", "end": "endsAt", "maxeventsize": "eventLimit",
    ]

    /// Advice on an unknown key, as the rest of a sentence, and the key that was probably meant.
    static func advice(_ key: String, in place: Place) -> (text: String, suggestion: String?) {
        let synonym = synonyms[key.lowercased()].flatMap { place.keys.contains($0) ? $0 : nil }
        if let name = NearestName.of(key, among: place.keys) ?? synonym { return ("; did you mean \"\(name)\"?", name) }
        let elsewhere = Place.allCases.filter { $0 != place && $0.keys.contains(key) }
        if !elsewhere.isEmpty {
            return ("; it belongs in " + elsewhere.map(\.phrase).joined(separator: " or "), nil)
        }
        return ("; \(place.phrase) has " + place.keys.filter { $0 != "$schema" }.joined(separator: ", "), nil)
    }
}
