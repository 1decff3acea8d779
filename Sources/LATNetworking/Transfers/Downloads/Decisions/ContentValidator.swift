import HTTPCore

/// What tells one version of a content from all others, strong enough to put parts of it together (RFC 9110 §8.8,
/// §13.1.5).
enum ContentValidator: Hashable, Sendable {
    /// A strong entity tag, quotes included.
    case entityTag(String)
    /// A `Last-Modified` that is a strong validator.
    case modified(String)

    /// The strong validator of a response; `nil` when it has none.
    ///
    /// A date counts only where there is no entity tag, not even a weak one (§13.1.5), and when the response was made
    /// long enough after it that the content cannot have changed twice in the same second (§8.8.2.2, which asks for one
    /// second of the same clock; a minute makes up for clocks that differ).
    init?(_ headers: HTTPHeaders) {
        if let tag = headers["ETag"] {
            guard Self.isStrong(tag) else { return nil }
            self = .entityTag(tag)
            return
        }
        guard let modified = headers["Last-Modified"], let then = HTTPDate.seconds(of: modified),
            let now = headers["Date"].flatMap(HTTPDate.seconds), now - then >= 60
        else { return nil }
        self = .modified(modified)
    }

    /// What `If-Range` carries.
    var fieldValue: String {
        switch self {
        case .entityTag(let tag): tag
        case .modified(let date): date
        }
    }

    /// What a part says of the version it belongs to.
    enum Comparison: Hashable {
        case same
        case different
        /// It does not name the tag it would have to name (RFC 9110 §15.3.7).
        case unknown
    }

    /// Compares with the fields of a 206, strongly. `ETag` has to be there when the whole had one; `Last-Modified` need
    /// not, since the server was asked by `If-Range` already.
    func compare(with headers: HTTPHeaders) -> Comparison {
        switch self {
        case .entityTag(let tag):
            guard let other = headers["ETag"] else { return .unknown }
            return other == tag ? .same : .different
        case .modified(let date):
            guard let other = headers["Last-Modified"] else { return .same }
            return other == date ? .same : .different
        }
    }

    /// A quoted text without `W/` (RFC 9110 §8.8.3).
    private static func isStrong(_ tag: String) -> Bool {
        let bytes = Array(tag.utf8)
        let quote = UInt8(ascii: "\"")
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return false }
        return bytes.dropFirst().dropLast().allSatisfy { $0 == 0x21 || (0x23...0x7E).contains($0) || $0 >= 0x80 }
    }
}

/// Dates of HTTP in their one living form, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Seconds since 1970; `nil` for anything else, the obsolete forms too.
    static func seconds(of text: String) -> Int64? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT", let day = number(parts[1], digits: 2),
            let month = months.firstIndex(of: String(parts[2])), let year = number(parts[3], digits: 4)
        else { return nil }
        let time = parts[4].split(separator: ":", omittingEmptySubsequences: false)
        guard time.count == 3, let hour = number(time[0], digits: 2), let minute = number(time[1], digits: 2),
            let second = number(time[2], digits: 2), (1...31).contains(day), hour < 24, minute < 60, second <= 60
        else { return nil }
        return days(year, Int64(month) + 1, day) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    /// Days since 1970 in the proleptic Gregorian calendar; the year begins in March, so that leap days come last.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func number(_ text: Substring, digits: Int) -> Int64? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text)
    }
}
