import FoundationEssentials
internal import HTTPCore

/// The cookies of a jar, with the rules of RFC 6265 §5.3 and §5.4 for storing and sending them. A pure value.
///
/// Copies are cheap, since each domain has a table of its own.
struct CookieTable: Sendable {
    /// The destination of a request, or the source of a response.
    struct Place {
        /// In lower case; a name without dots at its end, an IPv6 address without brackets.
        let host: String
        let path: String
        /// Whether secure cookies may be sent to it and accepted from it.
        let isTrusted: Bool
        let isAddress: Bool
        /// Whether it is a Unix domain socket, whose server calls itself `localhost`.
        let isSocket: Bool

        /// A socket, with its name as the host. Bytes that a domain cannot have are percent-encoded, so that case counts.
        init(socket: String, path: String) {
            host = socket.utf8.reduce(into: "") { name, byte in
                let isPlain = (0x61...0x7A).contains(byte) || (0x2D...0x3A).contains(byte) || byte == UInt8(ascii: "_")
                if isPlain {
                    name.append(Character(UnicodeScalar(byte)))
                } else {
                    name += "%\(String(Int(byte) + 256, radix: 16).dropFirst())"
                }
            }
            self.path = path
            isTrusted = true
            isAddress = true
            isSocket = true
        }

        init(host: String, path: String, isSecure: Bool) {
            let name = CookieTable.bare(host.lowercased())
            self.host = name.hasPrefix("[") && name.hasSuffix("]") ? String(name.dropFirst().dropLast()) : name
            self.path = path
            isAddress = IPAddress(host: name) != nil
            isSocket = false
            isTrusted = isSecure || ["localhost", "127.0.0.1", "::1"].contains(self.host)
        }

