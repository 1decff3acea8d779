internal import FoundationEssentials
import JSONText

/// A day and time of the Gregorian calendar, in UTC unless ``offset`` says otherwise, computed without a `Calendar`.
struct CivilTime {
    var year = 1970
    var month = 1
    var day = 1
    var hour = 0
    var minute = 0
    /// 60 in a leap second, which counts as the beginning of the next minute.
    var second = 0
    var fraction = 0.0
    /// Seconds east of UTC.
    var offset = 0

    static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}

extension CivilTime {
    /// The years 0 to 9999 in seconds since 1970: RFC 3339 has four digits. `Date.distantPast` is in the year 0.
    static let yearsInText = -62_167_219_200.0..<253_402_300_800.0

    /// The time in UTC, in seconds rounded down, or in smaller units rounded to the nearest. A date outside of
    /// ``yearsInText`` is the first or the last moment of it.
    init(_ date: Date, unitsPerSecond: Double = 1) {
        self.init()
        // A time with a fraction is rounded to the nearest unit first, because a `Date` does not hold 0.1 s exactly.
        let nearest =
            unitsPerSecond == 1
            ? date.timeIntervalSince1970.rounded(.down) : (date.timeIntervalSince1970 * unitsPerSecond).rounded()
        let last = (Self.yearsInText.upperBound * unitsPerSecond).nextDown.rounded(.down)
        // In this order `max` takes the first argument instead of NaN.
        let units = min(max(Self.yearsInText.lowerBound * unitsPerSecond, nearest), last)
        let seconds = (units / unitsPerSecond).rounded(.down)
        fraction = (units - seconds * unitsPerSecond) / unitsPerSecond
        let total = Int(seconds)
        let days = total.dividedRoundingDown(by: 86_400)
        let time = total - days * 86_400
        (year, month, day) = Self.civil(days)
        (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60)
    }

    /// The date; `nil` for a day or time that does not exist.
    var date: Date? {
        guard (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second), (1...31).contains(day),
            (1...12).contains(month), abs(offset) < 86_400
        else { return nil }
        let days = Self.days(year, month, day)
        guard Self.civil(days) == (year, month, day) else { return nil }
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset
        return Date(timeIntervalSince1970: Double(seconds) + fraction)
    }

    // MARK: ISO 8601

    static func iso8601(_ date: Date, hasFraction: Bool) -> String {
        let time = CivilTime(date, unitsPerSecond: hasFraction ? 1000 : 1)
        var text = "\(padded(time.year, 4))-\(padded(time.month, 2))-\(padded(time.day, 2))T"
        text += "\(padded(time.hour, 2)):\(padded(time.minute, 2)):\(padded(time.second, 2))"
        if hasFraction { text += ".\(padded(Int((time.fraction * 1000).rounded()), 3))" }
        return text + "Z"
    }

    /// Reads `2025-03-01T09:30:00Z` with any zone and any fraction, also without seconds, and `2025-03-01` alone; `nil` for
    /// anything else. A time without a zone is refused, because it is ambiguous.
    static func date(iso8601 text: String) -> Date? {
        var scanner = DigitScanner(text)
        guard let year = scanner.number(4), scanner.skip("-"), let month = scanner.number(2), scanner.skip("-"),
            let day = scanner.number(2)
        else { return nil }
        var time = CivilTime(year: year, month: month, day: day)
        if scanner.isAtEnd { return time.date }
        guard scanner.skip("T") || scanner.skip("t") || scanner.skip(" "), let hour = scanner.number(2),
            scanner.skip(":"), let minute = scanner.number(2)
        else { return nil }
        (time.hour, time.minute) = (hour, minute)
        if scanner.skip(":") {
            guard let second = scanner.number(2) else { return nil }
            time.second = second
            if scanner.skip(".") || scanner.skip(",") {
                guard let fraction = scanner.fraction() else { return nil }
                time.fraction = fraction
            }
        }
        guard let offset = scanner.zone(), scanner.isAtEnd else { return nil }
        time.offset = offset
        return time.date
    }

    // MARK: Days

    /// Days since 1970-01-01 in the Gregorian calendar, counted in eras of 400 years that begin in March.
    static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let year = month <= 2 ? year - 1 : year
        let era = year.dividedRoundingDown(by: 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    static func civil(_ days: Int) -> (year: Int, month: Int, day: Int) {
        let days = days + 719_468
        let era = days.dividedRoundingDown(by: 146_097)
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shifted + 2) / 5 + 1)
    }

    /// The last year with these two last digits that is at most so many years from now.
    static func year(lastDigits: Int, atMostAhead years: Int) -> Int {
        let latest = CivilTime(Date()).year + years
        return latest - (latest - lastDigits) % 100
    }

    static func padded(_ number: Int, _ width: Int) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

/// Reads digits and signs from the beginning of a text.
struct DigitScanner {
    private var rest: Substring.UTF8View

    init(_ text: String) { rest = Substring(text).utf8 }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ text: String) -> Bool {
        guard rest.starts(with: text.utf8) else { return false }
        rest.removeFirst(text.utf8.count)
        return true
    }

    /// A number with exactly this many digits.
    mutating func number(_ digits: Int) -> Int? { number(digits...digits) }

    /// A number of as many digits as follow, at most the upper bound; `nil` when there are fewer than the lower bound.
    mutating func number(_ digits: ClosedRange<Int>) -> Int? {
        let word = rest.prefix(digits.upperBound).prefix(while: \.isDigit)
        guard word.count >= digits.lowerBound else { return nil }
        rest.removeFirst(word.count)
        return word.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// The digits after a decimal separator.
    mutating func fraction() -> Double? {
        let word = rest.prefix(while: \.isDigit)
        guard !word.isEmpty else { return nil }
        rest.removeFirst(word.count)
        // A `Double` holds no more than 15 digits exactly.
        let digits = word.prefix(15)
        return digits.reduce(0.0) { $0 * 10 + Double($1 - 0x30) } / Double.powersOfTen[digits.count]
    }

    /// `Z`, `+02:00`, `+0200` or `+02`, in seconds east of UTC.
    mutating func zone() -> Int? {
        if skip("Z") || skip("z") { return 0 }
        let sign = skip("+") ? 1 : skip("-") ? -1 : 0
        guard sign != 0, let hours = number(2), hours < 24 else { return nil }
        let hasSeparator = skip(":")
        guard let minutes = number(2) else { return hasSeparator ? nil : sign * hours * 3600 }
        return minutes < 60 ? sign * (hours * 3600 + minutes * 60) : nil
    }
}

extension Int {
    /// The quotient rounded down, also for negative numbers.
    func dividedRoundingDown(by divisor: Int) -> Int {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
