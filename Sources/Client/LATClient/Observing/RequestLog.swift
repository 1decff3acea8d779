public import FoundationEssentials
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
        /// One line of JSON for each call when it has ended, for programs that read logs.
        ///
        /// ```json
        /// {"attempts":1,"call":"request-7","method":"GET","milliseconds":12.3,"receivedBytes":42,"status":200,…}
        /// ```
        ///
        /// Always there: `time` (of the start), `call` (``ObservedCall/key``), `method`, `url`, `attempts` and `milliseconds`.
        /// Where it is known: `status`, `version`, `source`, `domain`, `row`, `path`, `tag`, `trace`, `requestID` (of
        /// `X-Request-ID` or similar), `redirects`, `sentBytes` and `receivedBytes` of the bodies, `timings` of the last
        /// attempt in milliseconds. Of a failure: `error` (its kind), `message`, `cause` and `curlCode`.
        case json
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
        let call = event.call
        switch (format, event.kind) {
        case (.curl, .sending(_, let request)):
            log(call, isNew: true) { CurlCommand(.log).text(of: shown(request, of: call, &$0)) }
        case (.full, .sending(let attempt, let request)):
            log(call, isNew: true) { text(of: shown(request, of: call, &$0), "--> [\(call.id)] attempt \(attempt)") }
        case (.full, .answered(let attempt, let response)):
            log(call) { text(of: response, "<-- [\(call.id)] attempt \(attempt)", &$0) }
        case (.json, .sending(_, let request)): secrets.keep(request, of: call, hop: event.hop)
        case (.json, .answered(_, let response)): secrets.change(call) { _ = fields(response.headers, &$0) }
        case (.json, .finished(let result)):
            let counts = secrets.counts(of: call)
            log(call) { redactor in
                RequestLogLine(
                    call: call, result: result, time: event.offset, attempts: counts.attempts, hops: counts.hops,
                    sent: counts.sent, received: counts.received ?? Self.size(of: result)
                ).text(&redactor)
            }
            secrets.forget(call)
        case (.curl, .answered(_, let response)): secrets.change(call) { _ = fields(response.headers, &$0) }
        case (.full, .failed(let attempt, let error)):
            log(call) { "<-- [\(call.id)] attempt \(attempt): \(URLText.visible($0.text(error.description)))" }
        case (.full, .retrying(let wait)): write("    [\(call.id)] retrying in \(wait)")
        case (.full, .hedging(let delay)): write("    [\(call.id)] no response for \(delay): sent once more")
        case (.full, .abandoned(let attempt)): write("<-- [\(call.id)] attempt \(attempt): another one was faster")
        case (.full, .undocumentedStatus(let status)): write("    [\(call.id)] the document has no status \(status)")
        case (.full, .unknownValue(let type, let value)):
            log(call) {
                let shown = cut($0.text(value), value.utf8.count)
                return URLText.visible("    [\(call.id)] \(type) has no value \(shown)")
            }
        case (.summary, .sending(_, let request)): secrets.keep(request, of: call)
        case (.summary, .finished(let result)):
            log(call) { summary(call, result, after: event.offset, &$0) }
            secrets.forget(call)
        case (_, .finished): secrets.forget(call)
        default:
            break
        }
    }

    /// Counts the bytes of a streamed response.
    public func didRead(_ chunk: Data, of call: ObservedCall) {
        if format == .json { secrets.count(chunk.count, of: call) }
    }

    private static func size(of result: Result<HTTPResponse, NetworkError>) -> Int? {
        switch result {
        case .success(let response): response.body.data?.count
        case .failure(let error): error.response?.body.data?.count
        }
    }

    /// - Parameter isNew: whether the call may be one of which nothing is known yet.
    private func log(_ call: ObservedCall, isNew: Bool = false, _ entry: (inout Redactor) -> String) {
        write(
            secrets.change(call, isNew: isNew) { redactor in
                let entry = entry(&redactor)
                return redactor.scrubbed(entry)
            })
    }

    private func summary(
        _ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>, after time: Duration,
        _ redactor: inout Redactor
    ) -> String {
        let milliseconds = Int64((time.inSeconds * 1000).rounded())
        // The URL that responded or failed, which may be that of a mirror or of the last hop.
        let url =
            switch result {
            case .success(let response): response.source == .network ? response.url : call.request.url
            case .failure(let error): error.url ?? call.request.url
            }
        let what = "\(call.request.method) \(redactor.url(url))"
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

    /// The request as it may be shown, with its body as text.
    private func shown(_ request: HTTPRequest, of call: ObservedCall, _ redactor: inout Redactor) -> HTTPRequest {
        redactor.isAnswer = false
        redactor.noteCredentials(of: call.completed(request))
        var shown = HTTPRequest(request.method.rawValue, redactor.url(request.url))
        shown.decompresses = request.decompresses
        shown.headers = HTTPHeaders(fields(request.headers, &redactor))
        guard let body = request.body else { return shown }
        let type = request.headers["Content-Type"] ?? body.contentType
        let coding = request.headers["Content-Encoding"]
        shown.body =
            switch body.content {
            case .parameters(let encoding): .text("(parameters as \(encoding.rawValue))", contentType: "")
            case .encoded(let encoder):
                .text((try? encoder.encode()).map { text(of: $0, type, coding, &redactor) } ?? "(cannot be encoded)")
            case .data(let data): .text(text(of: data, type, coding, &redactor))
            case .multipart(let files): .multipart(files.map { self.shown($0, &redactor) })
            case .file, .stream: body
            }
        shown.body?.contentType = body.contentType
        return shown
    }

    private func shown(_ file: UploadFile, _ redactor: inout Redactor) -> UploadFile {
        let part = redactor.part(file, limit: bodyLimit + Self.margin)
        var shown = file
        (shown.name, shown.fileName, shown.contentType) = (part.name, part.fileName, part.contentType)
        if case .data(let data) = file.source {
            shown.source = .data(Data((part.text.map { cut($0, data.count) } ?? "(\(data.count) bytes)").utf8))
        }
        return shown
    }

    /// - Parameter request: The request as it may be shown.
    private func text(of request: HTTPRequest, _ title: String) -> String {
        let body: String? =
            switch request.body?.content {
            case .data(let data)?: String(decoding: data, as: UTF8.self)
            case .file(let path)?: "(the file \(URLText.visible(path)))"
            case .stream?: "(a stream)"
            case .multipart(let files)?:
                files.map {
                    "(part \(URLText.visible($0.name))\($0.fileName.map { ", file " + URLText.visible($0) } ?? ""))"
                }
                .joined(separator: "\n")
            case .parameters?, .encoded?, nil: nil
            }
        return text("\(title): \(request.method) \(request.url)", Array(request.headers), body)
    }

    private func text(of response: HTTPResponse, _ title: String, _ redactor: inout Redactor) -> String {
        redactor.isAnswer = true
        let line = "\(title): \(response.version) \(response.status) \(redactor.text(response.reason))"
        let shown = fields(response.headers, &redactor)
        let body = response.body.data.map { text(of: $0, response.headers["Content-Type"], nil, &redactor) }
        return text(line, shown, body ?? "(streamed)")
    }

    private func fields(_ headers: HTTPHeaders, _ redactor: inout Redactor) -> [(name: String, value: String)] {
        headers.map { ($0.name, redactor.field($0.name, $0.value)) }
    }

    private func text(_ line: String, _ headers: [(name: String, value: String)], _ body: String?) -> String {
        let head = ([line] + headers.map { "\($0.name): \($0.value)" }).map { URLText.visible($0) }
        // The lines and tabs of a body stay. A terminal may act on its other control characters.
        let shown = body?.unicodeScalars.reduce(into: "") { text, scalar in
            let isShown = !scalar.controlsTerminal || scalar == "\n" || scalar == "\t"
            text += isShown ? String(scalar) : scalar.escaped(asASCII: true)
        }
        return (head + (shown.map { ["", $0] } ?? [])).joined(separator: "\n")
    }

    /// How much more than the limit is read, so that a secret at the limit has its name and its end.
    private static let margin = 8_192

    /// The beginning of a text, or the size of anything else.
    private func text(of data: Data, _ type: String?, _ coding: String?, _ redactor: inout Redactor) -> String {
        guard !data.isEmpty else { return "(empty)" }
        let beginning = data.prefix(bodyLimit + Self.margin)
        switch redactor.body(beginning, type: type, coding: coding, isTruncated: beginning.count < data.count) {
        case .bytes: return "(\(data.count) bytes)"
        case .compressed: return "(\(data.count) compressed bytes)"
        case .text(let text): return cut(redactor.scrubbed(text), data.count)
        case .parts(let parts):
            let texts = parts.map { "(part \($0.name)\($0.fileName.map { ", file " + $0 } ?? "")) \($0.text ?? "")" }
            return cut(redactor.scrubbed(texts.joined(separator: "\n")), data.count)
        }
    }

    private func cut(_ text: String, _ count: Int) -> String {
        guard text.utf8.count > bodyLimit || count > bodyLimit + Self.margin else { return text }
        return "\(String(decoding: text.utf8.prefix(bodyLimit), as: UTF8.self))… (\(count) bytes in all)"
    }
}

