import FoundationEssentials
import LATNetworking

/// The response of a request, its error, or both.
struct Answer {
    var response: HTTPResponse?
    var envelope: Envelope?
    var error: NetworkError?

    var timings: Timings? { response?.timings ?? error?.timings }
}

/// The facts of a finished request for `--format json`: a pure value.
struct RequestReport {
    var method: String
    var url: String
    var response: HTTPResponse?
    /// The body; `nil` when there is none to show.
    var body: Data?
    /// The file to which the body was written.
    var file: String?
    var timings: Timings?
    var total: Duration
    var error: NetworkError?
    /// The row of the server table; `nil` for a request without one.
    var server: String?
    /// The envelope of the response, when its domain has one.
    var envelope: Envelope?
    /// Whether the report says where the response came from even without a row.
    var showsSource = false
    /// How messages name the settings.
    var words = ErrorWords()

    /// The report as one object. Unknown values are null. The body is `body` when it is text, else `bodyBase64`.
    var json: JSONValue {
        var object: [String: JSONValue] = [
            "method": .string(method),
            "url": .string(response?.url ?? url),
            "status": .null, "reason": .text(response?.reason), "version": .text(response?.version.rawValue),
            "headers": .array([]), "redirects": .array([]),
            "timings": timingsValue,
            "error": error.map(value) ?? .null,
        ]
        if let response {
            object["status"] = .int(Int64(response.status))
            object["headers"] = .array(response.headers.map { .array([.string($0.name), .string($0.value)]) })
            object["redirects"] = .array(
                response.redirects.map { ["url": .string($0.url), "status": .int(Int64($0.status))] })
            if let body { Self.add(body, of: response, to: &object) }
        }
        if showsSource { object["source"] = .text(response?.source.rawValue) }
        if let file { object["file"] = .string(file) }
        if let server {
            object["server"] = .string(server)
            object["source"] = .text(response?.source.rawValue)
            object["envelope"] = envelope.map(Self.value) ?? .null
        }
        return .object(object)
    }

    private static func add(_ body: Data, of response: HTTPResponse, to object: inout [String: JSONValue]) {
        var whole = response
        whole.body = ResponseBody(body)
        // NUL is valid UTF-8 but not text.
        if let text = body.contains(0) ? nil : whole.text {
            object["body"] = .string(text)
        } else {
            object["bodyBase64"] = .string(body.base64EncodedString())
        }
    }

    /// The stages in milliseconds; null for a stage that did not happen.
    private var timingsValue: JSONValue {
        [
            "nameLookup": .milliseconds(timings?.nameLookup),
            "connect": .milliseconds(timings?.connect),
            "tls": .milliseconds(timings?.tls),
            "firstByte": .milliseconds(timings?.firstByte),
            "total": .milliseconds(total),
            "queue": .milliseconds(timings?.queue),
            "connectionReused": .bool(timings?.connectionReused ?? false),
        ]
    }

    private static func value(_ envelope: Envelope) -> JSONValue {
        [
            "code": envelope.code ?? .null,
            "message": .text(envelope.message),
            "data": envelope.data ?? .null,
        ]
    }

    private func value(_ error: NetworkError) -> JSONValue {
        let (kind, detail) = error.kind.names
        return [
            "kind": .string(kind),
            "detail": .text(detail),
            "message": .string(words.message(of: error)),
            "curlCode": error.curlCode.map { .int(Int64($0)) } ?? .null,
            "attempts": .int(Int64(error.attempts)),
            "problem": error.problem.map(Self.value) ?? .null,
            "failure": error.businessFailure.map(Self.value) ?? .null,
        ]
    }

    /// What the server reported: the code as received, the app's name for it, the message, and the details that the rows name.
    private static func value(_ failure: BusinessFailure) -> JSONValue {
        [
            "code": failure.envelope.code ?? .null, "name": .text(failure.name), "message": .text(failure.message),
            "details": failure.envelope.data ?? .null,
        ]
    }

    private static func value(_ problem: HTTPResponse.Problem) -> JSONValue {
        .object(
            problem.members.merging([
                "type": .string(problem.type), "title": .text(problem.title),
                "status": problem.status.map { .int(Int64($0)) } ?? .null, "detail": .text(problem.detail),
                "instance": .text(problem.instance),
            ]) { _, own in own })
    }
}

extension NetworkError.Kind {
    /// The name of the kind and its detail: the phase of a timeout, the reason of a TLS failure, the path of a decoding
    /// failure or the code of a business failure.
    var names: (kind: String, detail: String?) {
        switch self {
        case .tls(let failure): ("tls", failure.rawValue)
        case .timeout(let phase): ("timeout", phase.rawValue)
        case .decoding(let path): ("decoding", path.isEmpty ? nil : path)
        case .business(let code): ("business", code.isEmpty ? nil : code)
        default: ("\(self)", nil)
        }
    }
}

extension ExitCode {
    /// The exit code for an error of the library.
    init(_ error: NetworkError) {
        switch error.kind {
        case .httpStatus, .business, .decoding, .integrity: self = .failure
        // The command line, the table or a file of this machine cannot be used.
        case .invalidRequest, .unknownName, .unsupported, .simulation, .storage, .requestBody: self = .usage
        case .cancelled: self = .interrupted
        default: self = .network
        }
    }
}
