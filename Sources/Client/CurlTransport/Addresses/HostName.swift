import CLibcurl
internal import HTTPCore

/// Converts internationalized host names to ASCII (IDNA, RFC 5891, with the mapping of UTS #46).
///
/// libcurl converts them only when it was built with libidn2, and some builds of libcurl 8 were not. Such a libcurl
/// passes the unconverted name to the resolver or a proxy. This type calls libidn2 directly, so libcurl sees ASCII
/// only, and the guard against private addresses judges the same host that libcurl connects to.
enum HostName {
    /// Whether international names can be converted.
    static var canBeWritten: Bool { lat_has_idn() == 1 || GlobalCurl.has(CURL_VERSION_IDN) }

    /// A name in lower case, without the dot at its end.
    static func bare(_ host: String) -> String {
        let name = host.lowercased()
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }

    /// Replaces a host that is not ASCII with its ASCII form in a URL handle.
    static func write(in handle: OpaquePointer, host: String) throws(NetworkError) {
        guard !host.utf8.allSatisfy({ $0 < 0x80 }) else { return }
        guard let ascii = try ascii(host, handle) else {
            throw .invalidRequest(
                "the host \"\(host)\" is not a valid international name (IDNA); remove the characters that host "
                    + "names may not contain")
        }
        // Parse the whole URL again: digits of other scripts may have become an IPv4 address, which libcurl normalizes.
        guard curl_url_set(handle, CURLUPART_HOST, ascii, 0) == CURLUE_OK,
            let url = Target.part(CURLUPART_URL, of: handle), curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK
        else {
            throw .invalidRequest(
                "the host \"\(host)\" becomes \"\(ascii)\", which is not a valid host; use letters, digits, hyphens and dots"
            )
        }
    }

    private static func ascii(_ host: String, _ handle: OpaquePointer) throws(NetworkError) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        switch lat_idn_ascii(host, &text) {
        case 1:
            guard let text else { return nil }
            defer { lat_idn_free(text) }
            return String(cString: text)
        case 0: return nil
        default: break
        }
        guard GlobalCurl.has(CURL_VERSION_IDN) else {
            throw NetworkError(
                .unsupported,
                message: "the host \"\(host)\" has letters beyond ASCII, and neither this libcurl nor this system can "
                    + "convert it: install libidn2 (Debian: libidn2-0), or give the name in Punycode (xn--…)"
            )
        }
        return Target.asciiHost(of: handle)
    }
}
