internal import HTTPCore

/// Checks of requests and settings, as pure functions.
enum RequestCheck {
    static func method(_ method: HTTPMethod) -> NetworkError {
        if method.rawValue.isEmpty { return .invalidRequest("the method is empty; name one, such as GET") }
        return .invalidRequest("the method \"\(method.rawValue.escaped)\" is not a token (RFC 9110 §9.1); use letters")
    }

    static let connect = NetworkError.invalidRequest(
        "CONNECT cannot be sent as a request; configure a proxy, and tunnels are made automatically")

    static func body(of method: HTTPMethod) -> NetworkError {
        .invalidRequest("a \(method) request has no body (RFC 9110 §9.3); use another method or leave it out")
    }

    /// Whether compression is requested, and the body decoded.
    static func decompresses(_ request: HTTPRequest) -> Bool {
        guard request.decompresses != false else { return false }
        // A caller who sets Accept-Encoding wants the coded body, and a range of a coded body cannot be decoded.
        return request.headers.hasNoFields
            || !request.headers.fields.contains {
                $0.name.equalsIgnoringASCIICase("Accept-Encoding") || $0.name.equalsIgnoringASCIICase("Range")
            }
    }

    static func needsReset(_ request: HTTPRequest) -> Bool {
        let hasCredentials =
            switch request.authentication {
            case nil, .bearer: false
            case .basic, .digest, .any: true
            }
        return hasCredentials || request.unixSocketPath != nil || request.trailers != nil || request.context.upgrades
            || request.context.opensConnection
    }

    /// Checks the credentials, which become part of header fields: Digest sends the user name unencoded.
    static func credentials(_ authentication: Authentication?) throws(NetworkError) {
        switch authentication {
        case nil, .bearer: return  // a token is checked together with the header fields
        case .basic(let user, let password), .digest(let user, let password), .any(let user, let password):
            guard (user + password).utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw .invalidRequest(
                    "the user name or password holds a control character, which is never sent; remove it")
            }
            if case .digest = authentication { return }
            guard !user.utf8.contains(UInt8(ascii: ":")) else {
                throw .invalidRequest(
                    "the user name has a colon, where the password would begin (RFC 7617 §2); use a name without one")
            }
        }
    }

    static func unixSocket(_ path: String?) throws(NetworkError) {
        guard let path else { return }
        guard !path.utf8.contains(0), path.utf8.count < 108 else {
            throw .invalidRequest(
                "the path of a Unix domain socket has at most 107 bytes and no NUL; use a shorter one")
        }
    }

    static func rate(_ rate: Int64?, _ name: String) throws(NetworkError) {
        guard let rate, rate <= 0 else { return }
        throw .invalidRequest("\(name) is \(rate) bytes per second; use at least 1, or nil for no limit")
    }

    static func tooFewConnections(_ limit: Int) -> NetworkError {
        .invalidRequest("maxConnectionsPerHost is \(limit); give 1 or more")
    }

    static func milliseconds(_ duration: Duration?, _ name: String) throws(NetworkError) -> Int64? {
        guard let duration else { return nil }
        guard duration > .zero else {
            throw .invalidRequest("\(name) is \(duration); give more than 0")
        }
        return duration.roundedUpMilliseconds
    }
}

extension String {
    /// The text with control characters and quotation marks escaped, as in a Swift literal.
    var escaped: String { unicodeScalars.reduce(into: "") { $0 += $1.escaped(asASCII: false) } }
}

extension EngineConfiguration {
    /// Checks the settings.
    func validate() throws(NetworkError) {
        for (name, duration) in [
            ("timeout", timeout), ("connectTimeout", connectTimeout), ("idleTimeout", idleTimeout),
            ("idleConnectionLifetime", idleConnectionLifetime), ("connectionLifetime", connectionLifetime),
            ("dnsCacheLifetime", dnsCacheLifetime),
        ] {
            _ = try RequestCheck.milliseconds(duration, name)
        }
        for (name, number) in [
            ("maxConnectionsPerHost", maxConnectionsPerHost), ("maxConnections", maxConnections ?? 1),
            ("maxIdleConnections", maxIdleConnections), ("maxDecompressionRatio", maxDecompressionRatio),
        ] where number < 1 {
            throw .invalidRequest("\(name) is \(number); give 1 or more")
        }
        guard maxBodySize >= 0 else { throw .invalidRequest("maxBodySize is \(maxBodySize); give 0 or more") }
        if let userAgent, !userAgent.utf8.isFieldValue {
            throw .invalidRequest("userAgent holds a control character; remove it")
        }
        try RequestCheck.rate(maxReceiveRate, "maxReceiveRate")
        try RequestCheck.rate(maxSendRate, "maxSendRate")
        try RequestCheck.unixSocket(unixSocketPath)
        if blocksPrivateAddresses, unixSocketPath != nil {
            throw .invalidRequest(
                "unixSocketPath and blocksPrivateAddresses exclude each other; remove one of them")
        }
        for rule in connectTo where rule.filter({ $0 == ":" }).count < 3 {
            throw .invalidRequest("connectTo \"\(rule)\" cannot be used; write HOST1:PORT1:HOST2:PORT2")
        }
        for (host, address) in resolve where host.split(separator: ":").count < 2 || address.isEmpty {
            throw .invalidRequest("resolve has \"\(host)\": \"\(address)\"; write \"host:port\": \"address\"")
        }
    }
}
