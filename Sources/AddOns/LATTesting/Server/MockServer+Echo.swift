import FoundationEssentials
import HTTPCore

extension MockServer {
    /// Adds a route that answers every method with a JSON description of the request, in the form of httpbin's
    /// `/anything`.
    ///
    /// ```json
    /// {"args": {"q": "swift"}, "data": "", "form": {}, "headers": {"Host": "127.0.0.1:34567"},
    ///  "json": null, "method": "GET", "url": "http://127.0.0.1:34567/anything?q=swift"}
    /// ```
    ///
    /// Repeated arguments and headers become arrays. `data` is the body as text, or a `data:` URL in base64 when it is
    /// not UTF-8. `form` has the pairs of a URL-encoded body, and `data` is then empty. `json` is the body when it is
    /// JSON.
    ///
    /// - Parameter path: The path; everything below it is answered too. Default `/anything`.
    public func echo(path: String = "/anything") {
        let base = path.hasSuffix("/") ? String(path.dropLast()) : path
        for pattern in [path, base + "/*"] {
            route("*", pattern) { .json(EchoReply.document(describing: $0)) }
        }
    }
}

/// The document that ``MockServer/echo(path:)`` answers with.
enum EchoReply {
    static func document(describing request: RecordedRequest) -> String {
        let type = request.headers["Content-Type"].map(MediaType.essence)
        let isForm = type == "application/x-www-form-urlencoded"
        let fields: [(String, String)] = [
            ("args", object(request.queryItems)),
            ("data", isForm ? "\"\"" : text(data(of: request))),
            ("form", isForm ? object(request.formItems) : "{}"),
            ("headers", object(request.headers.map { RecordedRequest.Item($0.name, $0.value) })),
            ("json", isForm ? "null" : document(in: request.body) ?? "null"),
            ("method", text(request.method)),
            ("url", text(url(of: request))),
        ]
        return "{" + fields.map { "\"\($0)\": \($1)" }.joined(separator: ", ") + "}"
    }

    private static func url(of request: RecordedRequest) -> String {
        guard request.target.hasPrefix("/") else { return request.target }
        return "http://" + (request.headers["Host"] ?? "") + request.target
    }

    private static func data(of request: RecordedRequest) -> String {
        String(validating: request.body, as: UTF8.self)
            ?? "data:application/octet-stream;base64," + request.body.base64EncodedString()
    }

    private static func object(_ items: [RecordedRequest.Item]) -> String {
        var names: [String] = []
        var values: [String: [String]] = [:]
        for item in items {
            if values[item.name] == nil { names.append(item.name) }
            values[item.name, default: []].append(text(item.value ?? ""))
        }
        let members = names.map { name in
            let list = values[name] ?? []
            let value = list.count == 1 ? list[0] : "[" + list.joined(separator: ", ") + "]"
            return text(name) + ": " + value
        }
        return "{" + members.joined(separator: ", ") + "}"
    }

    private static func text(_ text: String) -> String { JSONValue.string(text).description }

    /// The bytes as text when they are a JSON document, else `nil`.
    private static func document(in data: Data) -> String? {
        (try? JSONValue(parsing: data)) == nil ? nil : String(validating: data, as: UTF8.self)
    }
}
