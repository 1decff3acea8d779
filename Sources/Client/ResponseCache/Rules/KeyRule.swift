import Cryptography
package import FoundationEssentials
import HTTPCore

/// Makes the primary key of a request: a digest of method, URL, parameters, body, user and version, from which none of
/// them can be read.
package struct KeyRule: Sendable {
    /// The version of the format of keys and entries. After a change, no older entry is found.
    static let schemaVersion = 2

    /// The names of parameters that are left out of the key, such as timestamps and nonces.
    package var volatileParameters: Set<String>
    /// The user to whom the responses belong; `nil` for all users.
    package var partition: String?
    /// The app's own version of its stored data.
    package var version: Int

    package init(volatileParameters: Set<String> = [], partition: String? = nil, version: Int = 1) {
        self.volatileParameters = volatileParameters
        self.partition = partition
        self.version = version
    }

    /// The primary key of a request.
    ///
    /// - Parameters:
    ///   - method: The method, `GET` for a `HEAD` that a stored GET may answer.
    ///   - body: The request's body, for methods whose responses depend on it.
    ///   - contentType: The media type of the body, which is part of the key (RFC 10008 §2.7).
    ///   - place: What names the server besides the URL, such as a Unix domain socket, and what was demanded of it.
    /// - Returns: `nil` when libcrypto cannot compute the digest; then nothing is cached.
    package func primary(
        method: String, url: CanonicalURL, body: Data? = nil, contentType: String? = nil, place: [String] = []
    ) -> String? {
        var digest = KeyDigest()
        digest.add("schema", "\(Self.schemaVersion).\(version)")
        digest.add("method", method)
        digest.add("partition", partition)
        digest.add("user", url.userInformation)
        digest.add("base", url.base)
        if !place.isEmpty { digest.add("place", place.joined(separator: "\u{0}")) }
        for parameter in url.sortedQuery where !isVolatile(parameter) { digest.add("parameter", parameter) }
        if let contentType { digest.add("type", MediaType.essence(of: contentType)) }
        // Values of parameters may depend on their case (RFC 9110 §8.3.1).
        if let details = contentType?.drop(while: { $0 != ";" }), !details.isEmpty {
            digest.add("details", String(details))
        }
        if let body { digest.add("body", comparable(body, contentType)) }
        return digest.text
    }

    private func isVolatile(_ parameter: String) -> Bool {
        guard !volatileParameters.isEmpty else { return false }
        let name = parameter.prefix { $0 != "=" }
        return volatileParameters.contains(String(name))
            || volatileParameters.contains(name.percentDecoded(plusIsSpace: true))
    }

    /// A URL without its volatile parameters.
    package func reduced(_ url: String) -> String {
        guard !volatileParameters.isEmpty, let mark = url.firstIndex(of: "?") else { return url }
        let kept = url[url.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false)
            .filter { !isVolatile(String($0)) }
        return "\(url[...mark])\(kept.joined(separator: "&"))"
    }

    /// The bytes by which a body is compared: JSON by its value, an object or a form without its volatile parameters.
    package func comparable(_ body: Data, _ contentType: String?) -> Data {
        if MediaType.isJSON(contentType) { return JSONDocument.comparable(body, without: volatileParameters) ?? body }
        guard !volatileParameters.isEmpty else { return body }
        if body.first == UInt8(ascii: "{"), let members = (try? JSONValue(parsing: body))?.object {
            guard volatileParameters.contains(where: { members[$0] != nil }) else { return body }
            return JSONDocument.comparable(body, without: volatileParameters) ?? body
        }
        guard let text = String(validating: body, as: UTF8.self), text.contains("=") else { return body }
        let kept = text.split(separator: "&", omittingEmptySubsequences: false).filter { !isVolatile(String($0)) }
        return Data(kept.joined(separator: "&").utf8)
    }
}

