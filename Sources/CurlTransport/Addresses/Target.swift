import CLibcurl
import Glibc
import HTTPCore
import Synchronization

/// An address as libcurl parsed it: what is checked before a request is sent,
/// and what the request is sent with.
///
/// Parsing costs as much as a fifth of a small request, so targets are kept
/// and handed to libcurl whole (`CURLOPT_CURLU`).
final class Target: @unchecked Sendable {
    // Sendable: the URL handle is written only in init; libcurl reads it (and copies it where it must change it).
    let handle: OpaquePointer
    /// The URL, percent-encoded.
    let url: String
    /// `http` or `https`.
    let scheme: String
    /// The host as libcurl will look it up: IPv4 addresses in their one form, names in the letters of the DNS, IPv6
    /// addresses in brackets.
    let host: String
    /// Scheme, host and port: what connections are limited by.
    let origin: String
    private let lastBodySize = Atomic<Int>(0)

    var isSecure: Bool { scheme == "https" }

    /// The same address over TLS: the port 80 becomes 443, others stay (RFC 6797 §8.3). `nil` when memory is short.
    var secureURL: String? {
        guard let copy = curl_url_dup(handle) else { return nil }
        defer { curl_url_cleanup(copy) }
        guard curl_url_set(copy, CURLUPART_SCHEME, "https", 0) == CURLUE_OK else { return nil }
        if Target.part(CURLUPART_PORT, of: handle) == "80" { _ = curl_url_set(copy, CURLUPART_PORT, nil, 0) }
        return Target.part(CURLUPART_URL, of: copy)
    }

    /// Whether the URL itself names a user.
    var hasUser: Bool { Target.part(CURLUPART_USER, of: handle) != nil }

    /// How long the body will be, if it is as long as the last one from here; 0 when that is not known, or long.
    var bodySizeHint: Int { lastBodySize.load(ordering: .relaxed) }

    /// A body from here was so long.
    func noteBodySize(_ size: Int) {
        let hint = size <= Self.hintLimit ? size : 0
        if hint != bodySizeHint { lastBodySize.store(hint, ordering: .relaxed) }
    }

    private static let hintLimit = 64 << 10

    /// Parses a URL.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names what is wrong with it.
    init(_ text: String) throws(NetworkError) {
        guard !text.isEmpty else {
            throw .invalidRequest("the URL is empty; give an absolute one, such as https://example.org/")
        }
        if let control = text.unicodeScalars.first(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            throw .invalidRequest(
                "the URL holds the control character U+\(Self.hex(control.value)) (CR, LF and their like are "
                    + "never sent); percent-encode or remove it")
        }
        let encoded = text.idempotentlyPercentEncoded
        guard let handle = curl_url() else { throw NetworkError(.other, message: "out of memory") }
        self.handle = handle
        let code = curl_url_set(handle, CURLUPART_URL, encoded, UInt32(CURLU_NON_SUPPORT_SCHEME))
        guard code == CURLUE_OK else {
            curl_url_cleanup(handle)
            throw Target.failure(code, text)
        }
        scheme = Target.part(CURLUPART_SCHEME, of: handle) ?? ""
        guard scheme == "http" || scheme == "https" else {
            let scheme = scheme
            curl_url_cleanup(handle)
            throw .invalidRequest("the scheme \"\(scheme)\" is not supported; only http and https are")
        }
        guard let written = Target.part(CURLUPART_HOST, of: handle), !written.isEmpty else {
            curl_url_cleanup(handle)
            throw .invalidRequest("the URL \"\(URLText.redacted(text))\" has no host")
        }
        do {
            try HostName.write(in: handle, host: written)
        } catch {
            curl_url_cleanup(handle)
            throw error
        }
        let host = Target.part(CURLUPART_HOST, of: handle) ?? written
        let port = Target.part(CURLUPART_PORT, of: handle, flags: UInt32(CURLU_DEFAULT_PORT)) ?? ""
        origin = "\(scheme)://\(host):\(port)"
        self.host = Target.isPlain(host) ? host : Target.asciiHost(of: handle) ?? host
        // The fragment is for the reader of the URL and never sent (RFC 9110 §7.1).
        _ = curl_url_set(handle, CURLUPART_FRAGMENT, nil, 0)
        url = Target.part(CURLUPART_URL, of: handle) ?? encoded
    }

