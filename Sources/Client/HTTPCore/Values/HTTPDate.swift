package import FoundationEssentials
import JSONText

/// Parses and formats the dates of header fields (RFC 9110 §5.6.7), without a `Calendar`.
package enum HTTPDate {
    /// Parses an IMF-fixdate, or one of the two obsolete formats that a recipient has to accept (RFC 850, asctime).
    /// `nil` for anything else, such as `0` and `-1`.
    package static func parse(_ text: some StringProtocol) -> Date? {
        var text = String(text)
        return text.withUTF8 { bytes in
            let words = bytes.split(separator: 0x20)
            switch words.count {
            case 6: return bytes.count == 29 ? fixdate(words) : nil
            case 4: return rfc850(words)
            case 5: return asctime(words)
            default: return nil
            }
        }
    }

    /// Formats a date as an IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`, rounded down to whole seconds.
    package static func format(_ date: Date) -> String {
        let time = CivilTime(date)
        let weekday = ((CivilTime.days(time.year, time.month, time.day) + 4) % 7 + 7) % 7
        return "\(weekdays[weekday]), \(two(time.day)) \(CivilTime.months[time.month - 1]) "
            + "\(CivilTime.padded(time.year, 4)) \(two(time.hour)):\(two(time.minute)):\(two(time.second)) GMT"
    }

    // MARK: The three formats

    private typealias Word = UnsafeBufferPointer<UInt8>.SubSequence

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, exactly 29 bytes.
    private static func fixdate(_ words: [Word]) -> Date? {
        guard words[0].count == 4, words[0].last == UInt8(ascii: ","), isZone(words[5]),
            words[1].count == 2, words[3].count == 4, let day = number(words[1]), let month = month(words[2]),
            let year = number(words[3])
        else { return nil }
        return date(year, month, day, words[4])
    }

    /// `Sunday, 06-Nov-94 08:49:37 GMT`. A year over 50 years ahead belongs to the last century (RFC 9110 §5.6.7).
    private static func rfc850(_ words: [Word]) -> Date? {
        let parts = words[1].split(separator: UInt8(ascii: "-"))
        guard words[0].last == UInt8(ascii: ","), isZone(words[3]), parts.count == 3, parts[0].count == 2,
            parts[2].count == 2, let day = number(parts[0]), let month = month(parts[1]),
            let shortYear = number(parts[2])
        else { return nil }
        return date(CivilTime.year(lastDigits: shortYear, atMostAhead: 50), month, day, words[2])
    }

    /// `Sun Nov  6 08:49:37 1994`.
    private static func asctime(_ words: [Word]) -> Date? {
        guard words[0].count == 3, let month = month(words[1]), words[2].count <= 2, let day = number(words[2]),
            words[4].count == 4, let year = number(words[4])
        else { return nil }
        return date(year, month, day, words[3])
    }

    // MARK: Pieces

    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let monthCodes = CivilTime.months.compactMap { code($0.utf8) }

    /// Three letters as a number, ignoring case.
    private static func code(_ word: some Collection<UInt8>) -> UInt32? {
        word.count == 3 ? word.reduce(0) { $0 << 8 | UInt32($1 | 0x20) } : nil
    }

    private static func isZone(_ word: Word) -> Bool { code(word) == code("gmt".utf8) }

    private static func month(_ word: Word) -> Int? { code(word).flatMap(monthCodes.firstIndex).map { $0 + 1 } }

    private static func number(_ digits: Word) -> Int? {
        guard !digits.isEmpty, digits.allSatisfy(\.isDigit) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    private static func date(_ year: Int, _ month: Int, _ day: Int, _ time: Word) -> Date? {
        let parts = time.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        guard parts.count == 3, parts.allSatisfy({ $0.count == 2 }), let hour = number(parts[0]),
            let minute = number(parts[1]), let second = number(parts[2])
        else { return nil }
        return CivilTime(year: year, month: month, day: day, hour: hour, minute: minute, second: second).date
    }

    private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}

extension HTTPHeaders {
    /// The field `Date`. Other times of a response count from it, because the clock of this machine may be wrong.
    package var date: Date? { self["Date"].flatMap(HTTPDate.parse) }
}
