internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Synchronization

/// Removes secrets and varying values from what a cassette records. Secrets are removed first by their names, then by
/// their values, so that a token is also removed where another place or a later exchange repeats it.
final class CassetteRedaction: Sendable {
    private let redactor: Mutex<Redactor>
    /// The secrets of this run by the stand-ins that the recording has for them.
    private let known = Mutex<[String: String]>([:])
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

    /// Keeps the numbers of a recording free.
    func beginStandIns(after number: Int) { redactor.withLock { $0.beginStandIns(after: number) } }

    /// Remembers the credentials that the engine adds to a request.
    func note(_ request: HTTPRequest) {
        redactor.withLock { redactor in
            redactor.isAnswer = false
            redactor.noteCredentials(of: request)
        }
    }

    /// The stand-in of a secret part.
    func standIn(of secret: String) -> String { redactor.withLock { $0.mark(secret) } }

    /// - Parameter secrets: what the request's rows and its manager declare secret, without what they have removed. It also applies to all later exchanges.
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

    /// The recorded exchange with the secrets of the request that is replayed, and of earlier ones, where the recording has a
    /// stand-in for them.
    /// The program's later requests may repeat what it gets, so the other stand-ins are known from now on.
    ///
    /// - Parameter asked: the redacted request that the entry is replayed for.
    func replayed(_ entry: CassetteEntry, for asked: CassetteEntry.Request) -> CassetteEntry {
        redactor.withLock { redactor in
            redactor.isAnswer = true
            let secrets = learn(entry.request.texts, asked.texts, redactor)
            // The numbers in place of secret ones are found by their value from now on.
            if let response = entry.response { _ = answered(response.body, nil, &redactor) }
            return secrets.isEmpty ? entry : entry.restored(SecretsOfReplay(secrets: secrets))
        }
    }

    /// The secrets that a message of the client adds, by the stand-ins in the recorded one.
    func secrets(of message: SocketMessage, recorded: SocketMessage) -> [String: String] {
        redactor.withLock { learn([recorded.comparable], [message.comparable], $0) }
    }