/// What was secret in the calls that run, so that it is also removed where it has no name: in a path, an echo of the server,
/// the text of an error.
private final class LoggedSecrets: Sendable {
    /// What is known of a call. Two of its requests may be sent and answered at the same time.
    private final class Known: Sendable {
        struct State {
            var redactor: Redactor
            /// What was sent, if it is needed only at the end.
            var requests: [HTTPRequest] = []
            var counts = Counts()
        }

        let state: Mutex<State>

        init(_ call: ObservedCall) { state = Mutex(State(redactor: Redactor(call.secrets))) }
    }

    /// What was sent and received.
    struct Counts {
        var attempts = 0
        var hops = 0
        /// The bytes of the last request's body; `nil` when it is not in memory.
        var sent: Int?
        /// The bytes of a stream that were read; `nil` for a body in memory.
        var received: Int?
    }

    private struct Calls {
        var running: [UInt64: Known] = [:]
        /// The calls that ended last. A hedge that lost may still be about to be sent.
        var ended: [UInt64] = []
        var oldest = 0
    }

    private static let mostEnded = 256
    private let calls = Mutex(Calls())

    private func known(_ call: ObservedCall) -> Known? { calls.withLock { $0.running[call.id] } }

    private func kept(_ call: ObservedCall) -> Known {
        calls.withLock { calls in
            let known = calls.running[call.id] ?? Known(call)
            if !calls.ended.contains(call.id) { calls.running[call.id] = known }
            return known
        }
    }

