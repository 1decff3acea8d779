import FoundationEssentials
import HTTPCore

/// What makes two requests the same: method, address, parameters, the headers of their own, the body, the settings that
/// change the answer, and, for requests that share an answer, whose it is.
struct DuplicateKey: Hashable, Sendable {
    private let request: HTTPRequest
    private let simulation: Simulation?
    private var credentials: HTTPHeaders?
    private var partition: String?
    /// The rows of the table, which say what is kept of an answer.
    private var rows: [String?] = []

    /// Fields that differ from one request to the next although the answer does not.
    private static let volatileFields: Set<String> = [
        "traceparent", "tracestate", "idempotency-key", "x-request-id", "date",
    ]

    /// `nil` for a request whose body cannot be read twice, and so not be compared.
    init?(_ request: HTTPRequest, simulation: Simulation? = nil) {
        var compared = HTTPRequest(request.method.rawValue, request.url)
        compared.headers = Self.sorted(request.headers)
        compared.rowHeaders = request.rowHeaders
        compared.replacesGlobalHeaders = request.replacesGlobalHeaders
        if let body = request.body {
            guard let comparable = Self.comparable(body) else { return nil }
            compared.body = comparable
        }
        compared.timeout = request.timeout
        compared.redirects = request.redirects
        compared.decompresses = request.decompresses
        compared.authentication = request.authentication
        compared.cachePolicy = request.cachePolicy
        compared.maxBodySize = request.maxBodySize
        compared.proxy = request.proxy
        compared.version = request.version
        compared.unixSocketPath = request.unixSocketPath
        compared.pinnedPublicKeys = request.pinnedPublicKeys
        compared.sealing = request.sealing
        compared.authenticates = request.authenticates
        self.request = compared
        self.simulation = simulation
    }

    /// The key of a call whose answer is shared: it counts whose answer it is.
    ///
    /// - Parameters:
    ///   - composed: the call's request as it is about to be sent.
    ///   - secrets: the fields that hold credentials.
    init?(sharing call: Call, composed: HTTPRequest, secrets: SecretHeaders) {
        // What is cached is delivered to each caller by itself, so such calls are not shared.
        guard call.details.deliversCached == nil else { return nil }
        self.init(call.request, simulation: call.details.simulation)
        credentials = Self.sorted(
            HTTPHeaders(
                composed.headers.filter { secrets.contains($0.name) || composed.secretHeaders.contains($0.name) }
                    .map { ($0.name, $0.value) }))
        partition = call.details.partition
        rows = [call.details.row?.domain, call.details.row?.server]
    }

    /// By name alone: fields of one name keep their order, which matters.
    private static func sorted(_ headers: HTTPHeaders) -> HTTPHeaders {
        let fields = headers.fields.filter { !volatileFields.contains($0.name.lowercased()) }.enumerated()
            .sorted { ($0.element.name.lowercased(), $0.offset) < ($1.element.name.lowercased(), $1.offset) }
        var sorted = HTTPHeaders()
        for (_, field) in fields {
            if let value = field.value { sorted.append(field.name, value) } else { sorted[field.name] = nil }
        }
        return sorted
    }

    private static func comparable(_ body: HTTPBody) -> HTTPBody? {
        switch body.content {
        case .parameters, .data, .file: body
        case .encoded(let encoder): (try? encoder.encode()).map { .data($0, contentType: body.contentType) }
        case .multipart(let files):
            files.contains { if case .stream = $0.source { true } else { false } } ? nil : body
        case .stream: nil
        }
    }
}