    /// The target of another path and query at the same scheme and authority, without parsing these again.
    ///
    /// - Parameter rest: What ``TargetBase/rest(of:)`` let pass.
    fileprivate init?(_ base: TargetBase, rest: UnsafeBufferPointer<UInt8>) {
        guard let handle = curl_url_dup(base.target.handle) else { return nil }
        let mark = rest.firstIndex(of: UInt8(ascii: "?")) ?? rest.count
        let path = String(decoding: rest[..<mark], as: UTF8.self)
        let query = mark < rest.count ? String(decoding: rest[(mark + 1)...], as: UTF8.self) : nil
        guard curl_url_set(handle, CURLUPART_PATH, path, 0) == CURLUE_OK,
            curl_url_set(handle, CURLUPART_QUERY, query, 0) == CURLUE_OK
        else {
            curl_url_cleanup(handle)
            return nil
        }
        self.handle = handle
        scheme = base.target.scheme
        host = base.target.host
        origin = base.target.origin
        url = base.prefix + String(decoding: rest, as: UTF8.self)
    }

    deinit { curl_url_cleanup(handle) }

    private static func part(_ part: CURLUPart, of handle: OpaquePointer, flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    private static func isPlain(_ host: String) -> Bool {
        host.utf8.allSatisfy { $0 < 0x80 && $0 != UInt8(ascii: "%") }
    }

    private static func asciiHost(of handle: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard lat_url_ascii_host(handle, &text) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    private static func failure(_ code: CURLUcode, _ text: String) -> NetworkError {
        let reason: String
        switch code {
        case CURLUE_BAD_SCHEME, CURLUE_UNSUPPORTED_SCHEME, CURLUE_NO_SCHEME, CURLUE_BAD_SLASHES:
            reason = "it does not begin with http:// or https://; give an absolute URL, or set the manager's baseURL"
        case CURLUE_BAD_PORT_NUMBER: reason = "its port is no number from 0 to 65535"
        case CURLUE_NO_HOST, CURLUE_BAD_HOSTNAME: reason = "its host name is missing or malformed"
        case CURLUE_BAD_IPV6: reason = "its IPv6 address is malformed"
        default: reason = String(cString: curl_url_strerror(code))
        }
        return .invalidRequest("the URL \"\(URLText.redacted(text))\" cannot be used: \(reason)")
    }

    private static func hex(_ value: UInt32) -> String {
        let digits = String(value, radix: 16, uppercase: true)
        return String(repeating: "0", count: 4 - digits.count) + digits
    }
}

/// Resolves a reference against a URL (RFC 3986 §5), by libcurl.
package enum URLReference {
    /// The absolute URL that `reference` means when found at `base`; `nil` when it is malformed. The result keeps
    /// the fragment of the reference, or else of the base (RFC 9110 §10.2.2).
    package static func resolve(_ reference: String, against base: String) -> String? {
        let (base, baseFragment) = split(base.idempotentlyPercentEncoded)
        let (reference, ownFragment) = split(reference.idempotentlyPercentEncoded)
        guard let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        let flags = UInt32(CURLU_NON_SUPPORT_SCHEME)
        guard curl_url_set(handle, CURLUPART_URL, base, flags) == CURLUE_OK,
            // libcurl takes the empty reference for the folder of the base; it means the base itself.
            reference.isEmpty || curl_url_set(handle, CURLUPART_URL, reference, flags) == CURLUE_OK
        else { return nil }
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, CURLUPART_URL, &text, 0) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text) + (ownFragment ?? baseFragment ?? "")
    }

    /// A URL and its fragment, `#` included.
    private static func split(_ url: String) -> (url: String, fragment: String?) {
        guard let hash = url.utf8.firstIndex(of: UInt8(ascii: "#")) else { return (url, nil) }
        return (String(url[..<hash]), String(url[hash...]))
    }

    /// The host of an absolute URL as it will be looked up; `nil` when it is none.
    package static func host(of url: String) -> String? { (try? Target(url))?.host }

    /// Scheme, host and port of an absolute URL, lower case, the default port filled in: what "same origin"
    /// compares (RFC 6454). `nil` when it is none.
    package static func origin(of url: String) -> String? {
        (try? Target(url))?.origin.lowercased()
    }
}

/// Scheme and authority of a target that was parsed, for URLs that begin with the same bytes.
struct TargetBase: Sendable {
    fileprivate let target: Target
    /// The text that the URLs begin with, up to the slash of the path.
    private let text: [UInt8]
    /// The same as libcurl writes it.
    fileprivate let prefix: String

    /// `nil` when the URL is not of the form `scheme://authority/path`.
    init?(_ target: Target, text url: String) {
        guard let end = Self.authorityEnd(in: url.utf8), let ownEnd = Self.authorityEnd(in: target.url.utf8) else {
            return nil
        }
        self.target = target
        text = Array(url.utf8[..<end])
        prefix = String(target.url[..<ownEnd])
    }

    fileprivate func hasSameText(as other: TargetBase) -> Bool { text == other.text }

