internal import FoundationEssentials
import JSONText

/// A pattern of dates with the letters of Unicode (UTS #35), such as `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`.
package struct DatePattern: Sendable {
    package typealias Problem = CodingProblem

    private let elements: [DatePatternText.Element]
    private let text: String

    /// Reads a pattern. It needs a year, a month and a day.
    package init(_ text: String) throws(Problem) {
        self.text = text
        do throws(DatePatternText.Problem) {
            elements = try DatePatternText(text).elements
        } catch {
            throw Problem("the date pattern \"\(text)\" \(error.reason)")
        }
    }

    // MARK: Writing

    /// - Throws: a ``Problem`` for a year that two digits do not tell.
    func text(of date: Date) throws(Problem) -> String {
        let digits = elements.reduce(0) { if case .field("S", let width) = $1 { max($0, width) } else { $0 } }
        let time = CivilTime(date, unitsPerSecond: Double.powersOfTen[digits])
        if elements.contains(.field("y", width: 2)), Self.year(time.year % 100) != time.year {
            throw Problem(
                "the year \(time.year) would be read as \(Self.year(time.year % 100)) in \"\(text)\"; use yyyy")
        }
        return elements.map { element in
            switch element {
            case .literal(let text): text
            case .field(let letter, let width): Self.written(letter, width, time)
            }
        }.joined()
    }

    /// The year that two digits stand for (UTS #35, "Parsing Dates and Times"): from 80 years ago to 19 years from now.
    private static func year(_ lastDigits: Int) -> Int { CivilTime.year(lastDigits: lastDigits, atMostAhead: 19) }

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
        case "y": return set(\.year, width == 2 ? scanner.number(2).map(year) : scanner.number(4))
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
