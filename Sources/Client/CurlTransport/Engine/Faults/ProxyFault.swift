import CLibcurl
internal import HTTPCore

/// A failure of the proxy, or of the connection to it, rather than of the server.
enum ProxyFault {
    /// Describes the proxy's fault; `nil` when there is no proxy or it did not cause the failure.
    static func message(_ code: CURLcode, detail: String, handle: EasyHandle, transfer: Transfer) -> String? {
        guard let proxy = transfer.plan.proxy else { return nil }
        let name = ProxyPolicy.url(proxy.url).description
        let answer = handle.long(CURLINFO_HTTP_CONNECTCODE)
        return switch code {
        case CURLE_COULDNT_RESOLVE_PROXY:
            "the name of the proxy \(name) was not found (\(detail)); check the proxy setting"
        case CURLE_PROXY:
            "the proxy \(name) did not connect to \(transfer.target.origin): \(reason(handle) ?? detail)"
        case _ where answer == 407:
            credentials(transfer)
        case _ where (100..<200).contains(answer):
            "the proxy \(name) opened no tunnel to \(transfer.target.origin): after the interim response \(answer) came no "
                + "final one that this version of libcurl reads; check the proxy"
        case _ where answer >= 300:
            "the proxy \(name) answered \(answer) instead of opening a tunnel to \(transfer.target.origin); check "
                + "that it can reach the host and allows the port"
        // Checked after the proxy's response, because libcurl 8 also returns this code for a refused tunnel.
        case CURLE_COULDNT_CONNECT:
            "the proxy \(name) cannot be reached (\(detail)); is it running, and is the port right?"
        case _ where isTLS(code) && proxy.isSecure && isOfProxy(handle, answer, transfer):
            "TLS with the proxy \(name) failed: \(detail); add its authority to tls.caFile"
        default: nil
        }
    }

    static func credentials(_ transfer: Transfer) -> String {
        let name = transfer.plan.proxy.map { ProxyPolicy.url($0.url).description } ?? ""
        return "the proxy \(name) requires credentials, or rejects those it got (407); put user and password into its "
            + "URL, percent-encoded: http://user:password@host:port"
    }

    /// Whether a TLS failure occurred in the handshake with the proxy, and not with the server behind it.
    private static func isOfProxy(_ handle: EasyHandle, _ answer: Int, _ transfer: Transfer) -> Bool {
        handle.handshake.map(\.isWithProxy) ?? (answer == 0 || !transfer.target.isSecure)
    }

    private static func isTLS(_ code: CURLcode) -> Bool {
        [CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_CACERT_BADFILE]
            .contains(code)
    }

    /// The reason that a SOCKS proxy gave (`CURLINFO_PROXY_ERROR`; RFC 1928 §6).
    private static func reason(_ handle: EasyHandle) -> String? {
        switch CURLproxycode(UInt32(clamping: handle.long(CURLINFO_PROXY_ERROR))) {
        case CURLPX_BAD_ADDRESS_TYPE, CURLPX_REPLY_ADDRESS_TYPE_NOT_SUPPORTED:
            "it does not support this kind of address; try socks5h://, or socks5:// for IP addresses"
        case CURLPX_USER_REJECTED, CURLPX_NO_AUTH, CURLPX_IDENTD, CURLPX_IDENTD_DIFFER, CURLPX_REQUEST_FAILED:
            "it rejected the credentials or the request; check user and password in its URL"
        case CURLPX_REPLY_GENERAL_SERVER_FAILURE: "it failed, or cannot reach the host"
        case CURLPX_REPLY_NOT_ALLOWED: "its rules do not allow this host"
        case CURLPX_REPLY_NETWORK_UNREACHABLE: "it cannot reach the network"
        case CURLPX_REPLY_HOST_UNREACHABLE: "it cannot reach the host, or did not find its name"
        case CURLPX_REPLY_CONNECTION_REFUSED: "the host refused the connection; is the server running?"
        case CURLPX_REPLY_TTL_EXPIRED: "the host is too far from it (TTL expired)"
        case CURLPX_REPLY_COMMAND_NOT_SUPPORTED: "it does not support CONNECT"
        case CURLPX_RESOLVE_HOST: "the host's name was not found; with socks5h:// the proxy looks it up"
        case CURLPX_BAD_VERSION, CURLPX_UNKNOWN_MODE: "it does not support this version of SOCKS"
        case CURLPX_CLOSED: "it closed the connection"
        default: nil
        }
    }
}

/// A failure of the resolver that `nameResolver` sets.
struct ResolverFault {
    let kind: NetworkError.Kind
    let message: String

    /// Finds the resolver's fault; `nil` when no such resolver caused the failure.
    init?(_ code: CURLcode, detail: String, handle: EasyHandle, transfer: Transfer) {
        let configuration = handle.engine.configuration
        guard transfer.machine.attempts.connectionsUsed == 0, transfer.plan.proxy == nil else { return nil }
        let name: String
        let isHTTPS: Bool
        switch configuration.nameResolver {
        case .https(let url): (name, isHTTPS) = ("the DNS server \(URLParts.redacted(url)) (nameResolver)", true)
        case .servers(let servers):
            (name, isHTTPS) = ("the DNS server \(servers.joined(separator: " or ")) (nameResolver)", false)
        case .system: return nil
        }
        let host = transfer.target.host
        switch code {
        // Without IPv6, libcurl 7.88 returns CURLE_OUT_OF_MEMORY when the DNS server returned no address.
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_OUT_OF_MEMORY:
            kind = .dns
            message =
                "\(name) returned no address for \(host); check the host for a typo, and whether the server is "
                + (isHTTPS ? "reachable, is trusted and speaks DNS over HTTPS (RFC 8484)" : "reachable")
        case CURLE_OPERATION_TIMEDOUT where handle.offset(CURLINFO_NAMELOOKUP_TIME_T) == 0:
            let plan = transfer.plan
            let isTotal = plan.timeout > 0 && plan.timeout < plan.connectTimeout
            kind = .timeout(isTotal ? .total : .connect)
            message =
                "\(name) returned no address for \(host) within \(isTotal ? plan.timeout : plan.connectTimeout) ms; "
                + (isHTTPS ? "is it running, and does it speak DNS over HTTPS (RFC 8484)?" : "is it running?")
        default: return nil
        }
    }
}
