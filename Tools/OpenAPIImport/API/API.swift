/// An operation of a document, of Swagger 2.0 or OpenAPI 3, before it has names in Swift.
struct Operation {
    var head: Head
    var summary: String?
    var description: String?
    var isDeprecated = false
    var parameters: [Parameter] = []
    var body: Body?
    var responses: [Response] = []
    /// The names of the security schemes, one set of which is needed; `nil` for those of the document.
    var security: [[String]]?
    /// The scopes of OAuth 2 that the first set asks for, its own or the document's.
    var scopes: [String] = []
    /// The addresses of the operation itself, in place of the document's.
    var servers: [Server] = []

    /// What is known of an operation without following its references.
    struct Head {
        var method: String
        var path: String
        var id: String?
        var tags: [String]
        var spot: Spot
        /// The path item, which has parameters for all its operations.
        var item: Spot

        /// Whether a word of `--operations` names it: the id, or `GET /path`.
        func isNamed(_ word: String) -> Bool { word == id || word == address }

        /// `GET /path`.
        var address: String { "\(method) \(path)" }
    }
}

struct Parameter {
    enum Location: String { case query, header, path, cookie, querystring }
    /// How an array or an object is written in a query or a form.
    enum Style: String { case repeated, comma, space, pipe, brackets, json }

    var name: String
    var location: Location
    var isRequired = false
    /// `nil` where the document does not say.
    var style: Style?
    /// The style of arrays if the document does not say.
    var standardStyle = Style.repeated
    var schema: Spot?
    /// Whether the value is written as JSON text.
    var isJSON = false
    var description: String?
    var spot: Spot
}

struct Body {
    var isRequired: Bool
    var description: String?
    var contents: [Content]
}

struct Response {
    /// `200`, `4XX` or `default`.
    var status: String
    var description: String?
    var contents: [Content] = []
    var headers: [String] = []

    var isSuccess: Bool { status.hasPrefix("2") }
}

/// A body in one media type.
struct Content {
    /// In lower case and without parameters.
    var type: String
    var schema: Spot?
    /// The schema of each item of a stream (OpenAPI 3.2).
    var itemSchema: Spot?
    var examples: [Spot] = []
    /// How the members of a form are written, by their names, where the document says it.
    var styles: [String: Parameter.Style] = [:]

    var isJSON: Bool {
        type == "application/json" || type.hasSuffix("+json") || type == "*/*" || type == "application/*"
            || type == "text/json"
    }
    var isForm: Bool { type == "application/x-www-form-urlencoded" }
    var isMultipart: Bool { type == "multipart/form-data" || type == "multipart/*" }
    var isText: Bool { type.hasPrefix("text/") && !isJSON && !isEventStream }
    var isEventStream: Bool { type == "text/event-stream" }
    var isLines: Bool {
        ["application/jsonl", "application/x-ndjson", "application/ndjson", "application/json-seq"].contains(type)
    }
}

/// An address of the API.
struct Server: Hashable {
    var url: String
    var description: String?
}

/// A way in which requests prove who sends them.
struct SecurityScheme {
    var name: String
    /// The header field of an API key.
    var header: String?
    /// A few words for the comment of the domain.
    var words: String
    /// Where tokens come from: the addresses of OAuth 2 and OpenID Connect.
    var addresses: [String] = []

    /// The names of the schemes that a call needs together, of the first set of several; none where it may be called without.
    static func needed(by operation: Operation, _ api: API) -> [String] {
        let sets = operation.security ?? api.security ?? []
        return sets.contains(where: \.isEmpty) ? [] : sets.first ?? []
    }
}

/// What a document has besides its operations.
struct API {
    var title: String
    var servers: [Server]
    var schemes: [SecurityScheme]
    /// The security of operations that have none of their own.
    var security: [[String]]?
    var heads: [Operation.Head]
}
