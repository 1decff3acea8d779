package import FoundationEssentials
import JSONText

/// Parses the `Expires` attribute of a cookie (RFC 6265 §5.1.1), in any of the many forms that servers send.
///
/// The rule is that of browsers: the parts are found by their shape, in any order; two-digit years from 70 on belong to
/// the last century; names of days and zones are ignored, so that every time is in UTC.
package enum CookieDate {
    /// Returns the date; `nil` when a part is missing or the day or time does not exist.
    package static func parse(_ text: some StringProtocol) -> Date? {
        var time: [Int]?
        var day: Int?
        var month: Int?
        var year: Int?
        for token in text.utf8.split(whereSeparator: isDelimiter) {
            if time == nil, let found = hourMinuteSecond(token) {
                time = found
            } else if day == nil, let found = number(token, digits: 1...2) {
                day = found
            } else if month == nil, let found = monthNumber(token) {
                month = found
            } else if year == nil, let found = number(token, digits: 2...4) {
                year = found
            }
        }
        guard let time, let day, let month, var year else { return nil }
        if year < 100 { year += year < 70 ? 2000 : 1900 }
        // CivilTime takes second 60, which this rule does not.
        guard year >= 1601, time[2] < 60 else { return nil }
        return CivilTime(year: year, month: month, day: day, hour: time[0], minute: time[1], second: time[2]).date
    }

    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
        default: false
        }
    }

    /// `8:49:37`, also with other text after it.
    private static func hourMinuteSecond(_ token: some Collection<UInt8>) -> [Int]? {
        let parts = token.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[..<2].allSatisfy({ $0.allSatisfy(\.isDigit) }) else { return nil }
        let numbers = parts.compactMap { number($0, digits: 1...2) }
        return numbers.count == 3 ? numbers : nil
    }

    /// A number at the beginning of a token, if it has the right count of digits and no further digit follows.
    private static func number(_ token: some Collection<UInt8>, digits: ClosedRange<Int>) -> Int? {
        let found = token.prefix(while: \.isDigit)
        return digits.contains(found.count) ? found.reduce(0) { $0 * 10 + Int($1 - 0x30) } : nil
    }

    /// The month whose first three letters begin a token.
    private static func monthNumber(_ token: some Collection<UInt8>) -> Int? {
        let start = token.prefix(3).map { $0 | 0x20 }
        return CivilTime.months.firstIndex { $0.utf8.map { $0 | 0x20 } == start }.map { $0 + 1 }
    }
}
