public import HTTPCore

/// What a server wraps its answers in: a code, a message, and the data itself.
///
/// ```json
/// { "status": 10001, "message": "please log in", "datas": null }
/// ```
public struct Envelope: Hashable, Sendable {
    /// The code as it came: a number or a text; `nil` when the answer had none.
    public let code: JSONValue?
    /// The text beside the code.
    public let message: String?
    private let content: Content

    /// What the envelope holds; `nil` when it holds nothing. Made of the answer when it is asked for.
    public var data: JSONValue? {
        switch content {
        case .value(let value): value
        case .document(let document): document?.value
        }
    }

    private enum Content: Sendable {
        case value(JSONValue?)
        /// Found in an answer, not yet made into a value.
        case document(JSONDocument?)
    }

    /// Makes an envelope.
    public init(code: JSONValue?, message: String?, data: JSONValue?) {
        self.code = code
        self.message = message
        content = .value(data)
    }

    init(code: JSONValue?, message: String?, found document: JSONDocument?) {
        self.code = code
        self.message = message
        content = .document(document)
    }

    /// Equal when code, message and data are.
    public static func == (lhs: Envelope, rhs: Envelope) -> Bool {
        lhs.code == rhs.code && lhs.message == rhs.message && lhs.data == rhs.data
    }

    /// Hashes what is compared.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
        hasher.combine(message)
        hasher.combine(data)
    }

    /// The code as text: `10001` for the number and for the text.
    public var codeText: String? {
        code.flatMap(EnvelopeRule.text)
    }
}

/// Where a domain's envelope has its parts, and which codes mean success.
public struct EnvelopeRule: Hashable, Sendable {
    /// The key of the code; members of members with dots: `meta.status`.
    public var code: String
    /// The key of the message. Default `nil`: there is none.
    public var message: String?
    /// The key of the data. Default `nil`: the whole document is the data.
    public var data: String?
    /// The codes of success, as text. A number and the same number as text are one code.
    public var success: Set<String>
    /// Messages by code, in place of the server's.
    public var messages: [String: String]

    /// Makes a rule.
    public init(
        code: String, message: String? = nil, data: String? = nil, success: Set<String>,
        messages: [String: String] = [:]
    ) {
        self.code = code
        self.message = message
        self.data = data
        self.success = success
        self.messages = messages
    }

    /// The envelope that a document is, by this rule.
    public func envelope(in document: JSONValue) -> Envelope {
        Envelope(
            code: Self.value(at: code, in: document),
            message: message.flatMap { Self.value(at: $0, in: document) }.flatMap(Self.text),
            data: data.map { Self.value(at: $0, in: document) } ?? document)
    }

    /// The same of a document that nothing was made of yet, and where its data is.
    func envelope(in document: JSONDocument) -> (envelope: Envelope, data: JSONDocument?) {
        let content = data.map { document[path: $0] } ?? document
        let envelope = Envelope(
            code: document[path: code]?.value,
            message: message.flatMap { document[path: $0] }.flatMap { Self.text($0.value) }, found: content)
        return (envelope, content)
    }

    /// Whether the envelope's code is one of success.
    public func isSuccess(_ envelope: Envelope) -> Bool {
        envelope.codeText.map(success.contains) ?? false
    }

    /// A code or message as text, whatever its type; `nil` for null.
    static func text(_ value: JSONValue) -> String? {
        switch value {
        case .null: nil
        case .string(let text): text
        default: value.description
        }
    }

    private static func value(at path: String, in document: JSONValue) -> JSONValue? {
        if let value = document[path] { return value }
        return path.split(separator: ".").reduce(Optional(document)) { $0?[String($1)] }
    }
}

/// The server answered, and said no: its envelope's code is none of success, or the judge refused the answer.
public struct BusinessFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code as text; empty when there was none.
    public let code: String
    /// What the table says of the code, or else the server; `nil` when neither does.
    public let message: String?
    /// The envelope; without one its data is the whole answer.
    public let envelope: Envelope

    /// Code and message.
    public var description: String {
        let code = code.isEmpty ? "no code" : "code \(code)"
        return message.map { "\(code): \($0)" } ?? code
    }
}

/// The model of an answer that has no content, or whose content nobody wants.
public struct Empty: Codable, Hashable, Sendable {
    /// Makes one.
    public init() {}

    /// Takes any content.
    public init(from decoder: any Decoder) throws {}
}
