import CurlTransport
import HTTPCore
import Platform

/// Details of a call that are not part of its request.
struct CallDetails: Sendable {
    /// What the call's route determines; `nil` for a call without a route.
    var row: CallRow?
    /// The possible addresses, the preferred one first, without the call's own parameters.
    var addresses: [String] = []
    /// How values are encoded and decoded; `nil` for the standard coding.
    var coding: CodingRules?
    /// The manager's judge of responses, for a call without a route; ``row`` has its own.
    var judge: SuccessJudge?
    /// Parameters, files and body, to encode them again for another address or with common parameters.
    var content: RequestContent?
    /// The names of the call's own parameters, for an address that a response has given and that may repeat them; `nil` for
    /// every other address.
    var linkedNames: [String]?
    /// Whether a response has named the address, so that the statuses of the row are those of another call.
    var isLinked = false
    /// The simulation that responds instead of the server.
    var simulation: Simulation?
    /// The path with its parameters filled in and without the base URL, to look fixtures up.
    var filledPath: String?
    /// The entity, to select the call for cancellation.
    var entity: EntityReference?
    /// The header fields of the entity itself.
    var entityHeaders = HTTPHeaders()
    /// The user's cache partition, read once: a user who signs in during the call gets none of its responses.
    var partition: String?
    /// Receives the bytes that are read from an upload's files.
    var bodyHandler: BodyHandler?
    /// Receives the interim responses.
    var interimHandler: InterimHandler?
    /// Receives the cached response before the network is asked.
    var deliversCached: CachedReplyHandler?

    /// Decides whether a response with status 2xx is a success, and may be stored; `nil` when every one is.
    var verdict: ReplyDecoder? {
        guard let decoder = row?.decoder else { return judge.map { ReplyDecoder(judge: $0) } }
        return decoder.envelope != nil || decoder.judge != nil ? decoder : nil
    }
}

/// A closure that receives a call's cached response. It is released when the call ends, because the app may keep the
/// call's handle longer.
package final class CachedReplyHandler: Sendable {
    package typealias Handler = @Sendable (HTTPResponse, Call) -> Void

    private let handler: HeldClosure<Handler>

    init(_ handler: @escaping Handler) { self.handler = HeldClosure(handler) }

    func callAsFunction(_ response: HTTPResponse, _ call: Call) { handler.closure?(response, call) }

    func release() { handler.take() }
}

/// What a route determines for its calls, apart from the request and its settings.
final class CallRow: Sendable {
    /// What observers see: the names of the rows and the path.
    let observed: ObservedCall.Row
    var domain: String? { observed.domain }
    var server: String? { observed.server }
    /// The path with its parameter names in braces.
    var path: String { observed.path }
    /// The key of the mirrors' state: domain and base URLs, so that the state is reset when the row changes.
    let mirrorKey: String
    /// Parameters that are not part of the cache key.
    let volatileParameters: Set<String>
    /// The limits and the circuits of the rows.
    let limits: RowLimits
    /// How event streams are read.
    let events: DomainTable.EventSettings
    /// How its calls get their token; `nil` for the manager's way.
    let oauth2: DomainTable.OAuth2Rule?
    /// The authenticator that the rows choose.
    let authenticator: RequestOptions.AuthenticatorChoice
    /// How files are uploaded so that an upload can go on; `nil` for in one request.
    let uploads: ResumableUpload?
    /// What a document says of its calls.
    let documented: DomainTable.DocumentedSettings
    /// Decides whether a response is a success, and decodes it.
    let decoder: ReplyDecoder

    init(
        domain: String? = nil, server: String? = nil, path: String, mirrorKey: String = "",
        volatileParameters: Set<String> = [], limits: RowLimits = RowLimits(),
        events: DomainTable.EventSettings = DomainTable.EventSettings(),
        headerOrigins: [String: DomainTable.SettingOrigin] = [:], oauth2: DomainTable.OAuth2Rule? = nil,
        authenticator: RequestOptions.AuthenticatorChoice = .automatic, uploads: ResumableUpload? = nil,
        documented: DomainTable.DocumentedSettings = DomainTable.DocumentedSettings(), _ decoder: ReplyDecoder
    ) {
        observed = ObservedCall.Row(domain: domain, server: server, path: path, headerOrigins: headerOrigins)
        self.documented = documented
        self.mirrorKey = mirrorKey
        self.volatileParameters = volatileParameters
        self.limits = limits
        self.events = events
        self.oauth2 = oauth2
        self.authenticator = authenticator
        self.uploads = uploads
        self.decoder = decoder
    }
}

/// The limits and the circuits that the rows of a call set.
struct RowLimits: Sendable {
    /// What one row sets.
    struct Row: Sendable {
        var limits: RequestLimits?
        /// `nil` for that of the broader row or of the manager.
        var circuit: RequestLimits.CircuitChoice?

        var isEmpty: Bool { limits == nil && circuit == nil }
        /// Of a server row: whether it frees its calls from the limits of the domain (`limits: null`).
        var isFree: Bool { limits?.isUnlimited == true }
    }

    /// What the domain sets, or the table's `defaults` for the domain.
    var domain = Row()
    var server = Row()
    /// The number of the table's state that these limits come from. A later state has a higher number, and its limits apply.
    var revision: UInt64 = 0

    init() {}

    init(_ route: DomainTable.ResolvedRoute, revision: UInt64) {
        server = Row(limits: route.row.settings.limits, circuit: route.row.settings.circuit)
        domain = Row(limits: route.domainLimits.wrappedValue, circuit: route.domainCircuit)
        self.revision = revision
    }

    var isEmpty: Bool { domain.isEmpty && server.isEmpty }
}

extension Call {
    /// Whether everything that is sent can be sent again.
    var isReplayable: Bool {
        request.body?.isReplayable ?? true && details.content?.body?.isReplayable ?? true
            && details.content?.files.allSatisfy(\.isReplayable) ?? true
    }

    /// One of the addresses in ``CallDetails/addresses``, with the call's own parameters.
    func url(atAddress index: Int) throws(NetworkError) -> String {
        guard index > 0 else { return request.url }
        guard let content = details.content else { return details.addresses[index] }
        var elsewhere = request
        elsewhere.url = details.addresses[index]
        try RequestBuilder.put(content, into: &elsewhere)
        return elsewhere.url
    }
}