    /// - Returns: all secrets that are known; those of these texts come first.
    private func learn(_ recorded: [String], _ now: [String], _ redactor: Redactor) -> [String: String] {
        known.withLock { secrets in
            for (recorded, now) in zip(recorded, now) {
                let standIns = zip(StandIns.pieces(of: recorded), StandIns.pieces(of: now))
                for (old, new) in standIns where old.isStandIn && new.isStandIn && old.text != Secrets.placeholder {
                    if let secret = redactor.secret(of: new.text) { secrets[StandIns.base(of: old.text)] = secret }
                }
            }
            return secrets
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
        let mediaType = MediaType.plainEssence(of: type)
        if mediaType == "multipart/form-data" {
            // The names of the parts tell what is secret. The other bytes stay unchanged.
            _ = redactor.body(data, type: type)
            return .bytes(redactor.withoutSecretParts(data, type))
        }
        guard WideText(data) == nil, let text = String(validating: data, as: UTF8.self) else {
            return .bytes(redactor.data(data))
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
        if MediaType.plainEssence(of: type) == "multipart/form-data" { return self.body(body, type, &redactor) }
        let isForm = MediaType.plainEssence(of: type) == "application/x-www-form-urlencoded"
        let shown = redactor.data(data, isForm: isForm)
        guard (try? JSONValue(parsing: shown)) == nil, WideText(shown) == nil else { return .bytes(shown) }
        // In lines that are not JSON as a whole, a replay cannot tell strings of JSON from other text.
        return .bytes(Redactor.changed(lines: shown, by: { $0 }, other: { redactor.inStringsOfJSON($0) }))
    }

    private func form(_ text: String) -> String { varying.replaced(form: text) { "{{\($0)}}" } }

    // MARK: By value

    private static func scrubbed(_ fields: [CassetteEntry.Field], _ redactor: Redactor) -> [CassetteEntry.Field] {
        fields.map { .init(name: $0.name, value: redactor.scrubbed($0.value)) }
    }

    private static func scrubbed(_ body: RecordedBody, _ redactor: Redactor) -> RecordedBody {
        guard redactor.hasValues, case .bytes(let data) = body else { return body }
        if (try? JSONValue(parsing: data)) != nil { return .bytes(redactor.scrubbed(json: data)) }
        guard let text = WideText(data) else {
            return .bytes(
                Redactor.changed(lines: data, by: { redactor.scrubbed($0) }, other: { redactor.scrubbed($0) }))
        }
        let shown = redactor.scrubbed(text.text)
        return .bytes(shown == text.text ? data : text.data(of: shown))
    }
}

extension SocketMessage {
    /// The text that may have stand-ins, the same for messages that count as equal.
    fileprivate var comparable: String {
        switch self {
        case .text(let text): (try? JSONValue(parsing: text))?.description ?? text
        case .data(let data): (try? JSONValue(parsing: data))?.description ?? String(decoding: data, as: UTF8.self)
        case .close(_, let reason): reason
        }
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

/// Secrets by the stand-ins that a recording has for them.
struct SecretsOfReplay: Sendable {
    let secrets: [String: String]

    func restored(_ text: String) -> String { StandIns.restored(text) { secrets[$0] } }

    /// In JSON, a secret has the escapes of its string, and a number may stand for one.
    func restored(_ data: Data) -> Data {
        // Only a secret that is a number has a number as its stand-in. Other such numbers are the server's own.
        let number = { (text: String) in
            let secret = StandIns.standIn(ofNumber: text).flatMap { secrets[$0] }
            return secret.flatMap { Double($0) == nil ? nil : $0 } ?? text
        }
        if (try? JSONValue(parsing: data)) != nil {
            return Redactor.changed(json: data, by: restored, number: number)
        }
        if let text = WideText(data) {
            let shown = restored(text.text)
            return shown == text.text ? data : text.data(of: shown)
        }
        return Redactor.changed(lines: data, by: restored, number: number) { data in
            String(validating: data, as: UTF8.self).map { Data(restored($0).utf8) } ?? data.restored(by: self)
        }
    }

    func restored(_ message: SocketMessage) -> SocketMessage {
        switch message {
        case .text(let text): .text(String(decoding: restored(Data(text.utf8)), as: UTF8.self))
        case .data(let data): .data(restored(data))
        case .close(let code, let reason): .close(code: code, reason: restored(reason))
        }
    }
}

extension Data {
    /// Bytes that are no text.
    fileprivate func restored(by secrets: SecretsOfReplay) -> Data {
        var (shown, rest) = (Data(), self[...])
        while let stars = rest.firstRange(of: Data(Secrets.placeholder.utf8)) {
            let mark = rest[stars.lowerBound...].prefix { $0 == UInt8(ascii: "*") }
            let digits = rest[mark.endIndex...].prefix { (0x30...0x39).contains($0) }
            let standIn = String(decoding: mark + digits, as: UTF8.self)
            shown += rest[..<stars.lowerBound] + Data(secrets.restored(standIn).utf8)
            rest = rest[digits.endIndex...]
        }
        return shown + rest
    }
}

extension CassetteEntry {
    /// The entry with secrets in place of their stand-ins in all that the program gets.
    fileprivate func restored(_ secrets: SecretsOfReplay) -> CassetteEntry {
        var entry = self
        if var response = entry.response {
            response.reason = secrets.restored(response.reason)
            for index in response.headers.indices {
                response.headers[index].value = secrets.restored(response.headers[index].value)
            }
            for index in response.trailers.indices {
                response.trailers[index].value = secrets.restored(response.trailers[index].value)
            }
            if case .bytes(let data) = response.body { response.body = .bytes(secrets.restored(data)) }
            entry.response = response
        }
        // What the client sends is compared without secrets.
        for index in entry.messages.indices where !entry.messages[index].isSent {
            entry.messages[index].content = secrets.restored(entry.messages[index].content)
        }
        entry.failure?.message = secrets.restored(failure?.message ?? "")
        return entry
    }
}