        /// The folder of the path (RFC 6265 §5.1.4).
        fileprivate var defaultPath: String {
            guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return "/" }
            return String(path[..<slash])
        }
    }

    private struct Entry {
        var cookie: Cookie
        /// The order of creation. Of two cookies with equally long paths, the older is sent first.
        var order: UInt64

        func isOver(_ now: Date) -> Bool { cookie.expires.map { $0 <= now } ?? false }
    }

    /// A name without the dots at its end: `example.org.` is `example.org`, and `co.uk.` the public suffix `co.uk`.
    static func bare(_ name: String) -> String {
        guard name.utf8.last == UInt8(ascii: ".") else { return name }
        let last = name.utf8.lastIndex { $0 != UInt8(ascii: ".") }
        return last.map { String(name[...$0]) } ?? ""
    }

    private var domains: [String: [Entry]] = [:]
    private(set) var count = 0
    private var order: UInt64 = 0

    /// The maximum number of cookies of one domain, and of all domains. Expired cookies are dropped first, then the oldest.
    static let (domainLimit, totalLimit) = (180, 3300)
    /// The maximum number of cookies in a request, and of bytes in its field; servers refuse longer fields.
    static let (sentLimit, fieldLimit) = (150, 8190)

    // MARK: Storing

    /// Stores a cookie that a response set. Returns whether the table has changed.
    mutating func receive(
        _ field: SetCookie, from place: Place, now: Date, isPublicSuffix: (String) -> Bool
    ) -> Bool {
        var domain = place.host
        var isForSubdomains = false
        if let wanted = field.domain, !(place.isSocket && wanted == "localhost"),
            wanted != place.host || !place.isAddress
        {
            if isPublicSuffix(wanted) {
                guard wanted == place.host else { return false }
            } else {
                guard Self.isBelow(place.host, wanted), !place.isAddress else { return false }
                domain = wanted
                isForSubdomains = true
            }
        }
        // RFC 6265bis §5.7: a secure cookie is accepted only from a trusted place.
        guard !field.isSecure || place.isTrusted else { return false }
        let cookie = Cookie(
            field.name, field.value, domain: domain, includesSubdomains: isForSubdomains,
            path: field.path ?? place.defaultPath, expires: field.expires, isSecure: field.isSecure,
            isHTTPOnly: field.isHTTPOnly, sameSite: field.sameSite)
        let isWholeHost = !isForSubdomains && field.path == "/"
        guard cookie.meetsPrefixRules, isWholeHost || !cookie.name.lowercased().hasPrefix("__host-") else {
            return false
        }
        if !place.isTrusted, shadowsSecureCookie(cookie, now) { return false }
        return set(cookie, now: now)
    }

    /// Stores a cookie in place of the one that it replaces, if any. Returns whether the table has changed.
    @discardableResult
    mutating func set(_ cookie: Cookie, now: Date) -> Bool {
        let domain = cookie.domain.lowercased()
        var entries = domains[domain] ?? []
        let index = entries.firstIndex { $0.cookie.replaces(cookie) }
        if let expires = cookie.expires, expires <= now {
            guard let index else { return false }
            entries.remove(at: index)
            store(entries, domain)
            return true
        }
        var kept = cookie
        kept.domain = domain
        if let index {
            guard entries[index].cookie != kept else { return false }
            entries[index].cookie = kept
        } else {
            order += 1
            entries.append(Entry(cookie: kept, order: order))
            if entries.count > Self.domainLimit {
                entries.removeAll { $0.isOver(now) }
                if entries.count > Self.domainLimit { entries.removeFirst() }
            }
        }
        store(entries, domain)
        if count > Self.totalLimit { makeRoom(now) }
        return true
    }

    /// Removes the cookies with this name, domain and path. Returns whether there were any.
    mutating func remove(_ cookie: Cookie) -> Bool {
        let domain = cookie.domain.lowercased()
        let entries = domains[domain] ?? []
        let left = entries.filter { $0.cookie.name != cookie.name || $0.cookie.path != cookie.path }
        store(left, domain)
        return left.count < entries.count
    }

    private mutating func store(_ entries: [Entry], _ domain: String) {
        count += entries.count - (domains[domain]?.count ?? 0)
        domains[domain] = entries.isEmpty ? nil : entries
    }

    /// Removes a tenth of the cookies at once, so that a full jar is not searched for each new cookie.
    private mutating func makeRoom(_ now: Date) {
        for (domain, entries) in domains { store(entries.filter { !$0.isOver(now) }, domain) }
        let surplus = count - Self.totalLimit * 9 / 10
        guard surplus > 0 else { return }
        let oldest = domains.values.joined().map(\.order).sorted()[surplus - 1]
        for (domain, entries) in domains { store(entries.filter { $0.order > oldest }, domain) }
    }

    /// Whether a cookie that was received without TLS would shadow a secure one, which RFC 6265bis §5.7 forbids.
    private func shadowsSecureCookie(_ cookie: Cookie, _ now: Date) -> Bool {
        domains.contains { domain, entries in
            (Self.isBelow(domain, cookie.domain) || Self.isBelow(cookie.domain, domain))
                && entries.contains {
                    $0.cookie.isSecure && $0.cookie.name == cookie.name && !$0.isOver(now)
                        && Self.matches(cookie.path, $0.cookie.path)
                }
        }
    }

    // MARK: Sending

    /// Returns the cookies that have not expired, in no particular order.
    func all(_ now: Date) -> [Cookie] {
        domains.values.joined().filter { !$0.isOver(now) }.map(\.cookie)
    }

    /// Returns the `Cookie` field for a request; `nil` when no cookie matches (RFC 6265 §5.4).
    func field(for place: Place, now: Date) -> String? {
        guard count > 0 else { return nil }
        var found: [Entry] = []
        collect(place.host, isParent: false, place, now, &found)
        if !place.isAddress {
            var rest = place.host[...]
            while let dot = rest.firstIndex(of: ".") {
                rest = rest[rest.index(after: dot)...]
                collect(String(rest), isParent: true, place, now, &found)
            }
        }
        guard !found.isEmpty else { return nil }
        found.sort { first, second in
            let (one, other) = (first.cookie.path.utf8.count, second.cookie.path.utf8.count)
            return one == other ? first.order < second.order : one > other
        }
        var field = ""
        for entry in found.prefix(Self.sentLimit) {
            let length = entry.cookie.name.utf8.count + entry.cookie.value.utf8.count + 3
            guard field.utf8.count + length <= Self.fieldLimit else { continue }
            field += "\(field.isEmpty ? "" : "; ")\(entry.cookie.name)=\(entry.cookie.value)"
        }
        return field.isEmpty ? nil : field
    }

    private func collect(
        _ domain: String, isParent: Bool, _ place: Place, _ now: Date, _ found: inout [Entry]
    ) {
        for entry in domains[domain] ?? []
        where (!isParent || entry.cookie.includesSubdomains) && (!entry.cookie.isSecure || place.isTrusted)
            && !entry.isOver(now) && Self.matches(place.path, entry.cookie.path)
        {
            found.append(entry)
        }
    }

    /// Whether a host equals a domain or is below it (RFC 6265 §5.1.3).
    static func isBelow(_ host: String, _ domain: String) -> Bool {
        guard host.utf8.count > domain.utf8.count else { return host == domain }
        return host.hasSuffix(domain) && host.utf8.dropLast(domain.utf8.count).last == UInt8(ascii: ".")
    }

    /// Whether a request's path equals a cookie's or is below it (RFC 6265 §5.1.4). `/foo` does not match a cookie of `/foo/`.
    private static func matches(_ path: String, _ cookiePath: String) -> Bool {
        guard path.utf8.starts(with: cookiePath.utf8) else { return false }
        let rest = path.utf8.dropFirst(cookiePath.utf8.count)
        return rest.isEmpty || cookiePath.utf8.last == UInt8(ascii: "/") || rest.first == UInt8(ascii: "/")
    }
}

extension Cookie {
    /// Whether one cookie replaces the other in a jar (RFC 6265bis §5.7).
    fileprivate func replaces(_ other: Cookie) -> Bool {
        name == other.name && path == other.path && includesSubdomains == other.includesSubdomains
    }

    /// Whether a cookie meets the requirements of its name prefix and `SameSite` (RFC 6265bis §4.1.3, §5.7).
    var meetsPrefixRules: Bool {
        guard !isSecure else {
            return !name.lowercased().hasPrefix("__host-") || path == "/" && !includesSubdomains
        }
        return sameSite != .noRestriction && !name.lowercased().hasPrefix("__secure-")
            && !name.lowercased().hasPrefix("__host-")
    }
}
