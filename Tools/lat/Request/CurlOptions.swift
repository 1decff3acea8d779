import LATNetworking

// Translates the options of `lat request` to options of curl.
extension RequestCommand {
    /// The options that curl needs besides what the request itself has.
    func curlOptions(for request: HTTPRequest) -> [(name: String, value: String?)] {
        var options: [(name: String, value: String?)] = []
        func add(_ name: String, _ value: String?) { if let value { options.append((name, value)) } }
        func add(_ name: String, if isSet: Bool) { if isSet { options.append((name, nil)) } }
        if showsHead { add("-i", if: method.uppercased() != "HEAD") }
        add("-v", if: isVerbose)
        if followsRedirects, redirectObstacle(of: request) == nil {
            add("-L", if: true)
            if case .follow(let limit) = redirects { add("--max-redirs", "\(limit)") }
        }
        switch authentication {
        case .basic(let user, let password): add("-u", "\(user):\(password)")
        case .digest(let user, let password):
            add("--digest", if: true)
            add("-u", "\(user):\(password)")
        case .bearer(let token): add("-H", "Authorization: Bearer \(token)")
        case .any, nil: break
        }
        add("-b", cookies)
        add("-c", cookies)
        if let proxy { if proxy.isEmpty { add("--noproxy", "*") } else { add("-x", proxy) } }
        add("--http2-prior-knowledge", if: usesHTTP2 && url.lowercased().hasPrefix("http:"))
        add("--http3", if: http3 == .http3)
        add("--http3-only", if: http3 == .http3Only)
        add("--unix-socket", unixSocket)
        add("-m", timeout.map(Self.seconds))
        add("--connect-timeout", connectTimeout.map(Self.seconds))
        // curl repeats a POST, too.
        add("--retry", retries > 0 && request.method.isIdempotent ? "\(retries)" : nil)
        if downloads, output == nil { add("-OJ", if: true) }
        add("-o", output)
        return options + connection.curlOptions
    }

    /// What curl does otherwise than `lat` when it follows a redirect of the request; `nil` for nothing.
    func redirectObstacle(of request: HTTPRequest) -> String? {
        guard followsRedirects else { return nil }
        if request.method != .get, CurlCommand(.run).namesMethod(of: request) {
            return "keeps the method \(request.method) where a redirect asks for GET"
        }
        // Those are removed by curl, too.
        let removed = ["authorization", "cookie"]
        let secret = request.headers.first {
            Secrets.standard.contains(header: $0.name) && !removed.contains($0.name.lowercased())
        }
        return secret.map { "sends \($0.name) to the server of a redirect, too" }
    }

    /// The options that are given and that curl has no equivalent for.
    var optionsWithoutCurl: [Option] {
        [
            Self.idleTimeout, Self.cache, Self.dictionaries, OutputFormat.option, ConnectionArguments.gzip,
            ConnectionArguments.prewarm,
            ConnectionArguments.trailer, ConnectionArguments.keyLog,
        ].filter(arguments.contains)
    }

    fileprivate static func seconds(_ duration: Duration) -> String {
        let milliseconds = duration.microseconds % 1_000_000 / 1_000
        let fraction = milliseconds == 0 ? "" : "." + "\(milliseconds)".padded(toStart: 3, with: "0")
        return "\(duration.components.seconds)\(fraction)"
    }
}

extension ConnectionArguments {
    /// The options of curl for the connection.
    var curlOptions: [(name: String, value: String?)] {
        var options: [(name: String, value: String?)] = []
        func add(_ name: String, _ value: String?) { if let value { options.append((name, value)) } }
        func add(_ name: String, if isSet: Bool) { if isSet { options.append((name, nil)) } }
        for (place, address) in addresses.sorted(by: { $0.key < $1.key }) { add("--resolve", "\(place):\(address)") }
        for rule in connectTo { add("--connect-to", rule) }
        add("--cacert", authority)
        switch certificate {
        case .pem(let path, let key, let password):
            add("--cert", path)
            add("--key", key == path ? nil : key)
            add("--pass", password)
        case .pkcs12(let path, let password):
            add("--cert-type", "P12")
            add("--cert", path)
            add("--pass", password)
        case nil: break
        }
        add("-k", if: isInsecure)
        add("--pinnedpubkey", pins.isEmpty ? nil : pins.joined(separator: ";"))
        add("--cert-status", if: requiresStapling)
        switch resolver {
        case .https(let url): add("--doh-url", url)
        case .servers(let servers): add("--dns-servers", servers.joined(separator: ","))
        case .system, nil: break
        }
        add("--interface", arguments.value(Self.interface))
        add("--local-port", ports.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" })
        add("--happy-eyeballs-timeout-ms", happyEyeballsDelay.map { "\($0.microseconds / 1_000)" })
        switch netrc {
        case .home: add("-n", if: true)
        case .file(let path): add("--netrc-file", path)
        case .off: break
        }
        add("--hsts", hsts)
        add("--alt-svc", altSvc)
        add("--limit-rate", rate.map { "\($0)" })
        return options
    }
}
