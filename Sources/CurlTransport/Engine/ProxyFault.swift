import CLibcurl
import HTTPCore

/// A failure that is the proxy's, or of the way to it, and not the server's.
struct ProxyFault {
    let message: String

    /// `nil` when the failure is not the proxy's, or there is none on the way.
    init?(_ code: CURLcode, said: String, handle: EasyHandle, transfer: Transfer) {
        guard let proxy = transfer.plan.proxy else { return nil }
        let name = ProxyPolicy.url(proxy.url).description
        let answer = handle.long(CURLINFO_HTTP_CONNECTCODE)
        switch code {
        case CURLE_COULDNT_RESOLVE_PROXY:
            message = "the name of the proxy \(name) was not found (\(said)); check the proxy setting"
        case CURLE_PROXY:
            message = "the proxy \(name) did not connect to \(transfer.target.origin): \(Self.reason(handle) ?? said)"
        case _ where answer == 407:
            message = Self.credentials(transfer)
        case _ where answer >= 300:
            message =
                "the proxy \(name) answered \(answer) and opens no tunnel to \(transfer.target.origin); is the host "
                + "reachable from there, and the port allowed?"
        // Only after its answer was looked at: libcurl 8 has this code for a tunnel that is refused too.
        case CURLE_COULDNT_CONNECT:
            message = "the proxy \(name) cannot be reached (\(said)); is it running, and is the port right?"
        case _ where Self.isTLS(code) && proxy.url.hasPrefix("https:") && (answer == 0 || !transfer.target.isSecure):
            message = "TLS with the proxy \(name) failed: \(said); its authority has to be among those of tls.caFile"
        default:
            return nil
        }
    }

    static func credentials(_ transfer: Transfer) -> String {
        let name = transfer.plan.proxy.map { ProxyPolicy.url($0.url).description } ?? ""
        return "the proxy \(name) wants user and password, or others (407); put them into its URL, percent-encoded: "
            + "http://user:password@host:port"
    }

    private static func isTLS(_ code: CURLcode) -> Bool {
        switch code {
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_CACERT_BADFILE:
            true
        default: false
        }
    }

    /// What a SOCKS proxy gave as its reason (`CURLINFO_PROXY_ERROR`; RFC 1928 §6).
    private static func reason(_ handle: EasyHandle) -> String? {
        switch CURLproxycode(UInt32(clamping: handle.long(CURLINFO_PROXY_ERROR))) {
        case CURLPX_BAD_ADDRESS_TYPE, CURLPX_REPLY_ADDRESS_TYPE_NOT_SUPPORTED:
            "it does not know this kind of address; try socks5h://, or socks5:// for addresses"
        case CURLPX_USER_REJECTED, CURLPX_NO_AUTH, CURLPX_IDENTD, CURLPX_IDENTD_DIFFER, CURLPX_REQUEST_FAILED:
            "it refused user and password, or the request; put the right ones into its URL"
        case CURLPX_REPLY_GENERAL_SERVER_FAILURE: "it failed, or cannot reach the host"
        case CURLPX_REPLY_NOT_ALLOWED: "its rules do not allow this host"
        case CURLPX_REPLY_NETWORK_UNREACHABLE: "it cannot reach the network"
        case CURLPX_REPLY_HOST_UNREACHABLE: "it cannot reach the host, or did not find its name"
        case CURLPX_REPLY_CONNECTION_REFUSED: "the host refused the connection; does the server run?"
        case CURLPX_REPLY_TTL_EXPIRED: "the host is too far from it (TTL expired)"
        case CURLPX_REPLY_COMMAND_NOT_SUPPORTED: "it does not know CONNECT"
        case CURLPX_RESOLVE_HOST: "the host's name was not found; with socks5h:// the proxy looks it up"
        case CURLPX_BAD_VERSION, CURLPX_UNKNOWN_MODE: "it does not speak this version of SOCKS"
        case CURLPX_CLOSED: "it closed the connection"
        default: nil
        }
    }
}
