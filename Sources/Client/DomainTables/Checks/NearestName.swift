import HTTPCore

/// Finds the name that was probably meant by a mistyped one.
package enum NearestName {
    /// The longest text that is compared, in bytes, and the largest number of names: advice is not worth more time.
    package static let longestText = 256, mostNames = 1_000

    /// The name with the smallest edit distance, the first of equals; `nil` when all are too different.
    package static func of(_ text: String, among names: some Sequence<String>) -> String? {
        guard text.utf8.count <= longestText else { return nil }
        let typed = Array(text.lowercased())
        var best: (name: String, distance: Int)?
        for name in names.prefix(mostNames) where name.utf8.count <= longestText {
            let meant = Array(name.lowercased())
            // Short names allow no mistake, because one changed letter makes another name.
            let limit = meant.count < 3 ? 0 : min(3, meant.count / 3)
            guard abs(meant.count - typed.count) <= limit else { continue }
            let distance = distance(typed, meant, atMost: limit)
            if distance <= limit, distance < best?.distance ?? .max { best = (name, distance) }
        }
        return best?.name
    }

    /// Advice as the rest of a sentence: `; did you mean "name"?` if a name is similar, else the list of names. It is
    /// empty if the list has more than 12 names.
    package static func advice(_ text: String, among names: [String], allCalled plural: String) -> String {
        if let name = of(text, among: names) { return "; did you mean \(QuotedText.of(name))?" }
        guard !names.isEmpty else { return "; there are no \(plural)" }
        guard names.count <= 12 else { return "" }
        return "; the \(plural) are " + names.map(QuotedText.unquoted).joined(separator: ", ")
    }

    /// The edit distance: the number of letters to add, remove, replace or swap with their neighbour.
    ///
    /// - Parameter limit: A distance above it may be reported as `limit + 1`, without being computed.
    package static func distance(_ left: [Character], _ right: [Character], atMost limit: Int = .max) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for row in 0..<left.count {
            var current = [row + 1]
            for column in 0..<right.count {
                var cost = min(
                    last[column] + (left[row] == right[column] ? 0 : 1), last[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            // A swap reaches back two rows, so both must be too far off.
            if let least = current.min(), least > limit, last.allSatisfy({ $0 > limit }) { return limit + 1 }
            (beforeLast, last) = (last, current)
        }
        return last[right.count]
    }
}

/// Quotes text of a file.
package enum QuotedText {
    private static let longest = 60

    /// The text for a message: in double quotes, shortened, with control characters escaped and what may be a password hidden:
    /// also in a URL without a scheme, and one with a slash.
    package static func of(_ text: String) -> String { "\"" + unquoted(text) + "\"" }

    /// The text as in ``of(_:)``, without the quotes.
    static func unquoted(_ text: String) -> String {
        var text = HTTPAddress.redacted(text)
        if let at = text.lastIndex(of: "@"),
            let colon = text[..<at].indices.first(where: { text[$0] == ":" && text[text.index(after: $0)] != "/" })
        {
            text.replaceSubrange(text.index(after: colon)..<at, with: Secrets.placeholder)
        }
        let scalars = text.unicodeScalars
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

/// The words that a name in Swift has in backticks.
package enum SwiftKeywords {
    package static let all: Set<String> = [
        "Any", "Self", "as", "associatedtype", "await", "break", "case", "catch", "class", "continue", "default",
        "defer", "deinit", "do", "else", "enum", "extension", "fallthrough", "false", "fileprivate", "for", "func",
        "guard", "if", "import", "in", "inout", "internal", "is", "let", "nil", "operator", "precedencegroup",
        "private", "protocol", "public", "repeat", "rethrows", "return", "static", "struct", "subscript", "super",
        "switch", "throw", "throws", "true", "try", "typealias", "var", "where", "while",
    ]
}
