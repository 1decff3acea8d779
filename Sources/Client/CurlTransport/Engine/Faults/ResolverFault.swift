import CLibcurl
internal import HTTPCore

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
