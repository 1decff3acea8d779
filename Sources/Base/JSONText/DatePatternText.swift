/// The elements of a pattern of dates with the letters of Unicode (UTS #35), such as `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`.
///
/// This type is in this module because both the check of a table and the coding of values read patterns.
package struct DatePatternText: Sendable {
    package enum Element: Hashable, Sendable {
        case literal(String)
        case field(Character, width: Int)
    }

    /// What is wrong with a pattern, as the end of a sentence that begins with it.
    package struct Problem: Error {
        package let reason: String
    }

    package private(set) var elements: [Element] = []

    /// Reads a pattern. It needs a year, a month and a day.
    package init(_ text: String) throws(Problem) {
        var rest = Substring(text)
        while let first = rest.first {
            if first == "'" {
                elements.append(.literal(try Self.quoted(&rest)))
            } else if first.isASCII && first.isLetter {
                let field = rest.prefix { $0 == first }
                try Self.check(first, field.count)
                elements.append(.field(first, width: field.count))
                rest = rest.dropFirst(field.count)
            } else {
                elements.append(.literal(String(rest.removeFirst())))
            }
        }
        for letter in ["y", "M", "d"] as [Character] where !has(letter) {
            throw Problem(reason: "has no \"\(letter)\"; a date needs year, month and day")
        }
    }

    private func has(_ letter: Character) -> Bool {
        elements.contains { if case .field(letter, _) = $0 { true } else { false } }
    }

    private static func check(_ letter: Character, _ width: Int) throws(Problem) {
        let widths: [Character: ClosedRange<Int>] = [
            "y": 2...4, "M": 1...3, "d": 1...2, "H": 1...2, "m": 1...2, "s": 1...2, "S": 1...9, "X": 1...3, "Z": 1...5,
        ]
        guard let allowed = widths[letter] else {
            throw Problem(
                reason: "has the letter \"\(letter)\", which is not one of y M d H m s S X Z; quote text, as in "
                    + "\"yyyy-MM-dd'T'HH:mm\"")
        }
        guard allowed.contains(width), letter != "y" || width != 3 else {
            throw Problem(
                reason: "has \"\(letter)\" \(width == 1 ? "once" : "\(width) times"); write "
                    + (letter == "y" ? "yy or yyyy" : "at most \(allowed.upperBound)"))
        }
    }

    /// Reads quoted text. Two quotes in a row stand for one, within quotes and outside.
    private static func quoted(_ rest: inout Substring) throws(Problem) -> String {
        rest.removeFirst()
        if rest.first == "'" { return String(rest.removeFirst()) }
        var literal = ""
        while let end = rest.firstIndex(of: "'") {
            literal += rest[..<end]
            rest = rest[rest.index(after: end)...]
            guard rest.first == "'" else { return literal }
            literal.append(rest.removeFirst())
        }
        throw Problem(reason: "has a quote that is not closed")
    }
}
