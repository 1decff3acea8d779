import LATNetworking

/// Formats numbers for people.
enum Quantity {
    /// A size such as `812 B`, `12.3 KiB`, `4.00 MiB`: three significant digits.
    static func bytes(_ count: Int64) -> String {
        guard count >= 1_024 else { return "\(max(0, count)) B" }
        var value = Double(count) / 1_024
        var unit = 0
        let units = ["KiB", "MiB", "GiB", "TiB"]
        // 999.5 or more would show four digits.
        while value >= 999.5, unit < units.count - 1 {
            value /= 1_024
            unit += 1
        }
        return "\(threeDigits(value)) \(units[unit])"
    }

    /// A rate such as `1.02 MiB/s`.
    static func rate(_ count: Int64, in time: Duration) -> String {
        "\(bytes(Int64(Double(count) / max(time / .seconds(1), 0.000_1))))/s"
    }

    /// A duration such as `40 µs`, `1.23 ms`, `45.0 ms`, `1.52 s`, `2 m 05 s`, `3 h 07 m`.
    static func duration(_ duration: Duration) -> String {
        let microseconds = max(0, duration.microseconds)
        let seconds = (microseconds + 500_000) / 1_000_000
        switch microseconds {
        case ..<1_000: return "\(microseconds) µs"
        case ..<999_500: return "\(threeDigits(Double(microseconds) / 1_000)) ms"
        case ..<59_950_000: return "\(threeDigits(Double(microseconds) / 1_000_000)) s"
        case ..<3_599_500_000: return "\(seconds / 60) m \(twoDigits(seconds % 60)) s"
        default: return "\(seconds / 3_600) h \(twoDigits(seconds / 60 % 60)) m"
        }
    }

    /// A number such as `12,345`.
    static func grouped(_ number: Int) -> String {
        var digits = Array(String(number.magnitude))
        for end in stride(from: digits.count - 3, to: 0, by: -3) { digits.insert(",", at: end) }
        return (number < 0 ? "-" : "") + String(digits)
    }

    private static func threeDigits(_ value: Double) -> String {
        let places = value < 9.995 ? 2 : value < 99.95 ? 1 : 0
        let scale = [1, 10, 100][places]
        let scaled = Int((value * Double(scale)).rounded())
        guard places > 0 else { return "\(scaled)" }
        return "\(scaled / scale)." + "\(scaled % scale)".padded(toStart: places, with: "0")
    }

    private static func twoDigits(_ number: Int64) -> String { "\(number)".padded(toStart: 2, with: "0") }
}

extension Duration {
    /// The whole microseconds.
    var microseconds: Int64 { components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000 }
}

/// Makes untrusted text safe for a terminal.
enum SafeText {
    /// One line in which control characters, which could move the cursor or end the line, show as `\n` or `\u{1b}`.
    static func line(_ text: String) -> String {
        escaped(text) { scalar in
            switch scalar {
            case "\n": "\\n"
            case "\r": "\\r"
            case "\t": "\\t"
            default: "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
    }

    /// Replaces each character on which a terminal may act by an escape.
    static func escaped(_ text: String, as escape: (Unicode.Scalar) -> String) -> String {
        guard text.unicodeScalars.contains(where: \.controlsTerminal) else { return text }
        return text.unicodeScalars.map { $0.controlsTerminal ? escape($0) : String($0) }.joined()
    }

    static let widestLabel = 24

    /// A name in one line, shortened to fit beside other facts.
    static func label(_ text: String) -> String {
        let name = line(text)
        return name.count <= widestLabel ? name : name.prefix(12) + "…" + name.suffix(11)
    }
}

extension String {
    func padded(toEnd width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
    func padded(toStart width: Int, with filler: Character = " ") -> String {
        String(repeating: filler, count: max(0, width - count)) + self
    }

    /// The text in one line if it fits, otherwise wrapped.
    func fitted(to width: Int) -> [String] { count <= width ? [self] : wrapped(to: width) }

    func wrapped(to width: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in split(separator: " ") {
            if !line.isEmpty, line.count + 1 + word.count > width {
                lines.append(line)
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        return line.isEmpty ? lines : lines + [line]
    }
}

extension [[String]] {
    /// The rows with their cells padded to columns. The last cell of a row needs no padding.
    var aligned: [[String]] {
        let widths = (0..<(map(\.count).max() ?? 0)).map { column in
            map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        return map { row in
            zip(row, widths).dropLast().map { $0.padded(toEnd: $1) } + row.suffix(1)
        }
    }
}

extension [String] {
    /// The texts as a list: `a, b and c`.
    var listed: String {
        guard let last, count > 1 else { return first ?? "" }
        return dropLast().joined(separator: ", ") + " and " + last
    }
}

extension JSONValue {
    /// A text, or null.
    static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }

    /// Milliseconds with their fraction; null for an unknown duration.
    static func milliseconds(_ duration: Duration?) -> JSONValue {
        duration.map { .double(Double($0.microseconds) / 1_000) } ?? .null
    }
}
