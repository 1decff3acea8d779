import HTTPCore

// The values of single settings.

extension ValueKind<TLSVersion> {
    /// `"1.2"` or `"1.3"`.
    static var tlsVersion: Self {
        ValueKind(
            ValueForm(#"`"1.2"`, `"1.3"`"#, schema: #"{ "enum": ["1.2", "1.3"] }"#),
            read: { reader, node, key in
                reader.choice(node, key, TLSVersionWord.self).map { $0.value == .v1_3 ? .v1_3 : .v1_2 }
            }, text: { String($0.rawValue.dropFirst("TLS ".count)) })
    }
}

private enum TLSVersionWord: String, CaseIterable {
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v1_2 = "1.2"
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v1_3 = "1.3"
}

extension ValueKind<String> {
    /// A name that can be written as a member of `Cache-Status`.
    static var cacheStatus: Self {
        let expected = #"a name in ASCII, such as "app""#
        return ValueKind(
            ValueForm(expected, schema: #"{ "type": "string", "minLength": 1, "pattern": "^[ -~]+$" }"#).orNull("not"),
            read: { reader, node, key in
                if case .null = node.value { return "" }
                guard let name = reader.name(node, key, expected)?.value else { return nil }
                if HTTPResponse.CacheStatus(cache: name).field != nil { return name }
                reader.reportType(node, "\"\(key)\"", expected)
                return nil
            }, text: { $0.isEmpty ? "null" : $0 })
    }
}

extension ValueKind<String> {
    /// The URL of a revocation list.
    static var listAddress: Self {
        let expected = "an http URL; revocation lists are signed, and are fetched without TLS"
        return ValueKind(
            ValueForm("an `http` URL", schema: #"{ "type": "string", "pattern": "^[Hh][Tt][Tt][Pp]://[^\\s#]+$" }"#),
            read: { reader, node, key in
                guard let (url, address) = reader.address(node, key) else { return nil }
                if address.scheme == "http" { return url.value }
                reader.reportType(node, "\"\(key)\"", expected)
                return nil
            }, text: { HTTPAddress.redacted($0) })
    }
}

extension ValueKind<RedirectPolicy> {
    static var redirects: Self {
        ValueKind(
            ValueForm(
                #"`"automatic"`, `"none"`, or the maximum number of hops"#,
                schema:
                    #"{ "oneOf": [{ "enum": ["automatic", "none"] }, { "type": "integer", "minimum": 0, "maximum": 100 }] }"#
            ),
            read: { reader, node, _ in reader.redirects(node) },
            text: { redirects in
                switch redirects {
                case .automatic: "automatic"
                case .none: "none"
                case .follow(let limit): "\(limit)"
                }
            })
    }
}

extension ValueKind {
    /// The name of something of the manager, or `null` for none.
    ///
    /// - Parameters:
    ///   - what: what has the name, for messages.
    ///   - text: the name; `nil` for no choice.
    fileprivate static func named(
        _ what: String, none: Value, _ make: @escaping @Sendable (String) -> Value,
        text: @escaping @Sendable (Value) -> String?
    ) -> Self where Value: Sendable {
        ValueKind(
            ValueForm("a name", schema: #"{ "type": "string", "minLength": 1 }"#).orNull("none"),
            read: { reader, node, key in reader.named(node, key, what).map { $0.map(make) ?? none } },
            text: { $0 == none ? "null" : text($0) ?? "automatic" })
    }
}

extension ValueKind<RequestOptions.AuthenticatorChoice> {
    static var authenticator: Self {
        named(
            "an authenticator", none: .off, { .named($0) },
            text: { if case .named(let name) = $0 { name } else { nil } })
    }
}

extension ValueKind<RequestOptions.Sealing> {
    static var sealer: Self {
        named(
            "a sealer", none: .unsealed, { .sealed(by: $0) },
            text: { if case .sealed(let name) = $0 { name } else { nil } })
    }
}

extension ValueKind<RequestOptions.SignerChoice> {
    static var signer: Self {
        named(
            "a signer", none: .off, { .named($0) },
            text: { if case .named(let name) = $0 { name } else { nil } })
    }
}

extension ValueKind<DomainTable.SimulationRule> {
    static var simulation: Self {
        let delay = ##""delay": { "$ref": "#/$defs/duration" }"##
        func object(_ key: String, _ schema: String) -> String {
            """
            { "type": "object", "additionalProperties": false, "required": ["\(key)"], "properties": { "\(key)": \(schema), \(delay) } }
            """
        }
        let either =
            object("directory", #"{ "type": "string", "minLength": 1 }"#) + ", "
            + object("baseURL", ##"{ "$ref": "#/$defs/address" }"##)
        return ValueKind(
            ValueForm(
                "`{ directory, delay }` or `{ baseURL, delay }`; `null` for the server",
                schema: #"{ "oneOf": [{ "type": "null" }, \#(either)] }"#, durations: [["delay"]]),
            read: { reader, node, _ in reader.simulation(node) },
            text: { simulation in
                switch simulation {
                case .off: "null"
                case .directory(let path, _): "directory \(path)"
                case .baseURL(let url, _): "baseURL \(HTTPAddress.redacted(url))"
                }
            })
    }
}

extension ValueKind<DomainTable.EnvelopeChoice> {
    static var envelope: Self {
        ValueKind(
            ValueForm(
                "`{ code, message, data, success, messages }`", schema: ##"{ "$ref": "#/$defs/envelopeRule" }"##
            ).orNull("none"),
            read: { reader, node, _ in reader.envelope(node) },
            text: { choice in
                switch choice {
                case .none: "null"
                case .rule(let rule): "\(rule.code) of \(rule.success.sorted().joined(separator: ", "))"
                }
            })
    }
}

extension ValueKind<DomainTable.ErrorChoice> {
    static var errors: Self {
        ValueKind(
            ValueForm(
                "`{ code, message, details, messages, names }`", schema: ##"{ "$ref": "#/$defs/errorRule" }"##
            ).orNull("none"),
            read: { reader, node, _ in reader.errors(node) },
            text: { choice in
                switch choice {
                case .none: "null"
                case .rule(let rule): "code at \(rule.code)"
                }
            })
    }
}

extension ValueKind<RequestLimits> {
    static var limits: Self {
        ValueKind(
            ValueForm(
                "`{ maxConcurrentRequests, rate, followsServer, concurrency, floor, ceiling }`, the rate as a number per second "
                    + #"or `{ perSecond, burst }`; `"adaptive"` is short for `{ concurrency: "adaptive" }`"#,
                schema: ##"{ "$ref": "#/$defs/requestLimits" }"##
            ).orNull("none"),
            read: { reader, node, _ in reader.limits(node) },
            text: { limits in
                var parts: [String] = []
                if let most = limits.maxConcurrentRequests { parts.append("\(most) at once") }
                if let most = limits.maxConcurrentRequestsPerHost { parts.append("\(most) at once per host") }
                if let rate = limits.rate { parts.append("\(rate.perSecond) per second, burst \(rate.burst)") }
                if let rate = limits.ratePerHost {
                    parts.append("\(rate.perSecond) per second per host, burst \(rate.burst)")
                }
                if let adaptive = limits.adaptive {
                    parts.append("adaptive, \(adaptive.floor) to \(adaptive.ceiling) at once per host")
                }
                if limits.followsServer { parts.append("as the server tells") }
                return parts.isEmpty ? "null" : parts.joined(separator: ", ")
            })
    }
}

extension ValueKind<RequestOptions.Hedge> {
    static var hedge: Self {
        ValueKind(
            ValueForm(
                #"`{ after, initially, share, attempts }`, `after` as `"p95"` or `"200ms"`"#,
                schema: ##"{ "$ref": "#/$defs/hedgeRule" }"##, durations: [["initially"]]
            ).orNull("none"),
            read: { reader, node, _ in reader.hedge(node) },
            text: { hedge in
                guard hedge != .off else { return "null" }
                var parts: [String] = []
                switch hedge.after {
                case .percentile(let percentile): parts.append("after p\(percentile.formattedShort)")
                case .time(let time): parts.append("after \(DurationText.text(time))")
                }
                if let first = hedge.initially { parts.append("initially \(DurationText.text(first))") }
                parts.append("at most \((100 * hedge.share).formattedShort) %")
                if hedge.attempts > 1 { parts.append("\(hedge.attempts) times") }
                return parts.joined(separator: ", ")
            })
    }
}

extension Double {
    /// Without the fraction if that is zero.
    fileprivate var formattedShort: String { self == rounded() ? "\(Int(self))" : "\(self)" }
}

extension ValueKind<RequestLimits.CircuitChoice> {
    static var circuit: Self {
        ValueKind(
            ValueForm(
                "`{ failures, pause, statuses }`", schema: ##"{ "$ref": "#/$defs/circuitBreaker" }"##,
                durations: [["pause"]]
            ).orNull("none"),
            read: { reader, node, _ in reader.circuit(node) },
            text: { circuit in
                switch circuit {
                case .off: "null"
                case .breaker(let policy):
                    "\(policy.failures) failures, pause \(DurationText.text(policy.pause)), statuses "
                        + StatusText.list(policy.statuses)
                }
            })
    }
}
