internal import FoundationEssentials
internal import HTTPCore

/// Takes secrets and values that vary out of what is recorded.
struct CassetteRedaction: Sendable {
    let secrets: Secrets
    /// The names of parameters that are recorded as `{{name}}`.
    let varying: Secrets

    init(_ secrets: Secrets, _ matching: Cassette.Matching) {
        self.secrets = secrets
        varying = Secrets(parameters: matching.varyingParameters)
    }

    func request(_ method: String, _ url: String, _ headers: HTTPHeaders, _ body: RecordedBody) -> CassetteEntry.Request
    {
        CassetteEntry.Request(
            method: method, url: self.url(url), headers: fields(headers), body: self.body(body, headers["Content-Type"])
        )
    }

    func fields(_ headers: HTTPHeaders) -> [CassetteEntry.Field] {
        headers.map { .init(name: $0.name, value: secrets.shown($0.value, of: $0.name)) }
    }

    func url(_ url: String) -> String {
        let url = secrets.shown(url: url)
        guard let mark = url.firstIndex(of: "?") else { return url }
        return url[...mark] + form(String(url[url.index(after: mark)...]))
    }

    func body(_ body: RecordedBody, _ type: String?) -> RecordedBody {
        guard case .bytes(let data) = body else { return body }
        let type = type?.lowercased() ?? ""
        if type.hasPrefix("application/x-www-form-urlencoded") {
            return .bytes(Data(form(secrets.shown(form: String(decoding: data, as: UTF8.self))).utf8))
        }
        guard type.contains("json") || type.isEmpty || type.contains("text/plain"),
            let value = try? JSONValue(parsing: data)
        else {
            // Lines of JSON, events with JSON, and documents that were cut.
            guard type.contains("json") || type.hasPrefix("text/event-stream"),
                let text = String(validating: data, as: UTF8.self)
            else { return body }
            var scanner = SecretScanner(secrets)
            let shown = scanner.scan(text)
            return shown == text ? body : .bytes(Data(shown.utf8))
        }
        let shown = json(secrets.shown(json: value))
        // Unchanged bytes stay as they are, with their white space.
        return shown == value ? body : .bytes(Data(shown.description.utf8))
    }

    private func form(_ text: String) -> String { varying.replaced(form: text) { "{{\($0)}}" } }

    private func json(_ value: JSONValue) -> JSONValue { varying.replaced(json: value) { "{{\($0)}}" } }
}
