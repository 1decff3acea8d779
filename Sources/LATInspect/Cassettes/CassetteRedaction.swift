internal import FoundationEssentials
internal import HTTPCore
internal import Synchronization

/// Removes secrets and varying values from what a cassette records. Secrets are removed first by their names, then by
/// their values, so that a token is also removed where another place or a later exchange repeats it.
final class CassetteRedaction: Sendable {
    private let redactor: Mutex<Redactor>
    /// The secrets of the cassette itself.
    let secrets: Secrets
    /// The names of parameters that are recorded as `{{name}}`.
    private let varying: Secrets
    /// Fields with a random value for each WebSocket handshake. Replaying makes new ones.
    private static let ofOneHandshake = ["sec-websocket-key", "sec-websocket-accept"]

    /// Larger bodies that are not text are not searched.
    private static let longestBinary = 1 << 20

    init(_ secrets: Secrets, _ matching: Cassette.Matching) {
        redactor = Mutex(Redactor(secrets))
        self.secrets = secrets
        varying = Secrets(parameters: matching.varyingParameters)
    }

    /// - Parameter secrets: what the request's rows and its manager declare secret. It also applies to all later exchanges.
    func request(
        _ method: String, _ url: String, _ headers: HTTPHeaders, _ body: RecordedBody, _ secrets: Secrets
    ) -> CassetteEntry.Request {
        redactor.withLock { redactor in
            redactor.adopt(secrets)
            let url = self.url(url, &redactor)
            let fields = self.fields(headers, &redactor)
            let body = self.body(body, headers["Content-Type"], &redactor)
            return CassetteEntry.Request(
                method: method, url: redactor.scrubbed(url), headers: Self.scrubbed(fields, redactor),
                body: Self.scrubbed(body, redactor))
        }
    }

    /// - Parameters:
    ///   - head: The response. Its own body is not used.
    ///   - body: The part of its body that was received.
    func response(_ head: HTTPResponse, _ body: RecordedBody) -> CassetteEntry.Response {
        redactor.withLock { redactor in
            let headers = fields(head.headers, &redactor)
            let trailers = fields(head.trailers, &redactor)
            let body = self.body(body, head.headers["Content-Type"], &redactor)
            return CassetteEntry.Response(
                status: head.status, reason: redactor.scrubbed(head.reason), version: head.version,
                headers: Self.scrubbed(headers, redactor), trailers: Self.scrubbed(trailers, redactor),
                body: Self.scrubbed(body, redactor))
        }
    }

    func failure(_ error: NetworkError) -> CassetteEntry.Failure {
        redactor.withLock { redactor in
            let message = redactor.text(error.message)
            return CassetteEntry.Failure(kind: error.kind, message: redactor.scrubbed(message))
        }
    }

    /// A message of a WebSocket, or its end.
    func message(_ message: SocketMessage) -> SocketMessage {
        redactor.withLock { redactor in
            switch message {
            case .text(let text): .text(String(decoding: shown(Data(text.utf8), &redactor), as: UTF8.self))
            case .data(let data): .data(shown(data, &redactor))
            case .close(let code, let reason):
                .close(code: code, reason: String(decoding: shown(Data(reason.utf8), &redactor), as: UTF8.self))
            }
        }
    }

    private func shown(_ message: Data, _ redactor: inout Redactor) -> Data {
        let shown = body(RecordedBody(message), "application/json", &redactor)
        return Self.scrubbed(shown, redactor).data
    }

    // MARK: By name

    private func fields(_ headers: HTTPHeaders, _ redactor: inout Redactor) -> [CassetteEntry.Field] {
        headers.filter { !Self.ofOneHandshake.contains($0.name.lowercased()) }
            .map { .init(name: $0.name, value: redactor.field($0.name, $0.value)) }
    }

    private func url(_ url: String, _ redactor: inout Redactor) -> String {
        let url = redactor.url(url)
        guard let mark = url.firstIndex(of: "?") else { return url }
        return url[...mark] + form(String(url[url.index(after: mark)...]))
    }

    private func body(_ body: RecordedBody, _ type: String?, _ redactor: inout Redactor) -> RecordedBody {
        guard case .bytes(let data) = body else { return body }
        let mediaType = BodyCapture.mediaType(type)
        if mediaType == "multipart/form-data" {
            // The names of the parts tell what is secret. The other bytes stay unchanged.
            _ = BodyRecorder(BodyCapture(maxSize: .max)).recorded(
                data, size: Int64(data.count), type: type, &redactor)
            return .bytes(BodyRecorder.withoutSecretParts(data, type, redactor.secrets))
        }
        guard let text = String(validating: data, as: UTF8.self) else { return body }
        if mediaType == "application/x-www-form-urlencoded" { return .bytes(Data(form(redactor.form(text)).utf8)) }
        guard let value = try? JSONValue(parsing: data) else {
            let shown = redactor.text(text)
            return shown == text ? body : .bytes(Data(shown.utf8))
        }
        // Notes the values that are removed.
        _ = redactor.text(text)
        let named = redactor.secrets.shown(json: value)
        let plain = varying.replaced(json: Self.texts(of: named, &redactor)) { "{{\($0)}}" }
        // Unchanged bytes stay as they are, with their white space.
        return plain == value ? body : .bytes(Data(plain.description.utf8))
    }

    /// A JSON value whose strings are redacted like other text. A string may hold JSON or a form.
    private static func texts(of value: JSONValue, _ redactor: inout Redactor) -> JSONValue {
        if let members = value.object { return .object(members.mapValues { texts(of: $0, &redactor) }) }
        if let elements = value.array { return .array(elements.map { texts(of: $0, &redactor) }) }
        return value.string.map { .string(redactor.text($0)) } ?? value
    }

    private func form(_ text: String) -> String { varying.replaced(form: text) { "{{\($0)}}" } }

    // MARK: By value

    private static func scrubbed(_ fields: [CassetteEntry.Field], _ redactor: Redactor) -> [CassetteEntry.Field] {
        fields.map { .init(name: $0.name, value: redactor.scrubbed($0.value)) }
    }

    private static func scrubbed(_ body: RecordedBody, _ redactor: Redactor) -> RecordedBody {
        guard redactor.hasValues, case .bytes(let data) = body else { return body }
        // A document stays valid JSON: only its names and strings are changed.
        if let value = try? JSONValue(parsing: data) {
            let plain = scrubbed(value, redactor)
            return plain == value ? body : .bytes(Data(plain.description.utf8))
        }
        guard let text = String(validating: data, as: UTF8.self) else {
            return data.count <= longestBinary ? .bytes(redactor.scrubbed(data)) : body
        }
        let shown = redactor.scrubbed(text)
        return shown == text ? body : .bytes(Data(shown.utf8))
    }

    private static func scrubbed(_ value: JSONValue, _ redactor: Redactor) -> JSONValue {
        if let members = value.object {
            return .object(
                Dictionary(members.map { (redactor.scrubbed($0), scrubbed($1, redactor)) }) { first, _ in first })
        }
        if let elements = value.array { return .array(elements.map { scrubbed($0, redactor) }) }
        return value.string.map { .string(redactor.scrubbed($0)) } ?? value
    }
}
