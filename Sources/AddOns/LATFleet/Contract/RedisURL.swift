internal import HTTPCore

extension FleetConfiguration {
    /// Reads a URL in the usual forms:
    ///
    /// - `redis://[USER:PASSWORD@]HOST[:6379][/DATABASE]`, and `rediss://` for TLS. Without a user: `redis://:PASSWORD@HOST`.
    /// - `unix://[USER:PASSWORD@]/PATH[?db=DATABASE]` for a Unix socket; `redis+unix://` is the same.
    /// - The parameters `db` and `prefix` may follow each of them.
    ///
    /// User and password are percent-encoded.
    ///
    /// - Throws: ``FleetError/Kind/configuration`` for an invalid URL, ``FleetError/Kind/unsupported`` for that of a Cluster or
    ///   a Sentinel. The message shows neither user nor password.
    public init(url: String) throws(FleetError) {
        self.init()
        let parts = URLParts(url)
        guard parts.isAbsolute, let scheme = parts.scheme?.lowercased(), let authority = parts.authority else {
            throw .configuration(
                "the URL of the Redis has no scheme; write redis://HOST:PORT, rediss:// or unix:///PATH")
        }
        var rest = url[authority.startIndex...]
        guard !rest.contains("#") else {
            throw .configuration("the URL of the Redis contains #; write %23 if it belongs to the password")
        }
        var query: Substring = ""
        if let mark = rest.firstIndex(of: "?") {
            query = rest[rest.index(after: mark)...]
            rest = rest[..<mark]
        }
        switch scheme {
        case "redis", "rediss", "unix", "redis+unix":
            isSecure = scheme == "rediss"
            do throws(FleetError) {
                if scheme.hasSuffix("unix") { try readSocket(rest) } else { try readHost(rest) }
                try readParameters(query)
                try validate()
            } catch {
                // The password may have a ? in it, so what the error quotes may be a part of the password.
                guard !query.contains("@") else { throw Self.unreadable("the URL of the Redis cannot be read") }
                throw error
            }
        case "redis+socket", "redis-socket":
            throw .configuration("a Unix socket is written unix:///PATH, not \(scheme)://")
        default:
            if scheme.contains("sentinel") { throw Self.unsupported("Sentinel") }
            if scheme.contains("cluster") { throw Self.unsupported("Cluster") }
            throw .configuration(
                "\"\(URLText.visible(scheme))\" is not a scheme of Redis; write redis://, rediss:// or unix://")
        }
    }

    /// An error that quotes nothing, with what is often the cause.
    private static func unreadable(_ problem: String) -> FleetError {
        .configuration(
            "\(problem); if the password has the characters @ : / ? # in it, write them as %40 %3A %2F %3F %23")
    }

    private mutating func readSocket(_ text: Substring) throws(FleetError) {
        let path = try Self.decoded(try readUser(text), "path")
        // Without an @, a password would be the beginning of the path, which must not be quoted.
        guard path.hasPrefix("/") else {
            throw .configuration(
                "the path of a Unix socket begins with /; write unix:///PATH, or unix://USER:PASSWORD@/PATH")
        }
        address = .unixSocket(path: path)
    }

    private mutating func readHost(_ text: Substring) throws(FleetError) {
        var rest = try readUser(text)
        if let slash = rest.firstIndex(of: "/") {
            let path = rest[rest.index(after: slash)...]
            rest = rest[..<slash]
            if !path.isEmpty { try readDatabase(path) }
        }
        guard !rest.contains(",") else { throw Self.unsupported("Cluster or Sentinel") }
        var host = rest
        var port: Substring?
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else {
                throw .configuration("the IPv6 address of the Redis has no closing bracket")
            }
            host = rest[rest.index(after: rest.startIndex)..<end]
            let after = rest[rest.index(after: end)...]
            guard after.isEmpty || after.hasPrefix(":") else {
                throw .configuration("after the address [\(host)] only :PORT may follow")
            }
            if !after.isEmpty { port = after.dropFirst() }
        } else if let colon = rest.lastIndex(of: ":") {
            (host, port) = (rest[..<colon], rest[rest.index(after: colon)...])
        }
        var number = 6379
        if let port {
            guard let given = Int(port), port.utf8.allSatisfy({ (48...57).contains($0) }) else {
                throw Self.unreadable("the port of the Redis is not a number")
            }
            number = given
        }
        address = .host(try Self.decoded(host, "host"), port: number)
    }

    /// Reads user and password, and returns the rest.
    private mutating func readUser(_ text: Substring) throws(FleetError) -> Substring {
        guard let at = text.lastIndex(of: "@") else { return text }
        let given = text[..<at]
        let colon = given.firstIndex(of: ":")
        let name = try Self.decoded(given[..<(colon ?? given.endIndex)], "user")
        user = name.isEmpty ? nil : name
        if let colon { password = try Self.decoded(given[given.index(after: colon)...], "password") }
        if password?.isEmpty == true { password = nil }
        return text[text.index(after: at)...]
    }

    private mutating func readDatabase(_ text: Substring) throws(FleetError) {
        guard let number = Int(text), number >= 0 else {
            throw .configuration(
                "the database \"\(URLText.visible(String(text)))\" is not a number from 0; write redis://HOST/2")
        }
        database = number
    }

    private mutating func readParameters(_ query: Substring) throws(FleetError) {
        for item in query.split(separator: "&") {
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = try Self.decoded(parts.count == 2 ? parts[1] : "", "parameter")
            switch parts[0] {
            case "db": try readDatabase(value[...])
            case "prefix": prefix = value
            default:
                let name = URLText.visible(String(parts[0].prefix(40)))
                throw .configuration(
                    "the URL of the Redis has the unknown parameter \"\(name)\"; known are db and prefix")
            }
        }
    }

    private static func decoded(_ text: Substring, _ what: String) throws(FleetError) -> String {
        guard let bytes = text.percentDecodedBytes, let text = String(validating: bytes, as: UTF8.self) else {
            throw .configuration("the \(what) in the URL of the Redis is not percent-encoded UTF-8; write % as %25")
        }
        return text
    }

    private static func unsupported(_ what: String) -> FleetError {
        FleetError(
            .unsupported,
            "a \(what) is not supported; give the address of one Redis, redis://HOST:PORT, or of a proxy before it")
    }
}
