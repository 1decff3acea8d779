import FoundationEssentials
import HTTPCore
import Testing

@Suite struct HTTPDateTests {
    private let known = Date(timeIntervalSince1970: 784_111_777)

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "sun, 06 nov 1994 08:49:37 gmt", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ])
    func allThreeFormatsAreParsed(_ text: String) { #expect(HTTPDate.parse(text) == known) }

    @Test(arguments: [
        "", "0", "-1", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
    ])
    func otherFormatsAreRejected(_ text: String) { #expect(HTTPDate.parse(text) == nil) }

    @Test func formattedDateParsesToTheSameDate() {
        #expect(HTTPDate.format(known) == "Sun, 06 Nov 1994 08:49:37 GMT")
        for seconds in stride(from: -3_000_000_000.0, through: 6_000_000_000, by: 7_654_321.0) {
            let date = Date(timeIntervalSince1970: seconds)
            #expect(HTTPDate.parse(HTTPDate.format(date)) == date)
        }
    }

    @Test func twoDigitYear00Is2000() throws {
        let year2000 = try #require(HTTPDate.parse("Saturday, 01-Jan-00 00:00:00 GMT"))
        #expect(HTTPDate.format(year2000) == "Sat, 01 Jan 2000 00:00:00 GMT")
    }
}
