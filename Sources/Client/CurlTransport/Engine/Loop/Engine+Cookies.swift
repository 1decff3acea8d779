internal import HTTPCore

// How transfers use the cookie store. None of this runs when no cookies are kept.
extension Engine {
    func receive(
        _ line: UnsafeBufferPointer<UInt8>, into cookies: CookieStore, _ handle: EasyHandle, _ transfer: Transfer
    ) {
        // A proxy's own response must not set cookies for the server.
        let (rules, status) = (transfer.machine.rules, transfer.head.status)
        guard !transfer.plan.ignoresCookies, !rules.isProxyRefusal(status),
            transfer.cookieCount < CookieTable.domainLimit
        else { return }
        transfer.cookieCount += 1
        let hasChanged = cookies.receive(line, from: CookieTable.Place(transfer.request, transfer.target))
        // libcurl answers a challenge by itself; its next request must carry the cookies that the challenge set.
        if hasChanged, rules.mayBeRetriedByLibcurl(status) { handle.setCookies(cookies.field(for: transfer)) }
    }
}

extension CookieStore {
    /// The `Cookie` field of a transfer, from the store and the request's own cookies; `nil` for none.
    func field(for transfer: Transfer) -> String? {
        guard !transfer.plan.ignoresCookies else { return nil }
        let fields = [field(for: CookieTable.Place(transfer.request, transfer.target)), transfer.plan.ownCookies]
            .compactMap { $0 }
        return fields.isEmpty ? nil : fields.joined(separator: "; ")
    }
}

extension CookieTable.Place {
    /// Makes the place that a request goes to. As in curl, the request's own `Host` field names the host. All other
    /// sockets have the host `localhost`, so they are told apart by their paths.
    init(_ request: HTTPRequest, _ target: Target) {
        if let socket = target.socketName(of: request), request.headers["Host"] == nil {
            self.init(socket: socket, path: target.path)
            return
        }
        var host = target.host
        if let own = request.headers["Host"], let name = Target.hostName(ofField: own) { host = name }
        self.init(host: host, path: target.path, isSecure: target.isSecure)
    }

    /// Whether a cookie's domain is the host, or includes it as a subdomain.
    func isReached(by cookie: Cookie) -> Bool {
        let domain = cookie.domain.lowercased()
        return cookie.includesSubdomains && !isAddress ? CookieTable.isBelow(host, domain) : host == domain
    }
}

extension Target {
    /// The name of the Unix domain socket that a request goes to, for what is kept for each host: `unix:/run/app.sock`; `nil` for
    /// a server on the network, and for a request whose `unixSocketPath` leads to the host of its URL.
    func socketName(of request: HTTPRequest) -> String? {
        (socketPath ?? (host == "localhost" ? request.unixSocketPath : nil)).map { "unix:" + $0 }
    }

    /// The path as sent, without the query.
    var path: String { fromPath { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") } }

    /// Path and query as in the request line.
    var pathAndQuery: String { fromPath { $0 != UInt8(ascii: "#") } }

    private func fromPath(while isTaken: (UInt8) -> Bool) -> String {
        let bytes = UnixAddress.seen(url).utf8
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
            let start = bytes[bytes.index(after: colon)...].dropFirst(2).firstIndex(of: UInt8(ascii: "/"))
        else { return "/" }
        return String(bytes[start...].prefix(while: isTaken)) ?? "/"
    }

    /// The host of a `Host` field, without its port; `nil` for an empty one.
    static func hostName(ofField field: String) -> String? {
        var name = field[...]
        if let colon = name.lastIndex(of: ":"), name[name.index(after: colon)...].allSatisfy(\.isNumber),
            !name[..<colon].contains(":") || name[..<colon].hasSuffix("]")
        {
            name = name[..<colon]
        }
        return name.isEmpty ? nil : String(name)
    }
}
