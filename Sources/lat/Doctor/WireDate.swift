import FoundationEssentials

/// Dates as they come over the wire, all of them in GMT.
enum WireDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// `Sat, 21 Nov 2026 04:30:38 GMT` of the `Date` field (RFC 9110 §5.6.7).
    static func ofHTTP(_ text: String) -> Date? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT" else { return nil }
        return date(day: words[1], month: words[2], year: words[3], time: words[4])
    }

    /// `Nov 21 04:30:38 2026 GMT` of a certificate, as OpenSSL writes it.
    static func ofCertificate(_ text: String) -> Date? {
        let words = text.split(separator: " ")
        guard words.count == 5, words[4] == "GMT" else { return nil }
        return date(day: words[1], month: words[0], year: words[3], time: words[2])
    }

    private static func date(day: Substring, month: Substring, year: Substring, time: Substring) -> Date? {
        let clock = time.split(separator: ":").compactMap { Int($0) }
        guard let day = Int(day), (1...31).contains(day), let year = Int(year), (1900...9999).contains(year),
            let month = months.firstIndex(of: String(month)), clock.count == 3, (0...23).contains(clock[0]),
            (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        // Days since 1970 by the civil calendar: years that begin in March have the leap day at their end.
        let shifted = month < 2 ? year - 1 : year
        let monthsFromMarch = (month + 10) % 12
        let era = shifted / 400
        let yearOfEra = shifted % 400
        let dayOfYear = (153 * monthsFromMarch + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        let seconds = days * 86_400 + clock[0] * 3_600 + clock[1] * 60 + clock[2]
        return Date(timeIntervalSince1970: Double(seconds))
    }
}
