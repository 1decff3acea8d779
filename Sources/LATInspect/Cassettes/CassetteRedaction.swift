internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
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

    init(_ secrets: Secrets, _ matching: Cassette.Matching) {
        redactor = Mutex(Redactor(secrets, numbersSecrets: true))
        self.secrets = secrets
        varying = Secrets(parameters: matching.varyingParameters)
    }

    /// Remembers the credentials that the engine adds to a request.
    func note(_ request: HTTPRequest) {
        redactor.withLock { redactor in
            redactor.isAnswer = false
            redactor.noteCredentials(of: request)
        }
    }

    /// - Parameter secrets: what the request's rows and its manager declare secret. It also applies to all later exchanges.
    func request(
        _ method: String, _ url: String, _ headers: HTTPHeaders, _ body: RecordedBody, _ secrets: Secrets
    ) -> CassetteEntry.Request {
        redactor.withLock { redactor in
            redactor.adopt(secrets)
            redactor.isAnswer = false
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
            redactor.isAnswer = true
            let headers = fields(head.headers, &redactor)
            let trailers = fields(head.trailers, &redactor)
            let body = self.answered(body, head.headers["Content-Type"], &redactor)
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
    func message(_ message: SocketMessage, isSent: Bool) -> SocketMessage {
        redactor.withLock { redactor in
            redactor.isAnswer = !isSent
            return switch message {
            case .text(let text): .text(String(decoding: shown(Data(text.utf8), &redactor), as: UTF8.self))
            case .data(let data): .data(shown(data, &redactor))
            case .close(let code, let reason):
                .close(code: code, reason: String(decoding: shown(Data(reason.utf8), &redactor), as: UTF8.self))
            }
        }
    }

    private func shown(_ message: Data, _ redactor: inout Redactor) -> Data {
        let message = RecordedBody(message)
        let shown = redactor.isAnswer ? answered(message, nil, &redactor) : body(message, "application/json", &redactor)
        return Self.scrubbed(shown, redactor).data
    }

    // MARK: Replaying

    /// The recorded exchange with the secrets of the request that is replayed, where the recording has a stand-in for them.
    /// The program's later requests may repeat what it gets, so the other stand-ins are known from now on.
    ///
    /// - Parameter asked: the redacted request that the entry is replayed for.
    func replayed(_ entry: CassetteEntry, for asked: CassetteEntry.Request) -> CassetteEntry {
        redactor.withLock { redactor in
            redactor.isAnswer = true
            var secrets: [String: String] = [:]
            for (recorded, now) in zip(entry.request.texts, asked.texts) {
                let standIns = zip(StandIns.pieces(of: recorded), StandIns.pieces(of: now))
                for (old, new) in standIns where old.isStandIn && new.isStandIn && old.text != Secrets.placeholder {
                    secrets[old.text] = redactor.secret(of: new.text)
                }
            }
            func restored(_ text: String) -> String {
                StandIns.pieces(of: text).map { $0.isStandIn ? secrets[$0.text] ?? $0.text : $0.text }.joined()
            }
            func restored(_ data: Data) -> Data {
                String(validating: data, as: UTF8.self).map { Data(restored($0).utf8) } ?? data
            }
            var entry = entry
            if var response = entry.response {
                // The numbers in place of secret ones are found by their value from now on.
                _ = answered(response.body, nil, &redactor)
                if !secrets.isEmpty {
                    for index in response.headers.indices {
                        response.headers[index].value = restored(response.headers[index].value)
                    }
                    if case .bytes(let data) = response.body, response.pieces.isEmpty {
                        response.body = .bytes(restored(data))
                    }
                }
                entry.response = response
            }
            return entry
        }
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
        guard let text = String(validating: data, as: UTF8.self) else {
            return Self.wideText(data).map { .bytes(Self.wide(redactor.text($0), like: data)) }
                ?? .bytes(redactor.bytes(data))
        }
        if mediaType == "application/x-www-form-urlencoded" { return .bytes(Data(form(redactor.form(text)).utf8)) }
        guard let value = try? JSONValue(parsing: data) else {
            let shown = redactor.text(text)
            return shown == text ? body : .bytes(Data(shown.utf8))
        }
        let plain = varying.replaced(json: redactor.shown(json: value)) { "{{\($0)}}" }
        // Unchanged bytes stay as they are, with their white space.
        return plain == value ? body : .bytes(Data(plain.description.utf8))
    }

    /// A body of the server. Only its secrets are changed, and JSON stays JSON of the same types, because a program reads it.
    private func answered(_ body: RecordedBody, _ type: String?, _ redactor: inout Redactor) -> RecordedBody {
        guard case .bytes(let data) = body else { return body }
        if BodyCapture.mediaType(type) == "multipart/form-data" { return self.body(body, type, &redactor) }
        guard let text = String(validating: data, as: UTF8.self) else {
            return Self.wideText(data).map { .bytes(Self.wide(redactor.text($0), like: data)) }
                ?? .bytes(redactor.bytes(data))
        }
        let isForm = BodyCapture.mediaType(type) == "application/x-www-form-urlencoded"
        return .bytes(Data((isForm ? redactor.form(text) : redactor.text(text)).utf8))
    }

    /// The text of UTF-16 with a byte order mark, or without when at least half of its units are of Latin letters and digits;
    /// `nil` for other bytes.
    private static func wideText(_ data: Data) -> String? {
        guard data.count >= 4, data.count.isMultiple(of: 2) else { return nil }
        let isMarked = data.starts(with: [0xFE, 0xFF]) || data.starts(with: [0xFF, 0xFE])
        let highBytes = stride(from: isBigEndian(data) ? 0 : 1, to: data.count, by: 2)
        guard isMarked || highBytes.count(where: { data[data.startIndex + $0] == 0 }) * 4 >= data.count else {
            return nil
        }
        return Charset(isBigEndian(data) ? "utf-16be" : "utf-16le").decode(data)
    }

    private static func isBigEndian(_ data: Data) -> Bool {
        data.starts(with: [0xFE, 0xFF]) || !data.starts(with: [0xFF, 0xFE]) && data.first == 0
    }

    private static func wide(_ text: String, like data: Data) -> Data {
        let isMarked = data.starts(with: [0xFE, 0xFF]) || data.starts(with: [0xFF, 0xFE])
        let units = (isMarked && text.unicodeScalars.first != "\u{FEFF}" ? [0xFEFF] : []) + Array(text.utf16)
        let isBig = isBigEndian(data)
        return Data(units.flatMap { isBig ? [UInt8($0 >> 8), UInt8($0 & 0xFF)] : [UInt8($0 & 0xFF), UInt8($0 >> 8)] })
    }

    private func form(_ text: String) -> String { varying.replaced(form: text) { name, _ in "{{\(name)}}" } }

    // MARK: By value

    private static func scrubbed(_ fields: [CassetteEntry.Field], _ redactor: Redactor) -> [CassetteEntry.Field] {
        fields.map { .init(name: $0.name, value: redactor.scrubbed($0.value)) }
    }

    private static func scrubbed(_ body: RecordedBody, _ redactor: Redactor) -> RecordedBody {
        guard redactor.hasValues, case .bytes(let data) = body else { return body }
        if (try? JSONValue(parsing: data)) != nil { return .bytes(redactor.scrubbed(json: data)) }
        if let text = wideText(data) { return .bytes(wide(redactor.scrubbed(text), like: data)) }
        return .bytes(redactor.scrubbed(data))
    }
}

extension CassetteEntry.Request {
    /// The texts that may have stand-ins, in an order that equal requests share.
    fileprivate var texts: [String] {
        let fields = headers.sorted { $0.name.lowercased() < $1.name.lowercased() }
        let json = (try? JSONValue(parsing: body.data))?.description
        return [url, json ?? String(decoding: body.data, as: UTF8.self)] + fields.map { "\($0.name): \($0.value)" }
    }
}
