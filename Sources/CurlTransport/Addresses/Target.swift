import CLibcurl
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

    var isSecure: Bool { scheme == "https" }

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
        guard let host = Target.part(CURLUPART_HOST, of: handle), !host.isEmpty else {
            curl_url_cleanup(handle)
            throw .invalidRequest("the URL \"\(URLText.redacted(text))\" has no host")
        }
        let port = Target.part(CURLUPART_PORT, of: handle, flags: UInt32(CURLU_DEFAULT_PORT)) ?? ""
        origin = "\(scheme)://\(host):\(port)"
        self.host = Target.isPlain(host) ? host : Target.asciiHost(of: handle) ?? host
        // The fragment is for the reader of the URL and never sent (RFC 9110 §7.1).
        _ = curl_url_set(handle, CURLUPART_FRAGMENT, nil, 0)
        url = Target.part(CURLUPART_URL, of: handle) ?? encoded
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

/// Keeps the targets used last, by the text they were made from.
final class TargetCache: Sendable {
    /// Two generations: what is used moves to the young one; when that is full the old one is let go. It gives
    /// nearly what a list ordered by use would, for one dictionary look-up a request.
    private struct State {
        var young: [String: Target] = [:]
        var old: [String: Target] = [:]
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) { self.capacity = capacity }

    /// The target of a URL, parsed at most once while it is in use.
    func target(for url: String) throws(NetworkError) -> Target {
        let known = state.withLock { state -> Target? in
            if let target = state.young[url] { return target }
            guard let target = state.old[url] else { return nil }
            insert(target, for: url, into: &state)
            return target
        }
        if let known { return known }
        let target = try Target(url)
        state.withLock { insert(target, for: url, into: &$0) }
        return target
    }

    private func insert(_ target: Target, for url: String, into state: inout State) {
        if state.young.count >= capacity {
            state.old = state.young
            state.young = [:]
        }
        state.young[url] = target
    }
}
