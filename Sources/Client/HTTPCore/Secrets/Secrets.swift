/// The names of what holds secrets: header fields, and parameters of queries, forms, multipart bodies and JSON.
///
/// ```swift
/// configuration.secrets.insert(header: "X-Session")
/// configuration.secrets.insert(parameter: "pin_code")
/// ```
///
/// A manager has one such list. Secret fields are never sent to another origin. Descriptions, logs and everything that
/// records calls show neither secret fields nor secret parameters.
public struct Secrets: Hashable, Sendable {
    private var headers: Set<String> = []
    private var parameters: Set<String> = []
    /// Names that are secret in queries and forms, as in the exchange of OAuth, but are everyday words in JSON.
    private var formParameters: Set<String> = []
    /// Members of JSON that are never secret: an envelope's code.
    private var shownMembers: Set<String> = []
    /// What was removed, in lower case and plain. A union removes it from the list that it is added to.
    private var removedHeaders: Set<String> = []
    private var removedParameters: Set<String> = []

    /// The usual names.
    ///
    /// Fields: `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, `X-Api-Key`, `Api-Key`, `X-Goog-Api-Key`,
    /// `X-Auth-Token`, `X-Access-Token`, `X-CSRF-Token`, `X-XSRF-Token`, `X-Amz-Security-Token`, `X-Vault-Token`,
    /// `Private-Token`, `Job-Token`, `X-Auth-Key`, `X-Functions-Key`, `X-RapidAPI-Key`, `X-Shopify-Access-Token`,
    /// `Ocp-Apim-Subscription-Key`. Parameters: `access_token`,
    /// `refresh_token`, `id_token`, `auth_token`, `csrf_token`, `token`, `password`, `passcode`, `passwd`, `pwd`,
    /// `passphrase`, `secret`, `client_secret`, `client_assertion`, `device_code`, `user_code`, `code_verifier`, `api_key`,
    /// `private_key`, `session_id`, `signature`, `sig`, `X-Amz-Signature`, `X-Amz-Security-Token`, `X-Goog-Signature`;
    /// `code`, `key`, `assertion` and `SAMLResponse` in queries and forms, but not in JSON.
    public static let standard = Secrets(
        headers: [
            "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
            "X-Auth-Token", "X-Access-Token", "X-CSRF-Token", "X-XSRF-Token", "X-Amz-Security-Token", "X-Vault-Token",
            "Private-Token", "Job-Token", "X-Auth-Key", "X-Functions-Key", "X-RapidAPI-Key", "X-Shopify-Access-Token",
            "Ocp-Apim-Subscription-Key",
        ],
        parameters: [
            "access_token", "refresh_token", "id_token", "auth_token", "csrf_token", "token", "password", "passcode",
            "passwd", "pwd", "passphrase", "secret", "client_secret", "client_assertion", "device_code", "user_code",
            "code_verifier", "api_key", "private_key", "session_id", "signature", "sig",
            "X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Signature",
        ], formParameters: ["code", "key", "assertion", "samlresponse"])

    /// Makes a list of names, by default empty.
    public init(headers: [String] = [], parameters: [String] = []) {
        for name in headers { insert(header: name) }
        for name in parameters { insert(parameter: name) }
    }

    private init(headers: [String], parameters: [String], formParameters: Set<String>) {
        self.init(headers: headers, parameters: parameters)
        self.formParameters = formParameters
    }

    /// Adds the name of a header field, in any case.
    public mutating func insert(header name: String) {
        headers.insert(name.lowercased())
        removedHeaders.remove(name.lowercased())
    }

    /// Adds the name of a parameter, also of JSON. `access_token`, `accessToken`, `access-token` and `user[access_token]`
    /// are one name.
    public mutating func insert(parameter name: String) {
        parameters.insert(Self.lastPart(of: name))
        removedParameters.remove(Self.lastPart(of: name))
    }

    /// Removes the name of a header field, in any case, so that its values are shown and sent like those of other fields.
    public mutating func remove(header name: String) {
        headers.remove(name.lowercased())
        removedHeaders.insert(name.lowercased())
    }

    /// Removes the name of a parameter, in every form of it.
    public mutating func remove(parameter name: String) {
        let name = Self.lastPart(of: name)
        parameters.remove(name)
        formParameters.remove(name)
        removedParameters.insert(name)
    }

    /// Keeps a member of JSON from being secret, whatever the list says. The path may be nested, as in `status.code`.
    package mutating func show(member path: String) { shownMembers.insert(Self.lastPart(of: path)) }

    /// Whether a field of this name holds a secret.
    public func contains(header name: String) -> Bool { headers.contains(name.lowercased()) }

