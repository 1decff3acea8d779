import CLibcurl
import HTTPCore

/// Host names as the DNS has them (IDNA, RFC 5891, with the mapping of UTS #46).
///
/// libcurl can do it when it was built with libidn2, and not every libcurl 8 was; one that was not would ask the resolver, or
/// a proxy, for the letters as they are. So names are written here, by libidn2 itself, and libcurl sees ASCII only: what the
/// guard against private addresses judges is what is connected to, whatever this libcurl was built with.
enum HostName {
    /// Whether international names can be written here, by libidn2 or by libcurl.
    static var canBeWritten: Bool { lat_has_idn() == 1 || GlobalCurl.has(CURL_VERSION_IDN) }

    /// Writes the host of a URL in ASCII when it is not; the parts of the URL that follow from the host follow.
    ///
    /// - Throws: ``NetworkError/Kind/unsupported`` when nothing here knows how,
    ///   ``NetworkError/Kind/invalidRequest`` when the name is none.
    static func write(in handle: OpaquePointer, host: String) throws(NetworkError) {
        guard !host.utf8.allSatisfy({ $0 < 0x80 }) else { return }
        guard let ascii = try ascii(host, handle) else {
            throw .invalidRequest(
                "the host \"\(host)\" is no name that can be looked up (IDNA); check it for letters and signs that "
                    + "names may not have")
        }
        // Read again as a whole: the digits of other scripts may have turned into an IPv4 address, which has other forms.
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_set(handle, CURLUPART_HOST, ascii, 0) == CURLUE_OK,
            curl_url_get(handle, CURLUPART_URL, &text, 0) == CURLUE_OK, let text
        else { throw .invalidRequest("the host \"\(host)\" means \"\(ascii)\", which is no host") }
        defer { curl_free(text) }
        let code = curl_url_set(handle, CURLUPART_URL, text, 0)
        guard code == CURLUE_OK else {
            throw .invalidRequest("the host \"\(host)\" means \"\(ascii)\", which is no host")
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
                    + "write such names: install libidn2 (Debian: libidn2-0), or give the name as the DNS has it (xn--…)"
            )
        }
        guard lat_url_ascii_host(handle, &text) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