    private static func authorityEnd(in url: String.UTF8View) -> String.Index? {
        guard let colon = url.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let slashes = url[url.index(after: colon)...].prefix { $0 == UInt8(ascii: "/") }
        guard slashes.count == 2 else { return nil }
        let end = url[slashes.endIndex...].firstIndex {
            $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#")
        }
        return end.flatMap { url[$0] == UInt8(ascii: "/") ? $0 : nil }
    }

    /// The target of a URL that differs from this one's in path and query only, and has nothing there that parsing would
    /// change; `nil` for all others.
    func target(for url: String) -> Target? {
        url.utf8.withContiguousStorageIfAvailable { bytes -> Target? in
            guard let start = bytes.baseAddress, bytes.count > text.count, memcmp(start, text, text.count) == 0,
                Self.isUnchangedByParsing(UnsafeBufferPointer(rebasing: bytes[text.count...]))
            else { return nil }
            return Target(self, rest: UnsafeBufferPointer(rebasing: bytes[text.count...]))
        } ?? nil
    }

    /// Whether a path with its query is taken over as it is: nothing to encode, no segment that is resolved (`.`, `..`),
    /// no escape whose letters libcurl rewrites, no fragment.
    private static func isUnchangedByParsing(_ rest: UnsafeBufferPointer<UInt8>) -> Bool {
        guard rest.first == UInt8(ascii: "/"), rest.last != UInt8(ascii: "?") else { return false }
        var isInQuery = false
        var previous: UInt8 = 0
        for byte in rest {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "="),
                UInt8(ascii: "&"), UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "+"):
                break
            case UInt8(ascii: "/"):
                if previous == UInt8(ascii: "/") { return false }
            case UInt8(ascii: "."):
                if previous == UInt8(ascii: "/"), !isInQuery { return false }
            case UInt8(ascii: "?"):
                if isInQuery { return false }
                isInQuery = true
            default: return false
            }
            previous = byte
        }
        return true
    }
}

/// Keeps the targets used last, by the text they were made from.
final class TargetCache: Sendable {
    /// Two generations: what is used moves to the young one; when that is full the old one is let go. It gives
    /// nearly what a list ordered by use would, for one dictionary look-up a request.
    private struct State {
        var young: [String: Target] = [:]
        var old: [String: Target] = [:]
        /// The bytes of the young ones' texts.
        var youngBytes = 0
        /// Scheme and authority of the last few that were parsed.
        var bases: [TargetBase] = []
        var nextBase = 0
    }

    /// How many targets a generation has at most…
    private let capacity: Int
    /// …and how many bytes their texts.
    private let byteCapacity: Int
    private let state = Mutex(State())

    /// How many hosts' addresses are made from others' of theirs.
    private static let baseLimit = 8

    init(capacity: Int, byteCapacity: Int = 256 << 10) {
        self.capacity = capacity
        self.byteCapacity = byteCapacity
    }

    /// The target of a URL, parsed at most once while it is in use.
    func target(for url: String) throws(NetworkError) -> Target {
        let (known, bases) = state.withLock { state -> (Target?, [TargetBase]) in
            if let target = state.young[url] { return (target, []) }
            guard let target = state.old[url] else { return (nil, state.bases) }
            insert(target, for: url, into: &state)
            return (target, [])
        }
        if let known { return known }
        for base in bases {
            guard let target = base.target(for: url) else { continue }
            state.withLock { insert(target, for: url, into: &$0) }
            return target
        }
        let target = try Target(url)
        let base = TargetBase(target, text: url)
        state.withLock { state in
            insert(target, for: url, into: &state)
            if let base { insert(base, into: &state) }
        }
        return target
    }

    /// How many targets are kept, and the bytes of their texts; for tests.
    var size: (count: Int, bytes: Int) {
        state.withLock { state in
            let texts = Array(state.young.keys) + Array(state.old.keys)
            return (texts.count, texts.reduce(0) { $0 + $1.utf8.count })
        }
    }

    private func insert(_ target: Target, for url: String, into state: inout State) {
        let bytes = url.utf8.count
        // One that would push out a good part of all others is not worth it.
        guard bytes <= byteCapacity / 8 else { return }
        if state.young.count >= capacity || state.youngBytes + bytes > byteCapacity {
            state.old = state.young
            state.young = [:]
            state.youngBytes = 0
        }
        if state.young.updateValue(target, forKey: url) == nil { state.youngBytes += bytes }
    }

    private func insert(_ base: TargetBase, into state: inout State) {
        guard !state.bases.contains(where: { $0.hasSameText(as: base) }) else { return }
        if state.bases.count < Self.baseLimit {
            state.bases.append(base)
        } else {
            state.bases[state.nextBase % Self.baseLimit] = base
            state.nextBase += 1
        }
    }
}
