import HTTPCore

/// The notation of a value in a table.
package struct ValueForm: Sendable {
    /// Its JSON schema.
    package var schema: String
    /// The notation as documentation.
    package var words: String
    /// The keys in the value that lead to durations; an empty list for a value that is one.
    var durations: [[String]] = []

    init(_ words: String, schema: String, durations: [[String]] = []) {
        self.words = words
        self.schema = schema
        self.durations = durations
    }

    func orNull(_ words: String) -> ValueForm {
        ValueForm(
            "\(self.words); `null` for \(words)", schema: #"{ "oneOf": [{ "type": "null" }, \#(schema)] }"#,
            durations: durations)
    }
}

/// How values of a type are read, with position and advice in each message, and written.
struct ValueKind<Value: Hashable & SendableMetatype>: Sendable {
    let form: ValueForm
    /// Reads a value. The text is the key in messages. `nil` for an invalid value, which is reported.
    let read: @Sendable (inout TableReader, JSON5Node, String) -> Value?
    /// The value as `explain` shows it.
    let text: @Sendable (Value) -> String

    init(
        _ form: ValueForm, read: @escaping @Sendable (inout TableReader, JSON5Node, String) -> Value?,
        text: @escaping @Sendable (Value) -> String
    ) {
        self.form = form
        self.read = read
        self.text = text
    }
}

extension ValueKind<Duration> {
    static func duration(isZeroAllowed: Bool = false) -> Self {
        ValueKind(
            ValueForm(
                #"a duration: `"250ms"`, `"60s"`, `"5m"`, `"1h30m"`, `"2d"`"#,
                schema: ##"{ "$ref": "#/$defs/duration" }"##,
                durations: [[]]),
            read: { $0.duration($1, $2, isZeroAllowed: isZeroAllowed)?.value }, text: DurationText.text)
    }
}

