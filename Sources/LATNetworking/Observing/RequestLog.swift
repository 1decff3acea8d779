import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization

/// Logs requests and responses. Nothing is logged unless it is among the accessories.
///
/// ```swift
/// configuration.accessories = [RequestLog(.summary)]
/// configuration.accessories = [RequestLog(.curl) { line in print(line) }]
/// ```
///
/// Secrets are omitted: those listed by the manager's ``CentralRequestManager/Configuration/secrets`` and by the request's
/// row, `Set-Cookie`, and user and password of a URL. Long bodies are cut, binary ones are logged by their size, and
/// streamed ones are not read. Bodies may contain other secrets, so keep the log itself protected.
public struct RequestLog: RequestAccessory {
    /// The format of a log.
    public enum Format: Hashable, Sendable {
        /// One line for each call when it has ended.
        case summary
        /// The head and body of each request and response.
        case full
        /// A curl command for each request, to repeat it.
        case curl
    }

    /// The format.
    public let format: Format
    /// The maximum number of bytes of a body that are logged. Default 4 KiB.
    public var bodyLimit = 4_096
    private let secrets = LoggedSecrets()
    private let write: @Sendable (String) -> Void

    /// Creates a log.
    ///
    /// - Parameters:
    ///   - format: The format of the entries.
    ///   - write: Receives each entry, of one or more lines without a final line feed. Default: standard error.
    public init(_ format: Format, write: @escaping @Sendable (_ entry: String) -> Void = RequestLog.standardError) {
        self.format = format
        self.write = write
    }

    /// Writes an entry to standard error.
    public static let standardError: @Sendable (String) -> Void = { entry in
        TextOutput.write(entry + "\n", to: STDERR_FILENO)
    }

    /// Logs an event.
    public func handle(_ event: CallEvent) {
        switch (format, event.kind) {
        case (.curl, .sending(_, let request)):
            secrets.note(request, of: event.call, bodyLimit)
            log(CurlCommand(.log(event.call.secrets, bodyLimit: bodyLimit)).text(of: request), of: event.call)
        case (.full, .sending(let attempt, let request)):
            secrets.note(request, of: event.call, bodyLimit)
            log(text(of: request, event.call.secrets, "--> [\(event.call.id)] attempt \(attempt)"), of: event.call)
        case (.full, .answered(let attempt, let response)):
            secrets.note(response, of: event.call)
            log(text(of: response, event.call.secrets, "<-- [\(event.call.id)] attempt \(attempt)"), of: event.call)
        case (.full, .failed(let attempt, let error)):
            let text = "<-- [\(event.call.id)] attempt \(attempt): \(URLText.visible(error.description))"
            log(text, of: event.call)
        case (.full, .retrying(let wait)):
            write("    [\(event.call.id)] retrying in \(wait)")
        case (.summary, .sending(_, let request)):
            secrets.note(request, of: event.call, 0)
        case (.summary, .finished(let result)):
            log(summary(event.call, result, after: event.offset), of: event.call)
            secrets.forget(event.call)
        case (_, .finished): secrets.forget(event.call)
        default:
            break
        }
    }

    private func log(_ entry: String, of call: ObservedCall) { write(secrets.shown(entry, of: call)) }

    private func summary(
        _ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>, after time: Duration
    ) -> String {
        let milliseconds = Int64((time.inSeconds * 1000).rounded())
        // The URL that responded or failed, which may be that of a mirror or of the last hop.
        let url =
            switch result {
            case .success(let response): response.source == .network ? response.url : call.request.url
            case .failure(let error): error.url ?? call.request.url
            }
        let what = "\(call.request.method) \(call.secrets.shown(url: url))"
        let end =
            switch result {
            case .success(let response):
                "\(response.status) in \(milliseconds) ms, \(size(of: response.body)), \(response.source.rawValue)"
            case .failure(let error) where error.response != nil:
                "\(error.kind), status \(error.response?.status ?? 0), in \(milliseconds) ms"
            case .failure(let error): "\(error.kind) in \(milliseconds) ms"
            }
        return URLText.visible("\(what) -> \(end)\(call.tag.map { " [\($0)]" } ?? "")")
    }

    private func size(of body: ResponseBody) -> String { body.data.map { "\($0.count) bytes" } ?? "streamed" }

    private func text(of request: HTTPRequest, _ secrets: Secrets, _ title: String) -> String {
        let body = request.body.map {
            BodyText(limit: bodyLimit, secrets: secrets).text(of: $0, request.headers["Content-Type"])
        }
        return text("\(title): \(request.method) \(secrets.shown(url: request.url))", request.headers, body, secrets)
    }

    private func text(of response: HTTPResponse, _ secrets: Secrets, _ title: String) -> String {
        let body = response.body.data.map {
            BodyText(limit: bodyLimit, secrets: secrets).text(of: $0, response.headers["Content-Type"])
        }
        let line = "\(title): \(response.version) \(response.status) \(response.reason)"
        return text(line, response.headers, body ?? "(streamed)", secrets)
    }

