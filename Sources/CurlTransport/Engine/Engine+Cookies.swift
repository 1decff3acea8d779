import HTTPCore

// What of a transfer concerns the cookies. Nothing of it runs when none are kept.
extension Engine {
    /// Takes in a `Set-Cookie` line of a response.
    func receive(
        _ line: UnsafeBufferPointer<UInt8>, into cookies: CookieStore, _ handle: EasyHandle, _ transfer: Transfer
    ) {
        // A proxy's own response is not the server's.
        let (rules, status) = (transfer.machine.rules, transfer.head.status)
        guard !transfer.plan.ignoresCookies, !rules.isProxyRefusal(status) else { return }
        let hasChanged = cookies.receive(line, from: CookieTable.Place(transfer))
        // A challenge that libcurl answers by itself: the repetition brings what the challenge has set.
        if hasChanged, rules.libcurlMayAskAgain(status) { handle.setCookies(cookies.field(for: transfer)) }
    }
}

extension CookieStore {
    /// The `Cookie` field for a transfer: the jar's and the request's own; `nil` for none.
    func field(for transfer: Transfer) -> String? {
        guard !transfer.plan.ignoresCookies else { return nil }
        let fields = [field(for: CookieTable.Place(transfer)), transfer.plan.ownCookies].compactMap { $0 }
        return fields.isEmpty ? nil : fields.joined(separator: "; ")
    }
}

extension CookieTable.Place {
    /// The place a transfer goes to. As in curl, a `Host` field of the request's own names the host.
    init(_ transfer: Transfer) {
        var host = transfer.target.host
        if let own = transfer.request.headers["Host"], let name = Target.hostName(ofField: own) { host = name }
        self.init(host: host, path: transfer.target.path, isSecure: transfer.target.isSecure)
    }
}

extension Target {
    /// The path as it is sent, without the query.
    var path: String { fromPath { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") } }

    /// Path and query as the request line has them.
    var pathAndQuery: String { fromPath { $0 != UInt8(ascii: "#") } }

    private func fromPath(while isTaken: (UInt8) -> Bool) -> String {
        let bytes = url.utf8
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
