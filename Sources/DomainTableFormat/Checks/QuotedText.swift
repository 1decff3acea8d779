/// Quotes text of a file in a message.
package enum QuotedText {
    private static let longest = 60

    /// The text in double quotes, shortened, with control characters escaped and a password in a URL hidden.
    package static func of(_ text: String) -> String {
        let scalars = HTTPAddress.redacted(text).unicodeScalars
        var shown = ""
        for scalar in scalars.prefix(longest) {
            switch scalar {
            case "\"": shown += "\\\""
            case "\\": shown += "\\\\"
            case "\n": shown += "\\n"
            case "\r": shown += "\\r"
            case "\t": shown += "\\t"
            case _ where scalar.properties.generalCategory == .control:
                shown += "\\u{" + String(scalar.value, radix: 16) + "}"
            default: shown.unicodeScalars.append(scalar)
            }
        }
        return "\"" + shown + (scalars.count > longest ? "…\"" : "\"")
    }
}