extension ValueKind<Int> {
    static func integer(_ range: ClosedRange<Int>) -> Self {
        ValueKind(
            ValueForm(
                "\(range.lowerBound) to \(range.upperBound)",
                schema: #"{ "type": "integer", "minimum": \#(range.lowerBound), "maximum": \#(range.upperBound) }"#),
            read: { $0.integer($1, $2, range)?.value }, text: { "\($0)" })
    }
}

extension ValueKind<Bool> {
    static var flag: Self {
        ValueKind(
            ValueForm("`true`, `false`", schema: #"{ "type": "boolean" }"#),
            read: { $0.flag($1, $2)?.value }, text: { "\($0)" })
    }
}

extension ValueKind<ContentCoding> {
    /// The name of a coding that the SDK has, or `null` for none.
    static var contentCoding: Self {
        let names = ContentCoding.known.map(\.name)
        let words = names.map { "\"\($0)\"" }
        return ValueKind(
            ValueForm(
                words.map { "`\($0)`" }.joined(separator: ", "),
                schema: #"{ "enum": [\#(words.joined(separator: ", "))] }"#
            ).orNull("none"),
            read: { reader, node, key in
                if case .null = node.value { return .identity }
                let expected = words.joined(separator: ", ") + ", or null for none"
                guard let text = reader.text(node, key, expected)?.value else { return nil }
                if let coding = ContentCoding.known.first(where: { $0.name == text }) { return coding }
                reader.reportChoice(node, text, key, names)
                return nil
            }, text: { $0 == .identity ? "null" : $0.name })
    }
}

extension ValueKind where Value: RawRepresentable<String> & CaseIterable & Sendable {
    /// One of the words of a type.
    static func word(_: Value.Type) -> ValueKind<Value> {
        let words = Value.allCases.map { "\"\($0.rawValue)\"" }
        return ValueKind(
            ValueForm(
                words.map { "`\($0)`" }.joined(separator: ", "),
                schema: #"{ "enum": [\#(words.joined(separator: ", "))] }"#),
            read: { $0.choice($1, $2, Value.self)?.value }, text: { $0.rawValue })
    }
}

extension ValueKind<String> {
    /// A text that is not empty.
    ///
    /// - Parameter expected: what it is, for messages.
    static func name(_ expected: String, _ text: @escaping @Sendable (String) -> String = { $0 }) -> Self {
        ValueKind(
            ValueForm(expected, schema: #"{ "type": "string", "minLength": 1 }"#),
            read: { $0.name($1, $2, expected)?.value }, text: text)
    }

    /// The path of a file; a relative one is relative to the table's folder.
    static func file(_ expected: String) -> Self {
        ValueKind(
            ValueForm(expected, schema: #"{ "type": "string", "minLength": 1 }"#),
            read: { reader, node, key in
                reader.name(node, key, expected).map { reader.file($0.value, key, node) }
            }, text: { $0 })
    }
}

extension ValueKind {
    /// One of the words of a type for each of some parameters.
    ///
    /// - Parameter form: what it is, for messages.
    private static func words<Word: RawRepresentable<String> & CaseIterable & Sendable>(
        _ form: String
    ) -> Self where Value == [String: Word] {
        let words = Word.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
        return ValueKind(
            ValueForm(
                form, schema: #"{ "type": "object", "additionalProperties": { "enum": [\#(words)] } }"#),
            read: { reader, node, key in
                var values: [String: Word] = [:]
                for (member, _) in reader.entries(of: node, called: "\"\(key)\"", each: "parameter") {
                    values[member.key] = reader.choice(member.value, member.key, Word.self)?.value
                }
                return values
            },
            text: { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.rawValue)" }.joined(separator: ", ") })
    }
}

extension ValueKind<[String: ParameterEncoding.Arrays]> {
    /// The styles of arrays by the names of parameters.
    static var styles: Self { words("names with the words of `arrays`") }
}

extension ValueKind<[String: DomainTable.ParameterNote]> {
    /// Types by the names of parameters.
    static var documentedParameters: Self {
        words(
            "names with a type of JSON or `any`, and `?` where the parameter may be left out: `{ page: \"integer?\" }`")
    }
}

extension ValueKind<[String]> {
    /// Names of parameters.
    static func names(_ expected: String) -> Self {
        ValueKind(
            ValueForm(
                "an array of names", schema: #"{ "type": "array", "items": { "type": "string", "minLength": 1 } }"#),
            read: { $0.names($1, $2, expected) }, text: { $0.joined(separator: ", ") })
    }

    static var pins: Self {
        ValueKind(
            ValueForm(
                #"`["sha256//…"]`, each with the Base64 of the SHA-256 of a public key"#,
                schema:
                    #"{ "type": "array", "items": { "type": "string", "pattern": "^sha256//[A-Za-z0-9+/]{43}=$" } }"#),
            read: { reader, node, _ in reader.pins(node) }, text: { $0.joined(separator: ", ") })
    }
}

extension ValueKind<Set<Int>> {
    static var statuses: Self {
        ValueKind(
            ValueForm("an array of statuses", schema: ##"{ "$ref": "#/$defs/statuses" }"##),
            read: { reader, node, _ in reader.statuses(node) }, text: StatusText.list)
    }
}

extension ValueKind<Set<Int>> {
    /// Statuses, and classes of them by their first digit.
    static var documentedStatuses: Self {
        ValueKind(
            ValueForm(
                #"an array of statuses and classes: `[200, "4XX"]`"#,
                schema:
                    #"{ "type": "array", "items": { "anyOf": [{ "type": "integer", "minimum": 100, "maximum": 599 }, { "enum": ["1XX", "2XX", "3XX", "4XX", "5XX"] }] } }"#
            ),
            read: { reader, node, _ in reader.documentedStatuses(node) },
            text: { numbers in
                numbers.isEmpty
                    ? "none" : numbers.sorted().map { $0 < 10 ? "\($0)XX" : "\($0)" }.joined(separator: ", ")
            })
    }
}

enum StatusText {
    static func list(_ numbers: Set<Int>) -> String {
        numbers.isEmpty ? "none" : numbers.sorted().map { "\($0)" }.joined(separator: ", ")
    }
}

extension ValueKind<CachePolicy.TimeToLive> {
    static var timeToLive: Self {
        ValueKind(
            ValueForm(
                #"`"5m"`, `"sliding 5m"`, `"forever"`"#,
                schema:
                    ##"{ "anyOf": [{ "const": "forever" }, { "type": "string", "pattern": "^sliding [0-9]" }, { "$ref": "#/$defs/duration" }] }"##,
                durations: [[]]),
            read: { reader, node, _ in reader.timeToLive(node) },
            text: { ttl in
                switch ttl {
                case .fixed(let duration): DurationText.text(duration)
                case .sliding(let duration): "sliding " + DurationText.text(duration)
                case .forever: "forever"
                }
            })
    }
}

extension ValueKind<Coding.Dates> {
    static var dates: Self {
        ValueKind(
            ValueForm(
                #"`"iso8601"`, `"unixSeconds"`, `"unixMilliseconds"`, `"secondsSince2001"`, a pattern such as `"yyyy-MM-dd HH:mm:ss"`"#,
                schema:
                    #"{ "anyOf": [{ "enum": ["iso8601", "unixSeconds", "unixMilliseconds", "secondsSince2001"] }, { "type": "string", "pattern": "^(?=.*y)(?=.*M)(?=.*d)" }] }"#
            ),
            read: { reader, node, _ in reader.dates(node) },
            text: { dates in
                switch dates {
                case .iso8601, .iso8601WithFractionalSeconds: "iso8601"
                case .unixSeconds: "unixSeconds"
                case .unixMilliseconds: "unixMilliseconds"
                case .secondsSince2001: "secondsSince2001"
                case .pattern(let text): text
                }
            })
    }
}

extension ValueKind<ProxyPolicy> {
    static var proxy: Self {
        ValueKind(
            ValueForm(
                #"a URL, `"direct"`, `"environment"`"#,
                schema:
                    #"{ "anyOf": [{ "enum": ["direct", "environment"] }, { "type": "string", "pattern": "^(https?|socks4a?|socks5h?)://[^\\s#]+$" }] }"#
            ),
            read: { reader, node, _ in reader.proxy(node) },
            text: { proxy in
                switch proxy {
                case .environment: "environment"
                case .direct: "direct"
                case .url(let url): HTTPAddress.redacted(url)
                }
            })
    }
}
