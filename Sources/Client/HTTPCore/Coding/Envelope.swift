public import FoundationEssentials

/// The wrapper that a server puts around its data: a code, a message, and the data itself.
///
/// ```json
/// { "status": 10001, "message": "please log in", "datas": null }
/// ```
public struct Envelope: Hashable, Sendable {
    /// The code as received: a number or a text; `nil` when the response had none.
    public let code: JSONValue?
    /// The message that goes with the code.
    public let message: String?
    private let content: Content

    /// The data in the envelope; `nil` when it has none. Parsed from the response on access.
    public var data: JSONValue? {
        switch content {
        case .value(let value): value
        case .document(let document): document?.value
        }
    }

    private enum Content: Sendable {
        case value(JSONValue?)
        /// Found in a response, not yet parsed into a value.
        case document(JSONDocument?)
    }

    /// Creates an envelope.
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

    /// Whether code, message and data are equal.
    public static func == (lhs: Envelope, rhs: Envelope) -> Bool {
        lhs.code == rhs.code && lhs.message == rhs.message && lhs.data == rhs.data
    }

    /// Hashes code, message and data.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
        hasher.combine(message)
        hasher.combine(data)
    }

    /// The code as text: `10001` for the number and for the text.
    public var codeText: String? {
        code.flatMap(Envelope.Rule.text)
    }
}

extension Envelope {
    /// The places of an envelope's parts in a domain's responses, and the codes that mean success.
    public struct Rule: Hashable, Sendable {
        /// The key of the code; dots separate nested keys: `meta.status`.
        public var code: String
        /// The key of the message. Default `nil`: there is no message.
        public var message: String?
        /// The key of the data. Default `nil`: the whole document is the data.
        public var data: String?
        /// The success codes, as text. A number matches its text.
        public var success: Set<String>
        /// Messages by code that replace the server's. Default none.
        public var messages: [String: String]

        /// Creates a rule.
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

        /// Returns the envelope that this rule finds in a document.
        public func envelope(in document: JSONValue) -> Envelope {
            Envelope(
                code: Self.value(at: code, in: document),
                message: message.flatMap { Self.value(at: $0, in: document) }.flatMap(Self.text),
                data: data.map { Self.value(at: $0, in: document) } ?? document)
        }

        /// Returns the envelope of a document that is not parsed into values yet, and the data in it.
        package func envelope(in document: JSONDocument) -> (envelope: Envelope, data: JSONDocument?) {
            let content = data.map { document[path: $0] } ?? document
            let envelope = Envelope(
                code: document[path: code]?.value,
                message: message.flatMap { document[path: $0] }.flatMap { Self.text($0.value) }, found: content)
            return (envelope, content)
        }

        /// Whether the envelope's code is a success code.
        public func isSuccess(_ envelope: Envelope) -> Bool {
            envelope.codeText.map(success.contains) ?? false
        }

        /// A code or message as text, whatever its type; `nil` for null.
        package static func text(_ value: JSONValue) -> String? {
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
}

extension Envelope {
    /// The places of a failure's parts in responses that are not a success, for servers whose successes have no envelope.
    public struct ErrorRule: Hashable, Sendable {
        /// The key of the code; dots separate nested keys: `error.code`. A response that has none reports no failure.
        public var code: String
        /// The key of the message. Default `nil`: there is no message.
        public var message: String?
        /// The key of the details. Default `nil`: the whole document.
        public var details: String?
        /// Messages by code that replace the server's. Default none.
        public var messages: [String: String]
        /// The app's names of codes: ``BusinessFailure/name``. Default none.
        public var names: [String: String]

        /// Creates a rule.
        public init(
            code: String, message: String? = nil, details: String? = nil, messages: [String: String] = [:],
            names: [String: String] = [:]
        ) {
            self.code = code
            self.message = message
            self.details = details
            self.messages = messages
            self.names = names
        }

        /// The failure that a document reports; `nil` when it has no code that is a number or a text.
        ///
        /// - Parameter problem: what the document is as problem details. Its absolute type is the code at `type`, and its words
        ///   are the message where the rule names none.
        package func failure(in document: JSONDocument, _ problem: (type: String, words: String)?) -> BusinessFailure? {
            let (envelope, _) = Rule(code: code, message: message, data: details, success: []).envelope(in: document)
            switch envelope.code {
            case .string, .int, .double, .decimal: break
            case nil, .null, .bool, .array, .object: return nil
            }
            let code = (self.code == "type" ? problem?.type : nil) ?? envelope.codeText ?? ""
            let words = envelope.message ?? (message == nil ? problem?.words : nil)
            return BusinessFailure(
                code: code, message: messages[code] ?? words, envelope: envelope, name: names[code])
        }
    }
}

/// A failure that the server reported: no success code in its envelope, or a rejection by the success judge.
public struct BusinessFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code as text; empty when the response had none.
    public let code: String
    /// The table's message for the code, otherwise the server's; `nil` when there is neither.
    public let message: String?
    /// The envelope. Without an envelope rule its data is the whole response.
    public let envelope: Envelope
    /// The app's name for the code, from `names` of the row's `errors`; `nil` when it has none.
    public let name: String?

    /// Creates a failure, for a test or a judge of the app's own.
    public init(code: String, message: String? = nil, envelope: Envelope, name: String? = nil) {
        self.name = name
        self.code = code
        self.message = message
        self.envelope = envelope
    }

    /// The code and the message.
    public var description: String {
        let code = code.isEmpty ? "no code" : "code \(code)"
        return message.map { "\(code): \($0)" } ?? code
    }
}

/// The model of a response without content, or with content that the app ignores.
public struct Empty: Codable, Hashable, Sendable {
    /// Creates an empty model.
    public init() {}

    /// Accepts any content.
    public init(from decoder: any Decoder) throws {}
}

extension BusinessFailure: LocalizedError {
    /// The same as the description, which `localizedDescription` returns too.
    public var errorDescription: String? { "\(self)" }
}
