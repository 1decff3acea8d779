import CLibcurl
internal import HTTPCore

/// What origins announced in their responses: that they require TLS (HSTS), and their alternative services.
struct OriginStore: Sendable {
    let hsts: HSTSStore?
    let alternatives: AlternativeServices?
    /// Whether `connectTo` or `unixSocketPath` sets where requests connect, so that alternative services do not apply.
    private let connectsElsewhere: Bool

    init?(_ configuration: EngineConfiguration) throws(NetworkError) {
        hsts = try HSTSStore(configuration)
        alternatives = try AlternativeServices(configuration)
        connectsElsewhere = !configuration.connectTo.isEmpty || configuration.unixSocketPath != nil
        if hsts == nil, alternatives == nil { return nil }
    }

    /// Returns the alternative service that a request uses; `nil` for none. HTTP/3 services, which may have the host
    /// and port of the origin, come first if this libcurl supports them and neither the request nor the manager sets a
    /// version.
    func alternative(for request: HTTPRequest, _ target: Target, _ plan: TransferPlan) -> AlternativeService? {
        guard let alternatives, !connectsElsewhere, plan.proxy == nil, request.unixSocketPath == nil,
            request.body?.isReplayable ?? true
        else { return nil }
        if plan.version == VersionChoice.automatic, GlobalCurl.has(CURL_VERSION_HTTP3),
            let service = alternatives.alternative(for: target, speaking: [AlternativeService.http3])
        {
            return service
        }
        let service = alternatives.alternative(for: target, speaking: AlternativeServices.protocols)
        return service.flatMap { $0.isOrigin(of: target) ? nil : $0 }
    }

    /// Stores what a response announces. Returns whether the request must be sent again, because the alternative service
    /// is not authoritative for the origin (421).
    func note(_ response: HTTPResponse, to transfer: Transfer) -> Bool {
        hsts?.note(response.headers, of: transfer.target)
        alternatives?.note(response, of: transfer.target)
        guard response.status == 421, let alternative = transfer.plan.alternative else { return false }
        alternatives?.setAside(alternative, of: transfer.target)
        return true
    }

    /// Returns whether a failed request must be sent again, because the alternative service could not be connected to.
    func note(_ error: NetworkError, of transfer: Transfer) -> Bool {
        guard let alternative = transfer.plan.alternative else { return false }
        switch error.kind {
        case .connect, .dns, .tls, .timeout(.connect), .addressBlocked: break
        default: return false
        }
        alternatives?.setAside(alternative, of: transfer.target)
        return true
    }

    func flush() async {
        await hsts?.flush()
        await alternatives?.flush()
    }
}
