import FoundationEssentials
import HTTPCore
import Testing

/// The algorithm of RFC 6265 §5.1.1. Most inputs are those of the IETF's http-state test suite.
@Suite struct CookieDateTests {
    @Test(arguments: [
        ("Thu, 01-Jan-70 00:00:10 GMT", "Thu, 01 Jan 1970 00:00:10 GMT"),
        ("Thu, 01-Jan-69 00:00:10 GMT", "Tue, 01 Jan 2069 00:00:10 GMT"),
        ("01 Jan 99 1:2:3", "Fri, 01 Jan 1999 01:02:03 GMT"), ("1 jan 00 1:2:3", "Sat, 01 Jan 2000 01:02:03 GMT"),
        ("Mon, 10-Dec-2007 17:02:24 GMT", "Mon, 10 Dec 2007 17:02:24 GMT"),
        ("Wed, 09 Dec 2009 16:27:23 GMT", "Wed, 09 Dec 2009 16:27:23 GMT"),
        ("Thu Apr 18 22:50:12 2107 GMT", "Mon, 18 Apr 2107 22:50:12 GMT"),
        ("22:50:12 Apr 18 2107", "Mon, 18 Apr 2107 22:50:12 GMT"),
        ("2107 April 18th 22:50:12x", "Mon, 18 Apr 2107 22:50:12 GMT"),
        ("\"Thu, 10 Apr 1980 16:33:12 GMT\"", "Thu, 10 Apr 1980 16:33:12 GMT"),
        ("Thu, 10-APR-1980@16:33:12:77z", "Thu, 10 Apr 1980 16:33:12 GMT"),
        // Zones are ignored.
        ("Thu, 10 Apr 1980 16:33:12 +0900", "Thu, 10 Apr 1980 16:33:12 GMT"),
        ("Thu, 10 Apr 1980 16:33:12 PST", "Thu, 10 Apr 1980 16:33:12 GMT"),
        ("29 Feb 2024 00:00:00", "Thu, 29 Feb 2024 00:00:00 GMT"),
        ("1 Jan 1601 0:0:0", "Mon, 01 Jan 1601 00:00:00 GMT"),
        ("31 Dec 9999 23:59:59", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ])
    func dateIsFoundByTheShapeOfItsParts(text: String, date: String) {
        #expect(CookieDate.parse(text).map { HTTPDate.format($0) } == date)
    }

    @Test(arguments: [
        "", "soon", "0", "01 Jan 1970", "00:00:10", "01 Jan 00:00:10", "Jan 1970 00:00:10", "01 1970 00:00:10",
        "31 Feb 2024 00:00:00", "29 Feb 2023 00:00:00", "00 Jan 2024 00:00:00", "32 Jan 2024 00:00:00",
        "01 Jan 1600 00:00:00", "01 Jan 2024 24:00:00", "01 Jan 2024 00:60:00", "01 Jan 2024 00:00:60",
        "01 Jan 2024 000:00:00", "01 Jan 2024 00:00:000", "01 Jan 2024 00:00", "001 Jan 2024 00:00:00",
        "01 Jan 20244 00:00:00", "1 Jän 2024 00:00:00", "01 Jan 2024 00x:00:00",
    ])
    func incompleteOrImpossibleDateIsRefused(text: String) { #expect(CookieDate.parse(text) == nil) }

    /// Every form of a date gives the same time, and no order of its parts matters.
    @Test func everyDayIsReadInEveryOrder() throws {
        var seconds = -11_000_000_000.0
        while seconds < 250_000_000_000 {
            let date = Date(timeIntervalSince1970: seconds.rounded())
            let text = HTTPDate.format(date)
            #expect(CookieDate.parse(text) == date, "\(text)")
            let words = text.split(separator: " ").map(String.init)
            #expect(CookieDate.parse([words[4], words[1], words[2], words[3]].joined(separator: "/")) == date)
            #expect(CookieDate.parse(words.reversed().joined(separator: "-")) == date)
            seconds += 98_765_432.1
        }
    }
}
