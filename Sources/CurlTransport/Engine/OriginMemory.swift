import CLibcurl
import HTTPCore

/// What a manager knows of origins from their answers: which want TLS, and where else they can be reached.
struct OriginMemory: Sendable {
    let hsts: HSTSStore?
    let alternatives: AlternativeServices?
    /// Requests go where the app says, and not where servers do.
    private let connectsElsewhere: Bool

    /// `nil` when nothing is to be kept.
    init?(_ configuration: EngineConfiguration) throws(NetworkError) {
        hsts = try HSTSStore(configuration)
        alternatives = try AlternativeServices(configuration)
        connectsElsewhere = !configuration.connectTo.isEmpty || configuration.unixSocketPath != nil
        if hsts == nil, alternatives == nil { return nil }
    }

    /// Where a request goes in its origin's place. HTTP/3 goes before what else the origin names, where this libcurl has it and
    /// neither request nor manager name a version.
    func alternative(for request: HTTPRequest, _ target: Target, _ plan: TransferPlan) -> AlternativeService? {
        guard let alternatives, !connectsElsewhere, plan.proxy == nil, request.unixSocketPath == nil,
            request.body?.isReplayable ?? true
        else { return nil }
        if plan.version == VersionChoice.automatic, GlobalCurl.has(CURL_VERSION_HTTP3),
            let service = alternatives.alternative(for: target, speaking: AlternativeService.http3)
        {
            return service
        }
        return alternatives.alternative(for: target)
    }

    /// Reads an answer. Returns whether the request has to go to another place, because this one does not speak for the
    /// origin.
    func note(_ response: HTTPResponse, to transfer: Transfer) -> Bool {
        hsts?.note(response.headers, of: transfer.target)
        alternatives?.note(response, of: transfer.target)
        guard response.status == 421, let alternative = transfer.plan.alternative else { return false }
        alternatives?.setAside(alternative, of: transfer.target)
        return true
    }

    /// Whether the request that failed has to go to another place, because no connection came about at this one.
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
