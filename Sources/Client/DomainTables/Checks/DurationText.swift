import JSONText

/// The text form of durations in a table: `250ms`, `60s`, `5m`, `1h30m`, `2d`.
package enum DurationText {
    /// The name of the expected form in error messages.
    package static let expectation = #"a duration such as "250ms", "60s", "5m", "1h30m" or "2d""#

    /// The units, in the order they must have in a text.
    private static let units: [(name: String, milliseconds: Double)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]
    private static let longest = 36_525 * 86_400_000.0

    /// Parses a duration; `nil` when the text is malformed, negative, or longer than a hundred years.
    package static func parse(_ text: String) -> Duration? {
        var rest = text.utf8[...]
        var milliseconds = 0.0
        var lastUnit = -1
        while !rest.isEmpty {
            let number = rest.prefix { $0.isDigit || $0 == UInt8(ascii: ".") }
            rest = rest.dropFirst(number.count)
            let letters = rest.prefix { !$0.isDigit && $0 != UInt8(ascii: ".") }
            rest = rest.dropFirst(letters.count)
            guard number.first?.isDigit == true, number.last?.isDigit == true, let value = Double(String(number) ?? ""),
                let unit = units.firstIndex(where: { $0.name.utf8.elementsEqual(letters) }), unit > lastUnit
            else { return nil }
            lastUnit = unit
            milliseconds += value * units[unit].milliseconds
        }
        guard lastUnit >= 0, milliseconds <= longest else { return nil }
        return .microseconds(Int64((milliseconds * 1000).rounded()))
    }

    /// Formats a duration as it is written in a table.
    package static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let fraction = Double(attoseconds) / 1e15
        if seconds == 0, fraction > 0 { return number(fraction) + "ms" }
        var rest = seconds
        var text = ""
        for (name, length) in [("d", 86_400), ("h", 3_600), ("m", 60)] as [(String, Int64)] where rest >= length {
            text += "\(rest / length)\(name)"
            rest %= length
        }
        if rest > 0 || text.isEmpty { text += "\(rest)s" }
        return fraction > 0 ? text + number(fraction) + "ms" : text
    }

    private static func number(_ value: Double) -> String {
        value == value.rounded() ? "\(Int64(value))" : "\(value)"
    }
}
