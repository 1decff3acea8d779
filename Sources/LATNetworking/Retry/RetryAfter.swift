/// The field `Retry-After` (RFC 9110 §10.2.3): seconds, or a date.
enum RetryAfter {
    /// How long to wait; zero for a moment that is over, `nil` for text that is neither.
    ///
    /// - Parameter now: the seconds since 1970.
    static func wait(_ text: String, now: Int64) -> Duration? {
        let text = text.trimmed
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            // More digits than a number holds is for ever.
            return .seconds(Int64(text).map { min($0, 1 << 40) } ?? 1 << 40)
        }
        return seconds(ofDate: String(text)).map { .seconds(max(0, $0 - now)) }
    }

    /// The seconds since 1970 of an HTTP date in any of its three forms (RFC 9110 §5.6.7).
    static func seconds(ofDate text: String) -> Int64? {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }
        switch words.count {
        case 6:  // Sun, 06 Nov 1994 08:49:37 GMT; Sunday, 06-Nov-94 08:49:37 GMT
            guard words[5] == "GMT", var year = Int64(words[3]), words[3].utf8.allSatisfy({ $0 != 0x2B }) else {
                return nil
            }
            if words[3].count == 2 { year += year < 70 ? 2000 : 1900 }
            return seconds(year: year, month: words[2], day: words[1], time: words[4])
        case 5:  // Sun Nov  6 08:49:37 1994
            guard let year = Int64(words[4]) else { return nil }
            return seconds(year: year, month: words[1], day: words[2], time: words[3])
        default:
            return nil
        }
    }

    private static func seconds(year: Int64, month: Substring, day: Substring, time: Substring) -> Int64? {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let parts = time.split(separator: ":").map { Int64($0) }
        guard let month = months.firstIndex(of: String(month)).map({ Int64($0 + 1) }), let day = Int64(day),
            (1...31).contains(day), (1600...9999).contains(year), parts.count == 3, let hour = parts[0],
            let minute = parts[1], let second = parts[2], (0...23).contains(hour), (0...59).contains(minute),
            (0...60).contains(second)
        else { return nil }
        return days(year: year, month: month, day: day) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    /// The days since 1970 of a date of the Gregorian calendar, counted in years that begin in March.
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = year / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension String {
    /// Without spaces and tabs at its ends.
    fileprivate var trimmed: Substring {
        var text = self[...]
        while let last = text.utf8.last, last == 0x20 || last == 0x09 { text = text.dropLast() }
        return text.drop { $0 == " " || $0 == "\t" }
    }
}