    private func text(_ line: String, _ headers: HTTPHeaders, _ body: String?, _ secrets: Secrets) -> String {
        let fields = headers.map { "\($0.name): \(secrets.shown($0.value, of: $0.name))" }
        let head = ([line] + fields).map { URLText.visible($0) }
        return (head + (body.map { ["", $0] } ?? [])).joined(separator: "\n")
    }
}

/// What was secret in the requests of the calls that run, so that it is also removed where it has no name: in a path, an echo
/// of the server, the text of an error.
private final class LoggedSecrets: Sendable {
    private let calls = Mutex<[UInt64: Redactor]>([:])

    func note(_ request: HTTPRequest, of call: ObservedCall, _ bodyLimit: Int) {
        change(call) { redactor in
            redactor.noteCredentials(of: request)
            _ = redactor.url(request.url)
            for (name, value) in request.headers { _ = redactor.field(name, value) }
            if let body = request.body, case .data(let data) = body.content, data.count <= bodyLimit {
                note(data, request.headers["Content-Type"] ?? body.contentType, in: &redactor)
            }
        }
    }

    func note(_ response: HTTPResponse, of call: ObservedCall) {
        change(call) { redactor in
            for (name, value) in response.headers { _ = redactor.field(name, value) }
        }
    }

    private func note(_ data: Data, _ type: String?, in redactor: inout Redactor) {
        let isForm = type?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true
        if isForm, let text = String(validating: data, as: UTF8.self) {
            _ = redactor.form(text)
        } else {
            _ = redactor.bytes(data)
        }
    }

    func shown(_ entry: String, of call: ObservedCall) -> String {
        var redactor = calls.withLock { $0[call.id] } ?? Redactor(call.secrets)
        return redactor.scrubbed(redactor.text(entry))
    }

    func forget(_ call: ObservedCall) { calls.withLock { $0[call.id] = nil } }

    private func change(_ call: ObservedCall, _ change: (inout Redactor) -> Void) {
        var redactor = calls.withLock { $0[call.id] } ?? Redactor(call.secrets)
        change(&redactor)
        calls.withLock { [redactor] in $0[call.id] = redactor }
    }
}

/// A body as log text: the beginning of a text, or the size of anything else.
struct BodyText: Sendable {
    let limit: Int
    let secrets: Secrets

    /// - Parameter type: the field `Content-Type` of the request, which wins over the body's own type.
    func text(of body: HTTPBody, _ type: String?) -> String {
        let type = type ?? body.contentType
        return switch body.content {
        case .parameters(let encoding): "(parameters as \(encoding.rawValue))"
        case .encoded(let encoder):
            (try? encoder.encode()).map { text(of: $0, type) } ?? "(cannot be encoded)"
        case .data(let data): text(of: data, type)
        case .file(let path): "(the file \(URLText.visible(path)))"
        case .stream: "(a stream)"
        case .multipart(let files):
            files.map {
                "(part \(URLText.visible($0.name))\($0.fileName.map { ", file " + URLText.visible($0) } ?? ""))"
            }
            .joined(separator: "\n")
        }
    }

    func text(of data: Data, _ type: String?) -> String {
        guard !data.isEmpty else { return "(empty)" }
        guard let whole = redacted(data, type) else { return "(\(data.count) bytes)" }
        guard whole.utf8.count > limit else { return whole }
        let cut = String(decoding: whole.utf8.prefix(limit), as: UTF8.self)
        return "\(cut)… (\(data.count) bytes in all)"
    }

    /// `nil` for what is not text, and for what seems to be JSON but was not parsed as an object or array.
    private func redacted(_ data: Data, _ type: String?) -> String? {
        let type = type?.lowercased() ?? ""
        if type.hasPrefix("application/x-www-form-urlencoded") {
            return secrets.shown(form: String(decoding: data, as: UTF8.self))
        }
        // A document of more than 1 MiB is not parsed, so that the log does not cost more than the call.
        if type.contains("json") || type.isEmpty, data.count <= 1 << 20, let value = try? JSONValue(parsing: data),
            value.object != nil || value.array != nil
        {
            return secrets.shown(json: value).description
        }
        // A JSON document that was not parsed may have secrets anywhere.
        guard !type.contains("json"), !(type.isEmpty && (data.first == 0x7B || data.first == 0x5B)) else { return nil }
        guard let text = String(validating: data.prefix(limit + 4), as: UTF8.self), !text.utf8.contains(0) else {
            // The limit may have split a character at the end.
            return String(validating: data.prefix(max(0, limit - 4)), as: UTF8.self).flatMap {
                $0.utf8.contains(0) || data.count <= limit ? nil : $0 + "…"
            }
        }
        return text
    }
}
