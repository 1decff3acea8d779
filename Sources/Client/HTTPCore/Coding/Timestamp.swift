public import FoundationEssentials

/// A moment as a server wrote it (RFC 3339): the text as it came, and the date that it means.
///
/// ```swift
/// struct Booking: Codable {
///     var departure: Timestamp                 // 2025-03-01T09:30:00.123456789+02:00, sent back unchanged
///     var day: Timestamp.Day
/// }
/// func hasLeft(_ booking: Booking) -> Bool { booking.departure.date.map { $0 < .now } ?? false }
/// let now = Timestamp(.now)
/// ```
///
/// A `Date` loses the zone and what is below a microsecond, and a response with one text that is no date cannot be decoded.
/// This type keeps all of it, and needs no setting of ``Coding``. Use it for values that go back to the server; use `Date`
/// where only the moment counts.
public struct Timestamp: RawRepresentable, Codable, Hashable, Sendable {
    /// The text in JSON.
    public var rawValue: String

    /// Takes a text as it is.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A moment in UTC, with milliseconds if it has a fraction of a second. One outside of the years 0 to 9999, which RFC 3339
    /// cannot write, becomes the first or the last moment of them, here and in the other types.
    public init(_ date: Date) {
        let seconds = date.timeIntervalSince1970
        rawValue = CivilTime.iso8601(date, hasFraction: seconds.rounded() != seconds)
    }

    /// The moment; `nil` if the text is no date of RFC 3339. A day alone is its midnight in UTC.
    public var date: Date? { CivilTime.date(iso8601: rawValue) }
}

extension Timestamp {
    /// A day of the calendar without a time and a zone: `2025-03-01`.
    public struct Day: RawRepresentable, Codable, Hashable, Sendable {
        /// The text in JSON.
        public var rawValue: String

        /// Takes a text as it is.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A day by its numbers; they are not checked.
        public init(year: Int, month: Int, day: Int) {
            rawValue = "\(CivilTime.padded(year, 4))-\(CivilTime.padded(month, 2))-\(CivilTime.padded(day, 2))"
        }

        /// The day that it is in UTC at a moment.
        public init(_ date: Date) { rawValue = String(CivilTime.iso8601(date, hasFraction: false).prefix(10)) }

        /// The beginning of the day in UTC; `nil` if the text is no day.
        public var date: Date? { rawValue.utf8.count == 10 ? CivilTime.date(iso8601: rawValue) : nil }
    }

    /// A moment as seconds since 1970, in JSON a number.
    public struct Unix: RawRepresentable, Codable, Hashable, Sendable {
        /// The seconds since 1970.
        public var rawValue: Double

        /// A moment by its seconds.
        public init(rawValue: Double) { self.rawValue = rawValue }

        /// A moment, in whole seconds.
        public init(_ date: Date) { rawValue = date.timeIntervalSince1970.rounded(.down) }

        /// The moment.
        public var date: Date { Date(timeIntervalSince1970: rawValue) }
    }

    /// A moment as in mail and in HTTP (RFC 2822 §3.3): `Fri, 24 May 2019 17:44:46 +0000`.
    public struct Mail: RawRepresentable, Codable, Hashable, Sendable {
        /// The text in JSON.
        public var rawValue: String

        /// Takes a text as it is.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A moment in UTC, in whole seconds.
        public init(_ date: Date) { rawValue = HTTPDate.format(date).dropLast(3) + "+0000" }

        /// The moment; `nil` if the text has another form.
        public var date: Date? {
            var words = rawValue.split(separator: " ").map(String.init)
            // The day of the week is optional, and so are the seconds.
            if words.count == 5 { words.insert("Day,", at: 0) }
            guard words.count == 6, let zone = words.popLast() else { return nil }
            if words[4].utf8.count == 5 { words[4] += ":00" }
            if words[1].count == 1 { words[1] = "0" + words[1] }
            guard let date = HTTPDate.parse((words + ["GMT"]).joined(separator: " ")) else { return nil }
            if ["GMT", "UT", "UTC", "Z"].contains(zone) { return date }
            guard zone.utf8.count == 5, let offset = Int(zone) else { return nil }
            let minutes = abs(offset) / 100 * 60 + abs(offset) % 100
            return date.addingTimeInterval(Double(offset < 0 ? minutes : -minutes) * 60)
        }
    }
}