    /// Whether a parameter of a query or form of this name holds a secret. The name may be percent-encoded, in brackets,
    /// and in any case. One part of a nested name is enough, as in `password[0]` or `secret.value`.
    public func contains(parameter name: String) -> Bool {
        Self.parts(of: name).map(Self.plain).contains { parameters.contains($0) || formParameters.contains($0) }
    }

    /// Whether a member of JSON of this name holds a secret; like ``contains(parameter:)``, but `code` and the others
    /// of the standard list for forms only do not. The name of a secret header field is one too: messages of a WebSocket carry credentials as
    /// `{"Authorization": "Bearer …"}`, since they have no fields.
    public func contains(member name: String) -> Bool {
        let plain = Self.parts(of: name).map(Self.plain)
        return plain.contains { parameters.contains($0) && !shownMembers.contains($0) }
            || headers.contains(name.lowercased()) && !plain.contains(where: shownMembers.contains)
    }

    package var isEmpty: Bool { self == Secrets() }

    /// The names of both lists, without those that were removed from `other`.
    public func union(_ other: Secrets) -> Secrets {
        if other.isEmpty { return self }
        var both = self
        both.headers = headers.subtracting(other.removedHeaders).union(other.headers)
        both.parameters = parameters.subtracting(other.removedParameters).union(other.parameters)
        both.formParameters = formParameters.subtracting(other.removedParameters).union(other.formParameters)
        both.removedHeaders = removedHeaders.subtracting(other.headers).union(other.removedHeaders)
        both.removedParameters = removedParameters.subtracting(other.parameters).union(other.removedParameters)
        both.shownMembers.formUnion(other.shownMembers)
        return both
    }

    /// The names in a nested name such as `user[password]` or `user.password`, without escapes.
    private static func parts(of name: String) -> [Substring] {
        var text = name
        // Names may be escaped more than once, for a URL within a URL.
        for _ in 0..<3 where text.utf8.contains(UInt8(ascii: "%")) {
            text = text[...].percentDecoded()
        }
        // Works on bytes: a bracket followed by a combining mark is one `Character`.
        return text.utf8.split { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "]") || $0 == UInt8(ascii: ".") }
            .map { Substring($0) }
    }

    private static func lastPart(of name: String) -> String { plain(parts(of: name).last ?? "") }

    /// A name without separators and case.
    private static func plain(_ name: Substring) -> String {
        name.lowercased().filter { $0 != "_" && $0 != "-" && $0 != " " && $0 != "+" }
    }
}

// What may be shown.
extension Secrets {
    /// The text that replaces a secret.
    public static let placeholder = "***"

    /// The value of a field as it may be shown: the secrets in URLs, forms and JSON that it holds are hidden, too.
    public func shown(_ value: String, of name: String) -> String {
        var redactor = Redactor(self)
        return redactor.field(name, value)
    }

    /// The same for a description, where a URL has no query.
    func described(_ value: String, of name: String) -> String {
        Self.isURL(name) ? URLParts.redacted(value) : shown(value, of: name)
    }

    static func isURL(_ name: String) -> Bool {
        ["Location", "Content-Location", "Referer"].contains { name.equalsIgnoringASCIICase($0) }
    }

    /// A URL without user information, fragment and the values of secret parameters.
    public func shown(url: String) -> String {
        var redactor = Redactor(self)
        return redactor.url(url)
    }

    /// A query or form without the values of secret parameters.
    public func shown(form: String) -> String {
        var redactor = Redactor(self)
        return redactor.form(form)
    }

    /// A query or form with other values for the secret parameters. The closure gets a parameter's name and returns the new
    /// value.
    package func replaced(form: String, by text: (_ name: String) -> String) -> String {
        // Works on bytes: a `=` followed by a combining mark is one `Character`.
        form.utf8.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false).map { item in
            let name = String(Substring(item.prefix { $0 != UInt8(ascii: "=") }))
            let isSecret = name.utf8.count < item.count && contains(parameter: name)
            return isSecret ? "\(name)=\(text(name))" : String(Substring(item))
        }.joined(separator: "&")
    }

    /// A JSON value without the values of secret members.
    public func shown(json value: JSONValue) -> JSONValue {
        var redactor = Redactor(self)
        return redactor.shown(json: value)
    }

    /// A JSON value with other values for the secret members. The closure gets a member's name and returns the new value.
    package func replaced(json value: JSONValue, by text: (String) -> String) -> JSONValue {
        if let members = value.object {
            return .object(
                Dictionary(
                    uniqueKeysWithValues: members.map { name, member in
                        (name, contains(member: name) ? .string(text(name)) : replaced(json: member, by: text))
                    }))
        }
        if let elements = value.array { return .array(elements.map { replaced(json: $0, by: text) }) }
        return value
    }
}