    func keep(_ request: HTTPRequest, of call: ObservedCall, hop: Int = 0) {
        let request = call.completed(request)
        kept(call).state.withLock { known in
            known.redactor.adopt(call.secrets)
            known.requests.append(request)
            known.counts.attempts += hop == 0 ? 1 : 0
            known.counts.hops += hop == 0 ? 0 : 1
            known.counts.sent = request.body.map { $0.byteCount } ?? 0
        }
    }

    /// - Parameter isNew: whether a call that is not known is kept. An event may come after the end of its call.
    func change<Result: Sendable>(
        _ call: ObservedCall, isNew: Bool = false, _ body: (inout Redactor) -> Result
    ) -> Result {
        (isNew ? kept(call) : known(call) ?? Known(call)).state.withLock { known in
            known.redactor.adopt(call.secrets)
            for request in known.requests { known.redactor.note(request) }
            known.requests = []
            return body(&known.redactor)
        }
    }

    func count(_ bytes: Int, of call: ObservedCall) {
        known(call)?.state.withLock { $0.counts.received = ($0.counts.received ?? 0) + bytes }
    }

    func counts(of call: ObservedCall) -> Counts { known(call)?.state.withLock(\.counts) ?? Counts() }

    func forget(_ call: ObservedCall) {
        calls.withLock { calls in
            calls.running[call.id] = nil
            guard calls.ended.count == Self.mostEnded else { return calls.ended.append(call.id) }
            calls.ended[calls.oldest] = call.id
            calls.oldest = (calls.oldest + 1) % Self.mostEnded
        }
    }
}
