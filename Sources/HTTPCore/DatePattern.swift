internal import FoundationEssentials
import JSONText

/// A pattern of dates with the letters of Unicode (UTS #35), such as `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`.
package struct DatePattern: Sendable {
    package typealias Problem = CodingProblem

    private enum Element: Sendable {
        case literal(String)
        case field(Character, width: Int)
    }

    private var elements: [Element] = []
    private let text: String

    /// Reads a pattern. It needs a year, a month and a day.
    package init(_ text: String) throws(Problem) {
        self.text = text
        var rest = Substring(text)
        while let first = rest.first {
            if first == "'" {
                elements.append(.literal(try Self.quoted(&rest, in: text)))
            } else if first.isASCII && first.isLetter {
                let field = rest.prefix { $0 == first }
                try check(first, field.count)
                elements.append(.field(first, width: field.count))
                rest = rest.dropFirst(field.count)
            } else {
                elements.append(.literal(String(rest.removeFirst())))
            }
        }
        for letter in ["y", "M", "d"] as [Character] where !has(letter) {
            throw Problem("the date pattern \"\(text)\" has no \"\(letter)\"; a date needs year, month and day")
        }
    }

    private func has(_ letter: Character) -> Bool {
        elements.contains { if case .field(letter, _) = $0 { true } else { false } }
    }

    private func check(_ letter: Character, _ width: Int) throws(Problem) {
        let widths: [Character: ClosedRange<Int>] = [
            "y": 2...4, "M": 1...3, "d": 1...2, "H": 1...2, "m": 1...2, "s": 1...2, "S": 1...9, "X": 1...3, "Z": 1...5,
        ]
        guard let allowed = widths[letter] else {
            throw Problem(
                "the date pattern \"\(text)\" has the letter \"\(letter)\", which is not one of y M d H m s S X Z; "
                    + "quote text, as in yyyy-MM-dd'T'HH:mm")
        }
        guard allowed.contains(width), letter != "y" || width != 3 else {
            throw Problem(
                "the date pattern \"\(text)\" has \"\(letter)\" \(width) times; write "
                    + (letter == "y" ? "yy or yyyy" : "at most \(allowed.upperBound)"))
        }
    }

    /// Reads quoted text. Two quotes in a row stand for one, within quotes and outside.
    private static func quoted(_ rest: inout Substring, in text: String) throws(Problem) -> String {
        rest.removeFirst()
        if rest.first == "'" { return String(rest.removeFirst()) }
        var literal = ""
        while let end = rest.firstIndex(of: "'") {
            literal += rest[..<end]
            rest = rest[rest.index(after: end)...]
            guard rest.first == "'" else { return literal }
            literal.append(rest.removeFirst())
        }
        throw Problem("the date pattern \"\(text)\" has a quote that is not closed")
    }

    // MARK: Writing

    func text(of date: Date) -> String {
        let digits = elements.reduce(0) { if case .field("S", let width) = $1 { max($0, width) } else { $0 } }
        let time = CivilTime(date, unitsPerSecond: Double.powersOfTen[digits])
        return elements.map { element in
            switch element {
            case .literal(let text): text
            case .field(let letter, let width): Self.written(letter, width, time)
            }
        }.joined()
    }

    private static func written(_ letter: Character, _ width: Int, _ time: CivilTime) -> String {
        switch letter {
        case "y": width == 2 ? CivilTime.padded(time.year % 100, 2) : CivilTime.padded(time.year, 4)
        case "M": width == 3 ? CivilTime.months[time.month - 1] : CivilTime.padded(time.month, width)
        case "d": CivilTime.padded(time.day, width)
        case "H": CivilTime.padded(time.hour, width)
        case "m": CivilTime.padded(time.minute, width)
        case "s": CivilTime.padded(time.second, width)
        case "S": CivilTime.padded(Int((time.fraction * Double.powersOfTen[width]).rounded()), width)
        // Dates are written in UTC: one to four Z as +0000, five Z and any number of X as the letter Z.
        default: letter == "Z" && width < 5 ? "+0000" : "Z"
        }
    }

    // MARK: Reading

    /// The date that a text stands for; `nil` when it does not match.
    func date(from text: String) -> Date? {
        var scanner = DigitScanner(text)
        var time = CivilTime()
        for element in elements {
            switch element {
            case .literal(let literal):
                guard scanner.skip(literal) else { return nil }
            case .field(let letter, let width):
                guard Self.read(letter, width, from: &scanner, into: &time) else { return nil }
            }
        }
        return scanner.isAtEnd ? time.date : nil
    }

    private static func read(
        _ letter: Character, _ width: Int, from scanner: inout DigitScanner, into time: inout CivilTime
    ) -> Bool {
        func set(_ field: WritableKeyPath<CivilTime, Int>, _ number: Int?) -> Bool {
            guard let number else { return false }
            time[keyPath: field] = number
            return true
        }
        switch letter {
        case "y": return set(\.year, width == 2 ? scanner.number(2).map { 2000 + $0 } : scanner.number(4))
        case "M" where width == 3: return set(\.month, CivilTime.months.firstIndex { scanner.skip($0) }.map { $0 + 1 })
        case "M": return set(\.month, scanner.number(width...2))
        case "d": return set(\.day, scanner.number(width...2))
        case "H": return set(\.hour, scanner.number(width...2))
        case "m": return set(\.minute, scanner.number(width...2))
        case "s": return set(\.second, scanner.number(width...2))
        case "S":
            guard let fraction = scanner.fraction() else { return false }
            time.fraction = fraction
            return true
        default: return set(\.offset, scanner.zone())
        }
    }
}
