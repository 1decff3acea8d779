/// Quotes text of a file.
package enum QuotedText {
    private static let longest = 60

    /// The text for a message: in double quotes, shortened, with control characters escaped and a password in a URL hidden.
    package static func of(_ text: String) -> String { "\"" + unquoted(text) + "\"" }

    /// The text as in ``of(_:)``, without the quotes.
    static func unquoted(_ text: String) -> String {
        let scalars = HTTPAddress.redacted(text).unicodeScalars
        let shown = escaped(scalars.prefix(longest), ["\n": "\\n", "\r": "\\r", "\t": "\\t"])
        return shown + (scalars.count > longest ? "…" : "")
    }

    /// The whole text as a literal of Swift, with control characters by their numbers.
    package static func literal(_ text: String) -> String { "\"" + escaped(text.unicodeScalars) + "\"" }

    private static func escaped(
        _ scalars: some Sequence<Unicode.Scalar>, _ short: [Unicode.Scalar: String] = [:]
    ) -> String {
        var escaped = ""
        for scalar in scalars {
            switch scalar {
            case "\"", "\\": escaped += "\\\(scalar)"
            case _ where scalar.properties.generalCategory == .control:
                escaped += short[scalar] ?? "\\u{\(String(scalar.value, radix: 16))}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
