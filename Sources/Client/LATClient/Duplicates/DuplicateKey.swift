import CurlTransport
import FoundationEssentials
import HTTPCore
import ResponseCache

/// What makes two requests equal: method, URL, parameters, their own headers, the body, the settings that
/// affect the response, and, for requests that share a response, all fields as they are sent, partition and rows.
struct DuplicateKey: Hashable, Sendable {
    private var request: HTTPRequest
    private let simulation: Simulation?
    /// The versions of the body's files, which may change while an equal request runs.
    private var files: [FileVersion?] = []
    /// All fields as they are sent.
    private var sent: HTTPHeaders?
    private var partition: ExactText?
    /// The names of the rows, because the rows decide whether a response is stored.
    private var rows: [ExactText?] = []

    /// Fields that may differ between equal requests, because they do not affect the response.
    private static let volatileFields: Set<String> = [
        "traceparent", "tracestate", "idempotency-key", "x-request-id", "date",
    ]

    /// `nil` for a request whose body can be read only once, and so cannot be compared.
    init?(_ request: HTTPRequest, simulation: Simulation? = nil) {
        var compared = HTTPRequest(request.method.rawValue, request.url)
        compared.headers = Self.sorted(request.headers)
        compared.context.rowHeaders = request.context.rowHeaders
        if let body = request.body {
            guard let comparable = Self.comparable(body) else { return nil }
            compared.body = comparable
            files = Self.files(of: comparable)
        }
        if !request.options.isStandard { compared.options = request.options.only(.response) }
        self.request = compared
        self.simulation = simulation
    }

    /// The key of a call that shares its response, including the fields that are sent, partition and rows.
    ///
    /// - Parameters:
    ///   - composed: the call's request as it is about to be sent.
    ///   - volatileParameters: the parameters that equal requests may differ in, besides those of the row.
    init?(sharing call: Call, composed: HTTPRequest, volatileParameters: Set<String> = []) {
        // A shared call could deliver a cached response before the network's to one of its callers only.
        guard call.details.deliversCached == nil else { return nil }
        let rule = KeyRule(volatileParameters: volatileParameters.union(call.details.row?.volatileParameters ?? []))
        var compared = call.request
        // As sent: interceptors and providers may have added what belongs to one user or tenant.
        compared.method = composed.method
        compared.url = rule.reduced(composed.url)
        compared.body = composed.body
        self.init(compared, simulation: call.details.simulation)
        if case .data(let data)? = request.body?.content {
            request.body = .data(
                rule.comparable(data, request.headers["Content-Type"] ?? request.body?.contentType),
                contentType: request.body?.contentType)
        }
        // An authenticator may set these instead of a field.
        request.authentication = composed.authentication
        request.tls = composed.tls
        sent = Self.sorted(composed.headers)
        partition = call.details.partition.map(ExactText.init)
        rows = [call.details.row?.domain, call.details.row?.server].map { $0.map(ExactText.init) }
    }

    /// Sorts by name only, because the order of fields with the same name matters.
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

    private static func files(of body: HTTPBody) -> [FileVersion?] {
        switch body.content {
        case .file(let path): [try? UploadedFile.version(of: path)]
        case .multipart(let parts):
            parts.map { part in
                guard case .path(let path) = part.source else { return nil }
                return try? UploadedFile.version(of: path)
            }
        case .parameters, .data, .encoded, .stream: []
        }
    }
}