/// A URL normalized for comparison (RFC 3986 §6.2): scheme and host in lower case, `/` for an empty path, without default
/// port, fragment and user information.
package struct CanonicalURL: Hashable, Sendable {
    /// Everything before the query.
    package let base: String
    /// The query, unchanged; `nil` when there is none.
    package let query: String?
    /// The user information that was removed.
    package let userInformation: String?

    package var text: String { query.map { "\(base)?\($0)" } ?? base }

    /// Scheme, host and port.
    package var origin: Substring { base[..<pathStart] }

    /// The path, which begins with a slash.
    package var path: Substring { base[pathStart...] }

    private var authorityStart: String.Index {
        base.utf8.index(base.startIndex, offsetBy: base.utf8.starts(with: "https".utf8) ? 8 : 7)
    }
    private var pathStart: String.Index {
        base.utf8[authorityStart...].firstIndex(of: UInt8(ascii: "/")) ?? base.endIndex
    }

    /// The host, without the port.
    package var host: String {
        var host = base[authorityStart..<pathStart]
        if let colon = host.lastIndex(of: ":"), !host[colon...].contains("]") { host = host[..<colon] }
        return String(host.filter { $0 != "[" && $0 != "]" })
    }

    /// The query's parameters sorted by name; those with the same name keep their order.
    var sortedQuery: [String] {
        guard let query else { return [] }
        let parameters = query.split(separator: "&", omittingEmptySubsequences: false).map(String.init)
        guard parameters.count > 1 else { return parameters }
        let named = parameters.enumerated().map { (name: String($1.prefix { $0 != "=" }), place: $0, text: $1) }
        return named.sorted { $0.name == $1.name ? $0.place < $1.place : $0.name < $1.name }.map(\.text)
    }

    /// - Returns: `nil` unless the text is an absolute http or https URL. That of a socket is the URL over TCP, because the socket
    ///   is the place of its key.
    package init?(_ url: String) {
        if UnixAddress.isOne(url) {
            guard let unix = try? UnixAddress(url), let own = CanonicalURL(unix.url) else { return nil }
            self = own
            return
        }
        let parts = URLParts(url.idempotentlyPercentEncoded)
        guard let scheme = parts.scheme?.lowercased(), scheme == "http" || scheme == "https",
            let host = parts.host?.lowercased(), !host.isEmpty, !parts.hasOddSlashes
        else { return nil }
        let port = parts.port.flatMap { $0 == URLParts.standardPort(scheme) ? nil : ":" + $0 } ?? ""
        base = scheme + "://" + host + port + (parts.path.isEmpty ? "/" : parts.path)
        query = parts.query.map(String.init)
        userInformation = parts.userInformation.map(String.init)
    }
}

/// A digest over named values. Delimiters keep different sequences of values from having the same bytes.
struct KeyDigest: ~Copyable {
    private var parts: [UInt8] = []

    init() { parts.reserveCapacity(256) }

    var isEmpty: Bool { parts.isEmpty }

    /// Adds a value; a missing value differs from an empty one.
    mutating func add(_ name: String, _ value: String?) {
        parts.append(contentsOf: name.utf8)
        guard let value else {
            parts.append(0x01)
            return
        }
        parts.append(0x02)
        add(value.utf8.count)
        parts.append(0x02)
        parts.append(contentsOf: value.utf8)
    }

    private mutating func add(_ number: Int) {
        if number >= 10 { add(number / 10) }
        parts.append(UInt8(ascii: "0") + UInt8(number % 10))
    }

    mutating func add(_ name: String, _ bytes: Data) {
        parts.append(contentsOf: "\(name)\u{3}\(bytes.count)\u{3}".utf8)
        parts.append(contentsOf: bytes)
    }

    /// SHA-256 as 64 hexadecimal digits; `nil` when libcrypto does not provide it.
    var text: String? {
        (try? MessageDigest.of(parts, .sha256)).map(MessageDigest.hexadecimal)
    }

    /// HMAC-SHA256 as 64 hexadecimal digits; `nil` when libcrypto does not provide it.
    func text(key: Data) -> String? {
        (try? MessageDigest.hmac(parts, key: key)).map(MessageDigest.hexadecimal)
    }
}
